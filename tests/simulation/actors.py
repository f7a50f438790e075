"""Who takes part in a simulation: producers, workers, subscribers, saga drivers, operators, cleaners.

Each is a process in small: a client of its own, whose every word with the database is recorded, and a script that
chance writes as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from holdfast import Claim, Holdfast, HoldfastError
from holdfast.client.client import internals
from holdfast.core.message import id_bytes, id_text
from holdfast.store.ids import new_id
from holdfast.torture.history import ERROR, INVOKE, OK, SEND, START_SAGA, Item, Sink
from holdfast.torture.recording import outcome_of
from tests.simulation.scheduler import Scheduler
from tests.simulation.stage import GROUPS, LEASE, QUEUES, SAGA, STEP_QUEUES, TOPIC

KEYS = ("k1", "k2", "k3")

MOST_CLAIMS = 50
"""More in a row than there can be something for."""

CANCELABLE = ("plain", "single")
"""Queues that remember what was canceled."""


@dataclass
class Common:
    """What the actors of one simulation share: what an operator could have read in their logs."""

    scheduler: Scheduler
    chance: Random
    queues: list[str]
    """Few enough that the actors meet there."""
    ids: list[str] = field(default_factory=list)
    values: int = 0
    sagas: int = 0
    calls: int = 0

    def value(self) -> str:
        """Another one each time."""
        self.values += 1
        return f"v{self.values}"


class Performer:
    """One process."""

    def __init__(self, hf: Holdfast, sink: Sink, common: Common) -> None:
        self.hf = hf
        self.sink = sink
        self.common = common
        self.chance = common.chance
        self._kept: list[Claim] = []
        self._old: list[Claim] = []

    # --- scripts ------------------------------------------------------------------------------------------------------

    def produce(self) -> None:
        """Sends a few, one by one or together."""
        for _ in range(self.chance.randrange(2, 7)):
            self._think(0.5)
            queue = self.chance.choice((*self.common.queues, TOPIC))
            many = self.chance.choice((1, 1, 1, 2, 4))
            if many > 1:
                self._send_many(queue, many)
            else:
                self._send(queue)

    def work(self) -> None:
        """Claims from some queues and does what workers do."""
        for _ in range(self.chance.randrange(3, 8)):
            self._think(1)
            queues = self.common.queues
            self._deal_with(self._claim(*self.chance.sample(queues, self.chance.randrange(1, len(queues) + 1))))

    def subscribe(self) -> None:
        """The same as a member of a group."""
        group = self.chance.choice(list(GROUPS))
        for _ in range(self.chance.randrange(3, 7)):
            self._think(1)
            self._deal_with(self._claim(TOPIC, group=group))

    def drive(self) -> None:
        """Starts sagas, and does their steps."""
        for _ in range(self.chance.randrange(3, 8)):
            self._think(1)
            if self.chance.random() < 0.3:
                self._start_saga()
            self._deal_with(self._claim(*self.chance.sample(STEP_QUEUES, 3)))

    def operate(self) -> None:
        """Cancels, replays, pauses and resumes."""
        for _ in range(self.chance.randrange(2, 6)):
            self._think(2)
            self.chance.choice((self._cancel, self._cancel, self._replay, self._replay, self._pause, self._look))()

    def clean(self) -> None:
        """Sweeps everything."""
        for _ in range(self.chance.randrange(1, 4)):
            self._think(LEASE / 2)
            self._call(self.hf.maintain)

    def take_and_ack(self, *queues: str, group: str | None = None) -> bool:
        """Everything that can be claimed, and all goes well; whether there was anything."""
        for number in range(MOST_CLAIMS):
            claims = self.hf.claim(*queues, group=group, n=100)
            if not claims:
                return number > 0
            self.hf.ack(claims)
        return False

    # --- what they do -------------------------------------------------------------------------------------------------

    def _call(self, run: Callable[[], Any]) -> Any:
        """What goes wrong is recorded; life goes on."""
        self.common.calls += 1
        try:
            return run()
        except HoldfastError:
            return None
        except Exception as problem:
            self.sink.note(ERROR, OK, note=repr(problem))
            return None

    def _think(self, longest: float) -> None:
        self.common.scheduler.sleep(self.chance.uniform(0, longest))

    def _send(self, queue: str) -> None:
        """With a key of its own it is sent again until it is known to be there, and now and then by others too."""
        idem = f"i{self.chance.randrange(3)}" if self.chance.random() < 0.5 else None
        value = idem or self.common.value()
        options: dict[str, Any] = {"idempotency_key": idem, "priority": self.chance.choice((2, 2, 2, 0, 3))}
        if queue in ("keyed", TOPIC) or self.chance.random() < 0.2:
            options["key"] = self.chance.choice(KEYS)
        if queue == TOPIC:  # There each priority has an order of its own.
            options["priority"] = KEYS.index(options["key"]) + 1
        elif self.chance.random() < 0.4:
            options["delay"] = self.chance.choice((0.001, 1, 5))
        send = self.hf.publish if queue == TOPIC else self.hf.enqueue
        receipt = None
        for _ in range(1 if idem is None else 4):
            receipt = receipt or self._call(lambda: send(queue, value, **options))
        self._note_id(queue, [receipt])

    def _send_many(self, queue: str, many: int) -> None:
        values, key = [self.common.value() for _ in range(many)], self.chance.choice(KEYS)
        send = self.hf.publish_many if queue == TOPIC else self.hf.enqueue_many
        level = KEYS.index(key) + 1
        self._note_id(queue, self._call(lambda: send(queue, values, key=key, priority=level)) or [])

    def _note_id(self, queue: str, receipts: Sequence[Any]) -> None:
        if queue in CANCELABLE:
            self.common.ids += [receipt.id for receipt in receipts if receipt is not None]

    def _claim(self, *queues: str, group: str | None = None) -> list[Claim]:
        n, lease = self.chance.choice((1, 2, 5)), self.chance.choice((None, None, None, 3))
        acked, self._kept = self._kept, []
        return self._call(lambda: self.hf.claim(*queues, group=group, n=n, lease=lease, ack=acked)) or []

    def _deal_with(self, claims: list[Claim]) -> None:
        self._old += claims
        if self._old and self.chance.random() < 0.4:
            self._deal_with_one(self.chance.choice(self._old))  # It may be someone else's by now.
        luck = self.chance.random()
        if luck < 0.3:
            self._end("ack", claims)
        elif luck < 0.4:
            self._kept = claims
        elif luck > 0.45:  # Otherwise they are forgotten, and the lease ends in silence.
            for claim in self.chance.sample(claims, len(claims)):
                self._deal_with_one(claim)

    def _deal_with_one(self, claim: Claim) -> None:
        if self.chance.random() < 0.4:
            self.common.scheduler.sleep(LEASE * self.chance.choice((0.5, 0.99, 1.01, self.chance.uniform(1, 1.5))))
        if self.chance.random() < 0.2:
            duration = self.chance.choice((None, 20))
            self._call(lambda: self.hf.extend(claim, duration))
            self._think(LEASE)
        verbs, weights = ("ack", "nack", "release", "snooze", "die", ""), (50, 20, 10, 5, 8, 5)
        [verb] = self.chance.choices(verbs, weights)
        self._end(verb, [claim])
        while self.chance.random() < 0.15:
            self._end(self.chance.choice(("ack", "nack", verb)), [claim])  # Once more: it must change nothing.

    def _end(self, verb: str, claims: list[Claim]) -> None:
        if verb == "ack" and claims:
            result = self.chance.choice((None, {"r": 1}))
            self._call(lambda: self.hf.ack(claims, result))
        elif verb == "nack":
            delay = self.chance.choice((None, 0, 4))
            self._call(lambda: self.hf.nack(claims, "bad luck", delay=delay))
        elif verb == "release":
            self._call(lambda: self.hf.release(claims))
        elif verb == "snooze":
            self._call(lambda: self.hf.snooze(claims, 3))
        elif verb == "die":
            self._call(lambda: self.hf.dead_letter(claims, "given up"))

    # --- operators ----------------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        if self.common.ids:
            wanted = self.chance.choice(self.common.ids)
            self._call(lambda: self.hf.cancel(wanted))

    def _replay(self) -> None:
        """A replay is a new message."""
        letters = self._call(lambda: self.hf.dead_letters.list(n=20)) or []
        letters = [one for one in letters if one.replayed_as is None and one.queue in QUEUES]
        if letters:
            letter, fresh, value = self.chance.choice(letters), new_id(), self.common.value()
            item = Item(id_text(fresh), letter.queue, value)
            replay = internals(self.hf).store.letters.replay
            body = f'"{value}"'.encode()
            self._noted(SEND, item, lambda: replay("default", self.hf.worker, id_bytes(letter.id), fresh, body))

    def _pause(self) -> None:
        queue = self.chance.choice(self.common.queues)
        self._call(lambda: self.hf.queues.pause(queue))
        self._think(LEASE)
        self._call(lambda: self.hf.queues.resume(queue))

    def _look(self) -> None:
        queue = self.chance.choice(self.common.queues)
        self._call(lambda: self.hf.stats(queue))
        self._call(lambda: self.hf.queues.peek(queue))

    def _start_saga(self) -> None:
        self.common.sagas += 1
        item = Item(f"s{self.common.sagas}", SAGA)
        for _ in range(2):
            self._noted(START_SAGA, item, lambda: self.hf.start_saga(SAGA, {"n": 1}, id=item.id))

    def _noted(self, op: str, item: Item, run: Callable[[], Any]) -> None:
        """Something that does not go the way of messages."""
        call = self.sink.call()
        self.common.calls += 1
        self.sink.note(op, INVOKE, [item], call=call)
        try:
            run()
        except HoldfastError as problem:
            self.sink.note(op, outcome_of(problem), [item], call=call)
            return
        self.sink.note(op, OK, [item], call=call)
