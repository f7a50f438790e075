"""How a run goes on, read from the histories while they are written."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import msgspec

from holdfast.torture.history import ACK, CLAIM, DIE, FAIL, OK, SEND


class Glimpse(msgspec.Struct):
    """As much of a line as a count needs."""

    op: str
    phase: str
    items: list[msgspec.Raw] = []


_decode = msgspec.json.Decoder(Glimpse).decode

COUNTED = {(SEND, OK): "enqueued", (CLAIM, OK): "claims", (ACK, OK): "done", (DIE, OK): "dead", (ACK, FAIL): "refused"}


class HistoryProgress:
    """Counts what stands in the histories, a little further at every look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.counts: Counter[str] = Counter()
        self.series: list[tuple[float, int]] = []
        """Seconds since the start, and how many were done by then."""
        self.begin()

    def begin(self) -> None:
        """From now on it is shown."""
        self.started = time.monotonic()
        self.series = []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def look(self) -> Counter[str]:
        for path in self._folder.glob("*.log"):
            self._read_on(path)
        self.series.append((time.monotonic() - self.started, self.counts["done"]))
        return self.counts

    def rate(self, seconds: float = 3.0) -> float:
        """Messages done per second, lately."""
        if len(self.series) < 2:
            return 0.0
        now, done = self.series[-1]
        then, before = next(one for one in self.series if one[0] >= now - seconds)
        return (done - before) / (now - then) if now > then else 0.0

    def _read_on(self, path: Path) -> None:
        with path.open("rb") as lines:
            lines.seek(self._read.get(path, 0))
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read[path] = self._read.get(path, 0) + len(line)
                seen = _decode(line)
                name = COUNTED.get((seen.op, seen.phase))
                if name:
                    self.counts[name] += len(seen.items)
