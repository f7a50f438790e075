"""A real store behind the words of `TopicModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.client.claim import Claim
from holdfast.core.message import Message
from holdfast.topics.rules.declaration import address
from holdfast.worker.maintenance.duties import liveness, retention
from tests.model.group_model import TOPIC, Standing, Start
from tests.model.subject import MANY, Subject, no_process_clock
from tests.model.things import Buried, Granted, Seen
from tests.steps import Counts

OF_GROUPS = {"group": "id", **dict.fromkeys(("cursor", "run", "row", "skip", "blocked"), "group_id")}
"""The tables in which groups have rows of their own, and the column that says whose."""


class TopicSubject(Subject):
    def topic(self, settings: dict[str, Any]) -> None:
        with no_process_clock():
            self.client.topic(TOPIC, **settings)

    def publish(self, topic: str, bodies: Sequence[Any], priority: int, key: str | None) -> list[str]:
        with no_process_clock():
            receipts = self.client.publish_many(topic, bodies, priority=priority, key=key)
        names = [self._new_name(receipt.id) for receipt in receipts]
        self.topics.update(dict.fromkeys(names, topic))
        return names

    def subscribe(self, group: str, patterns: tuple[str, ...], start: Start, settings: dict[str, Any]) -> None:
        with no_process_clock():
            self.client.subscribe(TOPIC, group, patterns=patterns, start=self._place(start), **settings)

    def unsubscribe(self, group: str) -> bool:
        with no_process_clock():
            return self.client.groups.remove(TOPIC, group)

    def claim(self, group: str, n: int, lease: float | None = None) -> list[Granted]:  # type: ignore[override]
        return super().claim([address(TOPIC, group)], n, lease)

    def pause(self, group: str, is_paused: bool) -> None:
        (self.client.queues.pause if is_paused else self.client.queues.resume)(address(TOPIC, group))

    def seek(self, group: str, start: Start) -> None:
        with no_process_clock():
            self.client.groups.seek(group, self._place(start), topic=TOPIC)

    def skip(self, group: str, name: str) -> bool:
        with no_process_clock():
            return self.client.groups.skip(TOPIC, group, self._ids[name])

    def purge(self, group: str) -> int:
        return super().purge(address(TOPIC, group))

    def replay(self, group: str, which: int) -> str:  # type: ignore[override]
        letter = self.client.dead_letters.list(address(TOPIC, group), n=MANY)[which]
        with no_process_clock():
            again = self._new_name(self.client.dead_letters.replay(letter.id).id)
        self.topics[again] = self.topics[self.names[letter.message.id]]
        return again

    def unblock(self, group: str, key: str | None) -> bool:
        return super().unblock(address(TOPIC, group), key)

    def sweep(self, group: str) -> None:
        super().sweep(address(TOPIC, group))

    def beat(self, group: str) -> None:
        with no_process_clock():
            self.client.groups.heartbeat(TOPIC, group)

    def accept_loss(self, group: str) -> int:
        with no_process_clock():
            return self.client.groups.accept_loss(TOPIC, group)

    def watch(self) -> int:
        with no_process_clock():
            return liveness.turn(self.client)

    def retain(self) -> list[str]:
        """Which messages left the topic. I15: to do it again does nothing."""
        before = [name for name in self.topics if self._is_in_log(name)]
        with no_process_clock():
            while retention.turn(self.client):
                pass
            tables = self.database.tables()
            assert retention.turn(self.client) == 0
        self._assert_unchanged(tables, "I15: a second clean-up changed something")
        return [name for name in before if not self._is_in_log(name)]

    def groups(self) -> list[Standing]:
        with no_process_clock():
            found = self.client.groups.list(TOPIC)
        return [Standing(g.group, g.state, g.lag, g.behind, g.past, g.in_flight, g.dead_letters, g.lost) for g in found]

    def stats(self, group: str) -> Counts:
        return super().stats(address(TOPIC, group))

    def peek(self, group: str, n: int) -> list[Seen]:
        return super().peek(address(TOPIC, group), n)

    def blocked(self, group: str) -> list[tuple[str | None, str, int, int]]:
        found = self.client.queues.blocked(address(TOPIC, group))
        letters = self.client.dead_letters.list(address(TOPIC, group), n=MANY) if found else []
        dead = {letter.id: letter.message.id for letter in letters}
        return [(one.key, self.names[dead[one.dead_id]], one.blocked_at_us, one.waiting) for one in found]

    def dead_letters(self, group: str | None) -> list[Buried]:
        return super().dead_letters(None if group is None else address(TOPIC, group))

    def dead_letters_by_group(self) -> dict[str, list[Buried]]:
        found: dict[str, list[Buried]] = {}
        for letter in self.dead_letters(None):
            found.setdefault(letter.queue, []).append(letter)
        return dict(sorted(found.items()))

    # --- what the model has no word for -------------------------------------------------------------------------------

    def others(self, group: str) -> dict[str, list[tuple[Any, ...]]]:
        """All that is stored of other groups."""
        name = address(TOPIC, group)
        own = (
            f"SELECT g.id FROM holdfast_group g JOIN holdfast_channel c ON c.id = g.channel_id WHERE c.name = '{name}'"
        )
        return {
            table: self.database.rows(f"SELECT * FROM holdfast_{table} WHERE {column} NOT IN ({own}) ORDER BY 1, 2")
            for table, column in OF_GROUPS.items()
        }

    # --- below --------------------------------------------------------------------------------------------------------

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.topics: dict[str, str] = {}
        """The full name under which each message was published."""

    def _place(self, start: Start) -> Any:
        kind, what = start
        return self._ids[what] if kind == "id" else what / 1_000_000 if kind == "time" else kind

    def _is_in_log(self, name: str) -> bool:
        found = self.client.status(self._ids[name])
        return found is not None and found.queue == TOPIC

    def _granted(self, claim: Claim) -> Granted:
        return super()._granted(claim)._replace(size=0)

    def _seen(self, message: Message) -> Seen:
        seen = super()._seen(message)
        assert message.topic == self.topics[seen.name], "a message comes under another name"
        return seen
