"""A topic's log, and what a group of it should do: a model of a queue (`model.py`) that reads the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.core.lifecycle import FINAL, LifecycleEvent, State, must_be_alone
from holdfast.core.priority import ALL as PRIORITIES
from holdfast.errors import CursorOutOfRange, NotFound
from holdfast.topics.rules.declaration import GroupSpec
from holdfast.topics.rules.routing import matches_any
from tests.clock import FakeClock
from tests.model.model import Model
from tests.model.things import Claim, Granted, Message, Seen
from tests.steps import Counts

TOPIC = "t"

Start = tuple[str, Any]
"""("latest", None), ("earliest", None), ("time", microseconds) or ("id", name)."""


class Entry(NamedTuple):
    """A message of the log."""

    seen: Seen
    topic: str
    place: int


@dataclass
class Log:
    entries: list[Entry] = field(default_factory=list)
    last_place: int = 0

    def append(self, seen: Seen, topic: str) -> None:
        self.last_place += 1
        self.entries.append(Entry(seen, topic, self.last_place))

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.seen.name == name), None)


class Standing(NamedTuple):
    """A group as `hf.groups.list` shows it."""

    group: str
    state: str
    lag: int
    behind: int
    past: int
    in_flight: int
    dead_letters: int
    lost: int


class Group(Model):
    def __init__(self, name: str, clock: FakeClock, windows: bool, log: Log) -> None:
        super().__init__(clock, windows)
        self.name = name
        self.log = log
        self.places: dict[int, int] = {}
        self.live_from = self.past = self.lost = self.missing = self.misses = self.beat_at = 0
        self.skips: set[str] = set()
        self.is_paused = self.is_dead = False

    @property
    def spec(self) -> GroupSpec:
        spec = self.specs[self.name]
        assert isinstance(spec, GroupSpec)
        return spec

    def heard(self) -> None:
        self.is_dead, self.misses, self.beat_at = False, 0, self.clock()

    # --- the log ------------------------------------------------------------------------------------------------------

    def put(self, start: Start) -> None:
        """To a place of the log, from which on everything is owed."""
        kind, what = start
        entry = self.log.find(what) if kind == "id" else None
        at = entry.seen.enqueued_at if entry else what
        for priority in PRIORITIES:
            lane = [one for one in self.log.entries if one.seen.priority == priority]
            if kind == "latest":
                ahead = []
            elif kind == "earliest":
                ahead = lane
            elif entry and entry.seen.priority == priority:
                ahead = lane[lane.index(entry) :]
            else:
                ahead = [one for one in lane if one.seen.enqueued_at >= at]
            self.places[priority] = ahead[0].place - 1 if ahead else self.log.last_place
            self._window_ends[self.name, priority] = self.log.last_place
        self.live_from = self.log.last_place
        self.past = self.behind

    def ahead(self, priority: int) -> list[Entry]:
        """What it has not come to, wanted or not."""
        return [one for one in self.log.entries if one.seen.priority == priority and one.place > self.places[priority]]

    def wants(self, entry: Entry) -> bool:
        return matches_any(self.spec.patterns, entry.topic) and entry.seen.name not in self.skips

    def is_owed(self, entry: Entry) -> bool:
        return entry.place > self.places[entry.seen.priority] and self.wants(entry)

    def holds(self, entry: Entry) -> bool:
        """In a run, whose members are read from the log until it ends."""
        message = self.messages.get(entry.seen.name)
        return message is not None and message.lease is not None and message.plain

    @property
    def owed(self) -> list[Entry]:
        return [one for one in self.log.entries if self.is_owed(one)]

    @property
    def behind(self) -> int:
        return sum(one.place <= self.live_from for one in self.owed)

    @property
    def is_picky(self) -> bool:
        """Whether a claim looks at each message by itself."""
        return f"{TOPIC}.**" not in self.spec.patterns or any(self.log.find(name) for name in self.skips)

    def _pass(self, priority: int, place: int) -> None:
        self.places[priority] = place
        self.skips -= {
            one.seen.name for one in self.log.entries if one.seen.priority == priority and one.place <= place
        }

    # --- claims -------------------------------------------------------------------------------------------------------

    def turn(self, n: int, lease: float | None, alone_first: bool) -> list[Granted]:
        self.sweep(self.name)
        if self.is_paused:
            return []
        if self.is_dead:
            self.heard()
        if self.missing:
            self.heard()
            raise CursorOutOfRange
        claims = self._take_alone([self.name], lease) if alone_first else []
        claims = claims or self._take([self.name], n, lease)
        self.claims += claims
        return [claim.granted._replace(size=0) for claim in claims]

    def _lane(self, queue: str, priority: int) -> list[Message]:
        found = [one for one in self.ahead(priority) if self.wants(one)]
        return [Message(queue, one.seen, True, one.place, one.seen.enqueued_at) for one in found]

    def _runs(self, queue: str, priority: int, room: int) -> list[list[Message]]:
        """As in a queue, but who looks at each message by itself takes from one window only."""
        if self.spec.fed:
            return []
        lane, end = self._lane(queue, priority), self._window_ends[queue, priority]
        early = [message for message in lane if message.place <= end]
        run = (early if self.windows and self.is_picky and early else lane)[:room]
        if not run or run[-1].place > end:
            self._window_ends[queue, priority] = self.log.last_place
        ahead = self.ahead(priority)
        if run or ahead:
            self._pass(priority, run[-1].place if run else ahead[-1].place)
        if not self.windows:
            return [run] if run else []
        parts = [[m for m in run if m.place <= end], [m for m in run if m.place > end]]
        return [part for part in parts if part]

    def _lease(self, members: list[Message], until: int) -> list[Claim]:
        self.messages.update({message.seen.name: message for message in members})
        return super()._lease(members, until)

    def _next_rows(self, queue: str, priority: int, room: int, is_first: bool) -> list[Message]:
        """A group that is fed gets more rows as long as there are too few."""
        rows = self._due_rows(queue, priority)
        while self.spec.fed and self._is_hungry(rows, room, is_first) and self._feed(priority):
            due = self._due_rows(queue, priority)
            first = [row for row in rows if not row.alone] if self.windows else []
            rows = first + [row for row in due if row not in first]
        return rows

    def _is_hungry(self, rows: list[Message], room: int, is_first: bool) -> bool:
        if rows and rows[0].alone and is_first:
            return False
        return len([row for row in rows if not row.alone]) < room

    def _feed(self, priority: int) -> bool:
        """What comes next in the log (with `windows`, as far as the window goes) becomes rows."""
        found, window = self.ahead(priority), (self.name, priority)
        if self.windows:
            early = [one for one in found if one.place <= self._window_ends[window]]
            if not early:
                self._window_ends[window] = self.log.last_place
            found = early or found
        for entry in found:
            if self.wants(entry):
                row = Message(self.name, entry.seen, False, self._next_place(), entry.seen.enqueued_at)
                row.order_key, row.alone = self.spec.order_key(entry.seen.key), must_be_alone(self.spec, 0)
                self.messages[entry.seen.name] = row
        if found:
            self._pass(priority, found[-1].place)
        return bool(found)

    # --- operating ----------------------------------------------------------------------------------------------------

    def seek(self, start: Start) -> None:
        if start[0] == "id" and self.log.find(start[1]) is None:
            raise NotFound
        self._forget_open([message for message in self.messages.values() if not message.replay_of])
        self.put(start)
        self.missing = 0

    def end(self) -> None:
        """Claims are lost, and replays come to nothing."""
        for message in self.messages.values():
            if message.replay_of and message.state not in FINAL:
                message.state = State.CANCELED
                self._end_replay(message)
        self._forget_open(list(self.messages.values()))

    def _forget_open(self, messages: list[Message]) -> None:
        for message in messages:
            message.lease = None
        self._forget(messages)
        self.blocked_by.clear()
        self.skips.clear()

    def _bury(self, message: Message, error: str) -> None:
        """A message that comes again, because the group went back, may die again: then it has two dead letters."""
        name = message.seen.name
        if name in self.dead:
            other = f"{name} #{len(self.dead)}"
            letters = [(other if key == name else key, dead) for key, dead in self.dead.items()]
            self.dead.clear()
            self.dead.update(letters)
            for one in self.messages.values():
                one.replay_of = other if one.replay_of == name else one.replay_of
        super()._bury(message, error)

    def skip(self, name: str) -> bool:
        message, entry = self.messages.get(name), self.log.find(name)
        if message is not None and message.state not in FINAL:
            self._move(message, LifecycleEvent.CANCELED)
            self._forget([message])
            return True
        if entry is None or not self.is_owed(entry):
            return False
        self.skips.add(name)
        return True

    def purge(self, queue: str) -> int:
        gone = len(self.owed) + super().purge(queue)
        self.skips.clear()
        self.put(("latest", None))
        return gone

    # --- looking ------------------------------------------------------------------------------------------------------

    def stats(self, queue: str) -> Counts:
        found = super().stats(queue)
        return found._replace(pending=found.pending + len(self.owed))

    @property
    def standing(self) -> Standing:
        pending, waiting, processing, dead = self.stats(self.name)
        state = "dead" if self.is_dead else "paused" if self.is_paused else "active"
        group = self.name.partition("/")[2]
        return Standing(group, state, pending + waiting, self.behind, self.past, processing, dead, self.lost)
