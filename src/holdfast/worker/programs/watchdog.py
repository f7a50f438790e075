"""A leash for programs: whatever a worker has started dies with it, even if it dies by `kill -9`.

The leash is a pipe whose writing end only the worker holds. A shell starts a watcher that waits for the pipe's end,
and then becomes the program itself, so the program's number, signals and exit code are its own. When the worker is
gone, the kernel closes the pipe, and the watcher kills the whole group, grandchildren included. Compared with a
parent-death signal it reaches the grandchildren too, does not depend on the thread that started the program, needs no
code between fork and exec, and is not Linux only.

Measured on a machine of 2 busy cores: 4.3 ms from start to end of `true`, against 2.5 ms without a leash, and one more
process with 0.2 MB of its own for as long as the program runs. (A watcher in Python costs 18 ms and megabytes.)
"""

from __future__ import annotations

import os
from collections.abc import Sequence

SHELL = "/bin/sh"

# The watcher is started by a shell in between, so that the program has no child that it knows nothing of. It holds none
# of the program's pipes, or they would never end, and is deaf to whatever the group is sent, all but SIGKILL; both from
# its first moment on, because the program does not wait for it. No variable is set: one of the same name in the
# environment would change for the program.
_SCRIPT = """
exec 3<&0 </dev/null
(
    trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE
    (
        read _
        [ -z "$1" ] || rm -rf -- "$1"
        kill -KILL 0
    ) <&3 3<&- &
) >/dev/null 2>&1
exec <"$2" 3<&-
shift 2
exec "$@"
"""


_held: set[int] = set()
"""The writing ends in this process."""


class Leash:
    """A pipe that nobody writes to. `end` is for the program; the other one is let go by us, or by our death."""

    def __init__(self) -> None:
        end, self._ours = os.pipe()
        self.end = os.fdopen(end, "rb", buffering=0)
        _held.add(self._ours)

    def __enter__(self) -> Leash:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.close()
        _held.discard(self._ours)
        os.close(self._ours)


def _let_go() -> None:
    """A forked copy of the worker must not hold the leash when the worker is gone."""
    for ours in _held:
        os.close(ours)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def leashed(command: Sequence[str], *, stdin: str, folder: str) -> list[str]:
    """The command that runs `command` on a leash, which it expects as its own stdin; `command` gets the file `stdin`.

    `folder`, if any, is removed when the worker dies.
    """
    return [SHELL, "-c", _SCRIPT, "holdfast", folder, stdin, *command]
