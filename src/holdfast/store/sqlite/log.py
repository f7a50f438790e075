"""SQLite's write-ahead log, lengthened ahead of its writers.

A commit that makes a file longer waits until the file system has noted the new length, which takes longer than the
data does; one that writes over zeros waits for the data alone. SQLite reads the log up to the first frame that is not
its own, so zeros behind the last one mean nothing to it.
"""

from __future__ import annotations

import os
from contextlib import suppress

STEP = 524_288
"""Bytes by which it grows: a length that is no multiple of this is one that SQLite has written itself."""


class Log:
    """The log of one database file. It `is_short` if someone was seen to have written past the zeros."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path) + "-wal"
        self.is_short = False

    def look(self) -> None:
        """For whoever has committed, and keeps nobody waiting: what is found is for the next one who writes."""
        with suppress(OSError):
            self.is_short = os.stat(self._path).st_size % STEP > 0

    def lengthen(self) -> None:
        """For whoever has the write lock: nobody else writes there now. A full disk is for SQLite to complain about."""
        self.is_short = False
        with suppress(OSError), open(self._path, "r+b", buffering=0) as file:
            length = file.seek(0, os.SEEK_END)
            if length % STEP:  # Another process may have done it.
                file.write(bytes(STEP + STEP // 2 - (length + STEP // 2) % STEP))
