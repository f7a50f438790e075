"""One seed, played from the beginning to the end: actors and faults, then peace, a drain, and the checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from holdfast import Holdfast, HoldfastError
from holdfast.client.client import internals
from holdfast.torture.checks import check
from holdfast.torture.ending import GROUP, QUEUE, STEP, ChannelEnd, FinalState, SagaEnd
from holdfast.torture.ending import TOPIC as A_TOPIC
from holdfast.torture.history import ENDED, ENDINGS, ERROR, FAIL, INFO, INVOKE, OK, HistoryEvent, Memory
from holdfast.torture.verdict import TortureVerdict
from tests.simulation import actors
from tests.simulation.faults import Faults, Plan
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.stage import GROUPS, LEASE, QUEUES, STEP_ATTEMPTS, STEP_QUEUES, TOPIC, Stage
from tests.simulation.virtual import virtual

ID_LENGTH = 36
ALWAYS = ("produce", "work", "work")
SOMETIMES = ("produce", "work", "work", "subscribe", "subscribe", "drive", "operate", "clean")
MOST_ROUNDS = 200
"""What is not through after so many looks is stuck."""


@dataclass
class Outcome:
    """What happened."""

    seed: int
    events: list[HistoryEvent]
    final: FinalState
    faults: Counter[str]
    calls: int
    turns: int
    verdict: TortureVerdict

    @property
    def history(self) -> bytes:
        return b"\n".join(map(msgspec.json.encode, self.events))


def simulate(stage: Stage, seed: int, queues: Sequence[str] = (), cast: Sequence[str] = ()) -> Outcome:
    """Plays one seed; chance chooses the queues and the actors, unless they are given."""
    stage.reset()
    chance = Random(seed)
    scheduler = Scheduler(stage.clock, chance, stage.is_waiting)
    faults = Faults(scheduler, chance, Plan(chance))
    with virtual(stage.clock, chance, scheduler.sleep):
        stage.faults = faults
        try:
            play = Play(stage, scheduler, chance, queues, cast)
            if stage.tries_again:
                faults.when_unheard = play.note_unheard
            scheduler.run(lambda: faults.between(LEASE, play.replace))
            faults.heal()
            play.end()
            final = play.read()
        finally:
            stage.faults = None
    return Outcome(
        seed, play.events, final, faults.counts, play.common.calls, scheduler.turns, check(play.events, final)
    )


class Doubting(Memory):
    """A history that takes no refusal for certain where an answer was lost on the way."""

    def __init__(self, who: str, events: list[HistoryEvent], clock: Callable[[], int], doubtful: set[str]) -> None:
        super().__init__(who, events, clock)
        self._doubtful = doubtful

    def keep(self, event: HistoryEvent) -> None:
        if event.phase == FAIL and event.op in ENDINGS and self.who in self._doubtful:
            event.phase = INFO
        elif event.phase == INVOKE:
            self._doubtful.discard(self.who)
        super().keep(event)


class Play:
    """The actors of one seed, and what they wrote down."""

    def __init__(
        self, stage: Stage, scheduler: Scheduler, chance: Random, queues: Sequence[str], cast: Sequence[str]
    ) -> None:
        self.stage = stage
        self.events: list[HistoryEvent] = []
        self.doubtful: set[str] = set()
        self.common = actors.Common(
            scheduler, chance, list(queues) or chance.sample(list(QUEUES), chance.randrange(1, 3))
        )
        self._scheduler = scheduler
        self._names: Counter[str] = Counter()
        for part in cast or (*ALWAYS, *chance.sample(SOMETIMES, chance.randrange(1, 5))):
            self._spawn(part)

    def note_unheard(self) -> None:
        """An answer was lost, and the store asks again: what is refused then, after the lease's end, may have been done
        by the first try."""
        if self._scheduler.current is not None:
            self.doubtful.add(self._scheduler.current.name)

    def replace(self, killed: Actor) -> None:
        """Someone else, after a while, with the same part; not too often."""
        self.events.append(HistoryEvent(self.stage.clock.now, "nemesis", ENDED, OK, note=killed.name))
        part = killed.name.rstrip("0123456789")
        if self._names[part] < 5:
            self._spawn(part).wakes_at = self.stage.clock.now + 1_000_000

    def end(self) -> None:
        """Nothing goes wrong any more: everything comes to its end."""
        performer = self._performer("drain")
        try:
            self._drain(performer)
        except HoldfastError as problem:
            performer.sink.note(ERROR, OK, note=repr(problem))

    def _drain(self, performer: actors.Performer) -> None:
        hf = performer.hf
        for queue in self.common.queues:
            hf.queues.resume(queue)
        for _ in range(MOST_ROUNDS):
            if not self._take_all(performer):
                due = self._next_due(hf)
                if due is None:
                    break
                self.stage.clock.now = max(self.stage.clock.now, due) + 1
                hf.sagas.advance()

    def _take_all(self, performer: actors.Performer) -> bool:
        found = performer.take_and_ack(*self.common.queues, *STEP_QUEUES)
        return any([found, *(performer.take_and_ack(TOPIC, group=group) for group in GROUPS)])

    def _next_due(self, hf: Holdfast) -> int | None:
        """When the next lease or delay is over."""
        names = [*self.common.queues, *STEP_QUEUES, *(f"{TOPIC}/{group}" for group in GROUPS)]
        due = internals(hf).store.reads.next_due(internals(hf).catalog.channels(names))
        return None if due is None else self.stage.clock.now + round(due * 1_000_000)

    def read(self) -> FinalState:
        """What the database holds now."""
        hf = self.stage.client("reader")
        ids = {item.id for event in self.events for item in event.items if len(item.id) == ID_LENGTH}
        states: dict[str, dict[str, str]] = defaultdict(dict)
        for status in self.stage.statuses(hf, sorted({*ids, *self.stage.ids()})):
            states[status.queue][status.id] = str(status.state)
            for group, state in status.groups.items():
                states[f"{status.queue}/{group}"][status.id] = str(state)
        ends = [
            *(_end(hf, name, QUEUE, settings, states[name]) for name, settings in QUEUES.items()),
            *(_end(hf, name, STEP, {"max_attempts": STEP_ATTEMPTS}, states[name]) for name in STEP_QUEUES),
            ChannelEnd(TOPIC, A_TOPIC, messages=states[TOPIC]),
        ]
        for group, settings in GROUPS.items():
            name = f"{TOPIC}/{group}"
            ends.append(_end(hf, name, GROUP, settings, states[name], TOPIC))
        return FinalState(ends, [_saga_end(hf, saga.id) for saga in hf.sagas.list(n=1000)])

    def _spawn(self, part: str) -> Actor:
        self._names[part] += 1
        name = f"{part}{self._names[part]}"

        return self._scheduler.spawn(name, lambda _: getattr(self._performer(name), part)())

    def _performer(self, name: str) -> actors.Performer:
        sink = Doubting(name, self.events, self._tick, self.doubtful)
        performer = actors.Performer(self.stage.client(name, sink), sink, self.common)
        self.stage.introduce(performer.hf)
        return performer

    def _tick(self) -> int:
        """No two events at the same time: the order of the history is that of what happened."""
        self.stage.clock.now += 1
        return self.stage.clock.now


def _end(
    hf: Holdfast, name: str, kind: str, settings: dict[str, Any], messages: dict[str, str], source: str = ""
) -> ChannelEnd:
    stats = hf.stats(name)
    return ChannelEnd(
        name,
        kind,
        source,
        ordered="ordering" in settings,
        max_attempts=settings["max_attempts"],
        keeps=kind == QUEUE and settings.get("history") != 0,
        messages=messages,
        counts={what: getattr(stats, what) for what in ("pending", "waiting", "processing", "dead")},
    )


def _saga_end(hf: Holdfast, saga_id: str) -> SagaEnd:
    found = hf.sagas.get(saga_id)
    assert found is not None
    steps = [(step.name, str(step.status), True) for step in found.steps]
    return SagaEnd(saga_id, found.status, steps, [(line.what, line.step or "") for line in found.timeline])
