"""A disk that fills up: `python -m tests.acceptance.fullfiles PATH` makes a write fail as the operating system would.

The file layer below SQLite lets so many writes through and then says that the disk is full, until there is room again.
"""

import json
import sys
from typing import Any

import apsw

from holdfast import Holdfast, StoreFull

PLENTY = 1 << 60


class FullFiles(apsw.VFS):
    """The operating system's files on a disk with `room` for that many more writes."""

    def __init__(self) -> None:
        self.room = PLENTY
        self.below = apsw.vfs_names()[0]
        super().__init__("full", self.below, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return FullFile(self, name, flags)


class FullFile(apsw.VFSFile):
    def __init__(self, disk: FullFiles, name: Any, flags: Any) -> None:
        self.disk = disk
        super().__init__(disk.below, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.room -= 1
        if self.disk.room < 0:
            super().xWrite(bytes(data[: len(data) // 2]), offset)
            raise apsw.exception_for(apsw.SQLITE_FULL)
        super().xWrite(data, offset)


def fill_at_every_write(path: str) -> dict[str, Any]:
    """For each write of an enqueue: the disk is full from there on. What was refused, and what is there in the end."""
    disk = FullFiles()
    kept, refused, others = [], [], []
    with Holdfast(f"sqlite:///{path}") as hf:
        hf.queue("q", history=0)
        for writes in range(60):
            batch = [f"{writes}-{number}-{'x' * 500}" for number in range(30)]
            hf.enqueue("q", f"before-{writes}")
            kept.append(f"before-{writes}")
            disk.room = writes
            try:
                hf.enqueue_many("q", batch)
                kept += batch
            except StoreFull:
                refused.append(writes)
            except Exception as problem:
                others.append(f"{writes}: {problem!r}")
            looked = hf.stats("q").pending
            assert looked == len(kept), f"with a full disk it counts {looked} instead of {len(kept)}"
            disk.room = PLENTY
        found = [claim.message.body for claim in hf.claim("q", n=10_000)]
    return {"refused": refused, "others": others, "sound": integrity(path), "exact": found == kept}


def integrity(path: str) -> str:
    connection = apsw.Connection(path)
    found = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return str(found[0][0])


if __name__ == "__main__":
    print(json.dumps(fill_at_every_write(sys.argv[1])))
