"""What topics and groups should do, in plain Python: one log, and for each group a model of a queue that reads it.

A group has a place in every priority of the log. Before it, everything is done with or is the group's own (a lease, a
row); after it, everything that the group wants is owed. As each group is a `Model` of its own, nothing that happens
to one can change another (I14).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

from holdfast.client.claim_loop import ALONE_EVERY
from holdfast.core.duration import micros
from holdfast.errors import CursorOutOfRange, NotFound
from holdfast.topics.rules.declaration import TopicSpec, address, group_spec
from tests.clock import FakeClock
from tests.model.group_model import TOPIC, Entry, Group, Log, Standing, Start
from tests.model.things import Buried, Granted, Seen, json_text
from tests.steps import Counts

MISSES = 3


class TopicModel:
    def __init__(self, clock: FakeClock, windows: bool) -> None:
        self.clock = clock
        self.windows = windows
        self.spec = TopicSpec()
        self.log = Log()
        self.live: dict[str, Group] = {}
        self.claims: list[tuple[Group, int]] = []
        self._dead: dict[str, dict[str, Buried]] = {}
        self._created = count(1)
        self._claims_of_client = 0

    def topic(self, settings: dict[str, Any]) -> None:
        self.spec = TopicSpec(**settings)

    def publish(self, topic: str, bodies: Sequence[Any], priority: int, key: str | None) -> list[str]:
        names = [f"m{next(self._created)}" for _ in bodies]
        for name, body in zip(names, bodies, strict=True):
            seen = Seen(name, priority, json_text(body), "{}", key, None, None, None, self.clock())
            self.log.append(seen, topic)
        return names

    def subscribe(self, group: str, patterns: tuple[str, ...], start: Start, settings: dict[str, Any]) -> None:
        found = self.live.get(group)
        before = None if found is None else found.specs[found.name]
        spec = group_spec(patterns, settings, before)  # type: ignore[arg-type]
        if found is None:
            if start[0] == "id" and self.log.find(start[1]) is None:
                raise NotFound
            name = address(TOPIC, group)
            found = self.live[group] = Group(name, self.clock, self.windows, self.log)
            found.dead = self._dead.setdefault(name, found.dead)
            found._created = self._created
            found.specs[name] = spec
            found.put(start)
        found.specs[found.name] = spec
        found.heard()

    def unsubscribe(self, group: str) -> bool:
        found = self.live.pop(group, None)
        if found is not None:
            found.end()
        return found is not None

    def claim(self, group: str, n: int, lease: float | None = None) -> list[Granted]:
        self._claims_of_client += 1
        found = self.live.get(group)
        if found is None:
            return []
        first = len(found.claims)
        granted = found.turn(n, lease, alone_first=self._claims_of_client % ALONE_EVERY == 0)
        self.claims += [(found, first + number) for number in range(len(granted))]
        return granted

    def settle(self, verb: str, claims: Sequence[int], **options: Any) -> None:
        self.claims[claims[0]][0].settle(verb, [self.claims[number][1] for number in claims], **options)

    def extend(self, claims: Sequence[int], duration: float | None = None) -> None:
        self.claims[claims[0]][0].extend([self.claims[number][1] for number in claims], duration)

    def pause(self, group: str, is_paused: bool) -> None:
        self.live[group].is_paused = is_paused
        if is_paused:
            self.live[group].heard()

    def seek(self, group: str, start: Start) -> None:
        self.live[group].seek(start)

    def skip(self, group: str, name: str) -> bool:
        return self.live[group].skip(name)

    def purge(self, group: str) -> int:
        return self.live[group].purge(address(TOPIC, group))

    def replay(self, group: str, which: int) -> str:
        return self.live[group].replay(list(self.live[group].dead)[which])

    def unblock(self, group: str, key: str | None) -> bool:
        return self.live[group].unblock(address(TOPIC, group), key)

    def sweep(self, group: str) -> None:
        self.live[group].sweep(address(TOPIC, group))

    def reopen(self, how: str) -> None:
        if how != "go on":
            self._claims_of_client = 0

    # --- life and death -----------------------------------------------------------------------------------------------

    def beat(self, group: str) -> None:
        found = self.live[group]
        found.heard()
        if found.missing:
            raise CursorOutOfRange

    def accept_loss(self, group: str) -> int:
        found = self.live[group]
        missing, found.missing = found.missing, 0
        return missing

    def watch(self) -> int:
        """A look at all groups; how many died of their silence."""
        died = 0
        for group in self.live.values():
            if group.spec.timeout is None or group.is_paused or group.is_dead:
                continue
            is_silent = self.clock() - group.beat_at >= micros(group.spec.timeout)
            group.misses = group.misses + 1 if is_silent else 0
            group.is_dead = group.misses >= MISSES
            died += group.is_dead
        return died

    def removed(self, names: Collection[str]) -> None:
        """I15: retention has removed these. It may remove nothing that someone holds, or that a live group is owed
        before its time is over; it must remove what nobody can need. Who loses something is told how much.
        """
        now = self.clock()
        done_before, all_before = now - micros(self.spec.kept_for), now - micros(self.spec.retention)
        live = [group for group in self.live.values() if not group.is_dead]
        for entry in list(self.log.entries):
            is_over = entry.seen.enqueued_at <= all_before
            is_done = entry.seen.enqueued_at <= done_before and bool(live) and not any(g.is_owed(entry) for g in live)
            held = [group.name for group in self.live.values() if group.holds(entry)]
            if entry.seen.name in names:
                assert not held, f"I15: {entry.seen.name} is gone, and {held} work on it"
                assert is_over or is_done, f"I15: {entry.seen.name} is gone, and someone was to get it"
            else:
                is_passed = all(entry.place <= group.places[entry.seen.priority] for group in live)
                can_go = not self._runs_in(entry.seen.priority) and self._is_first(entry, names)
                assert not (can_go and is_over), f"I15: {entry.seen.name} is too old, and still there"
                assert not (can_go and is_done and is_passed), f"I15: nobody needs {entry.seen.name}, and it is there"
        for entry in [one for one in self.log.entries if one.seen.name in names]:
            for group in self.live.values():
                if group.is_owed(entry):
                    group.lost += 1
                    group.missing += group.is_dead or group.missing > 0
            self.log.entries.remove(entry)

    def _is_first(self, entry: Entry, gone: Collection[str]) -> bool:
        """Whether nothing that stays is in front of it."""
        lane = [one for one in self.log.entries if one.seen.priority == entry.seen.priority]
        return all(one.seen.name in gone for one in lane[: lane.index(entry)])

    def _runs_in(self, priority: int) -> bool:
        """Whether anyone has an open run there: it may reach over what others are done with."""
        return any(
            message.plain and message.lease is not None and message.seen.priority == priority
            for group in self.live.values()
            for message in group.messages.values()
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    def groups(self) -> list[Standing]:
        return [self.live[group].standing for group in sorted(self.live)]

    def stats(self, group: str) -> Counts:
        return self.live[group].stats(address(TOPIC, group))

    def peek(self, group: str, n: int) -> list[Seen]:
        return self.live[group].peek(address(TOPIC, group), n)

    def blocked(self, group: str) -> list[tuple[str | None, str, int, int]]:
        return self.live[group].blocked(address(TOPIC, group))

    def dead_letters(self, group: str) -> list[Buried]:
        return list(self._dead.get(address(TOPIC, group), {}).values())

    def dead_letters_by_group(self) -> dict[str, list[Buried]]:
        """Those of groups that have ended, too."""
        return {name: list(dead.values()) for name, dead in sorted(self._dead.items()) if dead}
