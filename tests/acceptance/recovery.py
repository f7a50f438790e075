"""Looks to others like a process that recovers a SQLite file: `python -m tests.acceptance.recovery PATH`.

After a crash in the middle of a commit the header of the WAL's index does not fit, and whoever finds that rebuilds the
index while everybody else waits. The bytes 120 and 122 of the index are SQLite's locks for writing and for recovering.
"""

import fcntl
import os
import sys

from tests.waiting import spend

HEADER = 48
LOCKS = (120, 122)


def recover(path: str, seconds: float) -> None:
    index = os.open(path + "-shm", os.O_RDWR)
    for lock in LOCKS:
        fcntl.lockf(index, fcntl.LOCK_EX, 1, lock)
    header = os.pread(index, HEADER, 0)
    os.pwrite(index, b"\xff" * HEADER, 0)
    print("recovering", flush=True)
    spend(seconds)
    os.pwrite(index, header, 0)


if __name__ == "__main__":
    recover(sys.argv[1], 0.5)
