"""Whether this process is a handler's own, or a pool's, and still imports its program: then it may start nothing."""

from __future__ import annotations

import multiprocessing

from holdfast.errors import InvalidInput

in_a_cell = False


def refuse_in_a_cell() -> None:
    """A program that runs its consumers when imported would start itself again and again."""
    if in_a_cell:
        raise InvalidInput(
            'a handler with isolation="process" is imported by its own process, and this module runs consumers when it '
            'is imported: put hf.run() under  if __name__ == "__main__":'
        )


def refuse_in_a_member() -> None:
    """The same for a process of a pool. Python says itself that a new process is still importing the program."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InvalidInput(
            "a process of a pool imports this program, and it runs consumers when it is imported: put hf.run() under  "
            'if __name__ == "__main__":'
        )
