"""Coverage measures by a tracer that runs in every thread. Some threads of tests must not have one."""

import sys


def not_traced() -> None:
    """Let no tracer run in this thread, because an interrupt may arrive at any of its lines.

    Coverage holds a lock now and then. Interrupted there, it would keep it, and every thread of the process would wait.
    """
    sys.settrace(None)
