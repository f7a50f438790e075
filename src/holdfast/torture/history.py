"""What every process did, line by line: a line is one `write` to a file opened with O_APPEND, so a kill -9 loses none.

`invoke` is written before a call, `ok` or `fail` after it. `fail` says that it surely did nothing. `info` says that
nobody knows; so does an `invoke` that nothing follows, because its process was killed. Times are microseconds of the
host's monotonic clock, which all processes share; those of leases are the database's.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"

SEND, CLAIM, EXTEND = "send", "claim", "extend"
ACK, NACK, RELEASE, SNOOZE, DIE, EXPIRE, CANCEL = "ack", "nack", "release", "snooze", "die", "expire", "cancel"
START_SAGA = "start_saga"
FAULT, MARK, ENDED, ERROR = "fault", "mark", "ended", "error"
"""`ended` notes the name of a process that is dead; a mark is HEAL or QUIET, or says what else happened to the run."""

HEAL, QUIET = "heal", "quiet"

ENDINGS = frozenset({ACK, NACK, RELEASE, SNOOZE, DIE, EXPIRE, CANCEL})
"""What ends a claim. A `nack` is a failure that is tried again; the last one of a message is a `die`."""

FINAL_ENDINGS = frozenset({ACK, DIE, EXPIRE, CANCEL})
GIVES_BACK = frozenset({RELEASE, SNOOZE, EXPIRE})
"""These do not spend the attempt."""


class Item(msgspec.Struct, omit_defaults=True):
    """One message of a call. `channel` is a queue or topic for what is sent, a queue or topic/group for a claim.

    `since` and `until` are those of the lease, by the database's clock.
    """

    id: str = ""
    channel: str = ""
    value: str = ""
    key: str | None = None
    idem: str | None = None
    attempt: int = 0
    token: int = 0
    since: int = 0
    until: int = 0
    duplicate: bool = False
    """Of what was sent: nothing was stored, and the id is that of the message which was there before."""


class HistoryEvent(msgspec.Struct, omit_defaults=True):
    """One line. `call` joins an `invoke` and what followed it; it counts up within a process."""

    at: int
    who: str
    op: str
    phase: str
    call: int = 0
    items: list[Item] = []
    note: str = ""
    unheard: int = 0
    """How many answers were lost on the way to this one: the client asked again by itself."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HistoryEvent).decode


def monotonic() -> int:
    """The clock of histories."""
    return time.monotonic_ns() // 1000


class Sink(ABC):
    """Takes events as they happen: those of one process, or of one task of a simulation."""

    def __init__(self, who: str, clock: Callable[[], int] = monotonic) -> None:
        self.who = who
        self._clock = clock
        self._calls = itertools.count(1)

    @abstractmethod
    def keep(self, event: HistoryEvent) -> None:
        """Wherever this sink has its events."""

    def call(self) -> int:
        """A number for the next call."""
        return next(self._calls)

    def now(self) -> int:
        """What its clock says."""
        return self._clock()

    def note(
        self,
        op: str,
        phase: str,
        items: Sequence[Item] = (),
        *,
        call: int = 0,
        note: str = "",
        unheard: int = 0,
        at: int | None = None,
    ) -> None:
        """This happens now, or it happened then."""
        when = self._clock() if at is None else at
        self.keep(HistoryEvent(when, self.who, op, phase, call, list(items), note, unheard))


class HistoryLog(Sink):
    """A sink that is a file; or several, one after the other, if something keeps a file from growing."""

    def __init__(self, path: Path, clock: Callable[[], int] = monotonic) -> None:
        super().__init__(path.stem, clock)
        self._path = path
        self._lock = threading.Lock()
        self._parts = itertools.count(1)
        self._file = self._open(path)

    def keep(self, event: HistoryEvent) -> None:
        line = _encode(event) + b"\n"
        with self._lock:
            if not self._write(line):
                os.close(self._file)
                self._file = self._open(self._path.with_suffix(f".{next(self._parts)}.log"))
                if not self._write(line):
                    raise OSError(f"the history of {self.who} has no room for another line")

    def close(self) -> None:
        os.close(self._file)

    def _open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _write(self, line: bytes) -> bool:
        """A line that does not fit leaves a part of it behind, which is no line."""
        try:
            return os.write(self._file, line) == len(line)
        except OSError:
            return False


class Memory(Sink):
    """A sink that is a list."""

    def __init__(self, who: str, events: list[HistoryEvent], clock: Callable[[], int] = monotonic) -> None:
        super().__init__(who, clock)
        self._events = events

    def keep(self, event: HistoryEvent) -> None:
        self._events.append(event)


def read_log(path: Path) -> Iterator[HistoryEvent]:
    """The events of one process. A last line without its end was cut off by a full disk: it was never written."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield _decode(line)


def read_folder(folder: Path) -> list[HistoryEvent]:
    """The events of all processes in one order."""
    return merge(read_log(path) for path in sorted(folder.glob("*.log")))


def merge(histories: Iterable[Iterable[HistoryEvent]]) -> list[HistoryEvent]:
    """Many histories as one, by time. Threads of a process may have written their lines in another order."""
    return sorted(itertools.chain.from_iterable(histories), key=attrgetter("at"))
