"""SQLite's write-ahead log, lengthened ahead of its writers, and a reserve of disk space for when the disk is full.

A commit that makes a file longer waits until the file system has noted the new length, which takes longer than the
data does; one that writes over zeros waits for the data alone. SQLite reads the log up to the first frame that is not
its own, so zeros behind the last one mean nothing to it.

On a full disk the log cannot grow, and it cannot be written back (checkpointed) if the database would have to grow for
that: then not even a claim can be stored, so a backlog could not be drained. Therefore Holdfast keeps a reserve, a file
that only takes up space. When SQLite finds the disk full, the reserve is deleted, the log is written back with the room
this makes, and is used from its beginning again, which needs no more room. For this to work with a small reserve, the
log is kept short while the disk is nearly full.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress

from holdfast.store.sqlite import inodes
from holdfast.store.sqlite.engines import lost_log

STEP = 524_288
"""Bytes by which it grows: a length that is no multiple of this is one that SQLite has written itself."""

RESERVE = 1_048_576
"""Bytes that are kept for a full disk."""

TIGHT = 67_108_864
"""A disk with less room than this counts as nearly full: more than a log of the usual length takes to write back."""

USUAL_BOUNDS = (10_000, 84 * STEP)
"""Pages after which the log is written back, and the length to which it is cut when it starts anew. 40 MB: pages that
every commit writes again go from the log to the file ten times less often. A log that grew while readers kept it from
starting anew gets its usual length back."""

TIGHT_BOUNDS = (96, STEP)
"""The same on a disk that is nearly full: less than the reserve."""

LOOK_EVERY = 1.0
"""Seconds between two looks at the disk."""


class WalFile:
    """The log of one database file. It `is_short` if someone was seen to have written past the zeros; `is_tight` says
    that the disk is nearly full."""

    def __init__(self, path: str, engine: str = "apsw") -> None:
        self._path = os.path.realpath(path) + "-wal"
        self._bytes = os.fsencode(self._path)
        self._database = path
        self._engine = engine
        self._held: _Held | None = None
        self.is_lost = False
        self.reserve = Reserve(os.path.realpath(path) + "-reserve")
        self.next_look = -math.inf
        self.is_short = False
        self.is_tight = False

    @property
    def bounds(self) -> tuple[int, int]:
        """Pages after which the log is written back, and bytes to which it is cut."""
        return TIGHT_BOUNDS if self.is_tight else USUAL_BOUNDS

    def hold(self, number: int) -> None:
        """Our connections have this file open as the log; None of them has from `let_go` on."""
        if self._held is None:
            self._held = _Held(number)

    def let_go(self) -> None:
        """To be called before the connections are closed, which deletes the log."""
        self._held = None
        self.is_lost = False  # Whoever opens the database again is told by `connect`.

    def check(self) -> None:
        """Raises if the log was deleted or replaced while we have it open: what was just read or committed is not in
        the file that others, and we after a crash, would read. Also notes for the next writer whether it is short.

        No lock is held: if the connections were closed meanwhile, that is why it is gone.
        """
        held = self._held
        if held is None:
            return
        number, length = inodes.look(self._bytes) or (None, 0)
        if number == held.number:
            self.is_short = length % STEP > 0
        elif held is self._held:
            self.is_lost = True
            self.refuse_if_lost()

    def refuse_if_lost(self) -> None:
        """Raises if `check` has raised before: there is no way back for this process."""
        if self.is_lost:
            raise lost_log(self._database, self._engine)

    def look_at_disk(self, now: float) -> bool:
        """Notes whether the disk is nearly full and creates a missing reserve. Returns whether `bounds` changed."""
        self.next_look = now + LOOK_EVERY
        before, self.is_tight = self.is_tight, self.reserve.room() < TIGHT
        self.reserve.hold()
        return before is not self.is_tight

    def lengthen(self) -> None:
        """For whoever has the write lock: nobody else writes there now. A full disk is for SQLite to complain about."""
        self.is_short = False
        if self.is_tight:
            return
        with suppress(OSError), open(self._path, "r+b", buffering=0) as file:
            length = file.seek(0, os.SEEK_END)
            if length % STEP:  # Another process may have done it.
                file.write(bytes(STEP + STEP // 2 - (length + STEP // 2) % STEP))

    def leave(self) -> None:
        """After closing the database: deletes the reserve if SQLite has deleted the log, as the last client does.
        On a disk that is nearly full it stays: the next client may need it just to open the database."""
        if not os.path.exists(self._path) and self.reserve.room() >= TIGHT:
            self.reserve.release()


class _Held:
    """Which file the log is, for one opening of the database."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Reserve:
    """A file that takes up room for others to have when the disk is full. All processes share it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def room(self) -> float:
        """Bytes that are left on the disk."""
        try:
            disk = os.statvfs(os.path.dirname(self._path))
        except OSError:
            return math.inf
        return disk.f_bavail * disk.f_frsize

    def hold(self) -> bool:
        """Returns whether it is there, or could be made."""
        if os.path.exists(self._path):
            return True
        if self.room() < RESERVE + STEP:  # More than itself: whoever has just released it needs what it took.
            return False
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                _allocate(file)
            finally:
                os.close(file)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> None:
        """Deletes it: whoever needs the room has it now."""
        with suppress(OSError):
            os.unlink(self._path)


def _allocate(file: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, RESERVE)
    else:
        os.write(file, bytes(RESERVE))
