"""What must stay flat however long a run goes on: the memory of its processes, and the room that the database takes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.client.client import Holdfast, internals
from holdfast.errors import StoreError
from holdfast.torture.address import is_server
from holdfast.torture.crew import ProcessFleet
from holdfast.torture.plan import TorturePlan
from holdfast.torture.progress import HistoryProgress

EVERY = 2.0
MEGABYTE = 1 << 20


class SoakSample(msgspec.Struct):
    """One look: seconds since the start, messages done per second, megabytes."""

    at: float
    rate: float
    memory: float
    """Of the largest process."""
    lasting: float
    """Of all processes together that are never killed."""
    database: float
    log: float


class Gauge:
    """Looks every few seconds."""

    def __init__(self, plan: TorturePlan) -> None:
        self._path = None if is_server(plan.url) else Path(unquote(urlsplit(plan.url).path[1:]))
        self._next = 0.0
        self.readings: list[SoakSample] = []

    def look(self, hf: Holdfast, crew: ProcessFleet, progress: HistoryProgress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        memory = max((resident(member.pid) for member in crew.members), default=0)
        lasting = sum(resident(member.pid) for member in crew.immortals)
        try:
            database = internals(hf).store.faults.size()
        except (StoreError, OSError):
            return
        log = 0 if self._path is None else size_of(self._path.with_name(self._path.name + "-wal"))
        sizes = (size / MEGABYTE for size in (memory, lasting, database, log))
        self.readings.append(SoakSample(progress.seconds, progress.rate(10.0), *sizes))

    def thirds(self) -> dict[str, tuple[float, float]]:
        """By quantity: its mean over the first and over the last third of the run."""
        third = len(self.readings) // 3
        first, last = self.readings[:third], self.readings[-third:]
        names = [name for name in SoakSample.__struct_fields__ if name != "at"] if third else []
        return {name: (_mean(first, name), _mean(last, name)) for name in names}


def _mean(readings: list[SoakSample], name: str) -> float:
    return sum(float(getattr(one, name)) for one in readings) / len(readings)


def resident(pid: int) -> int:
    """Bytes of memory that a process has now; 0 if it has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
