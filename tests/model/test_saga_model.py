"""I21 on every store: whatever happens to a saga, with crashes in between, database and rules agree about it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Claim, Holdfast, LeaseLost, SagaStatus, Step, Wait
from holdfast.sagas.rules.events import CancelSaga, MarkDone, RetryStep, Signal, SkipStep
from holdfast.sagas.rules.instance import next_due
from tests.clock import FakeClock
from tests.conftest import STORES
from tests.long import size
from tests.model.databases import Database, database
from tests.sagas.played import Letter, World
from tests.sagas.test_rules import definitions

EXAMPLES = {"sqlite-apsw": size(80, 200), "sqlite-stdlib": 30, "postgres": size(10, 40)}
LEASE = 10**6
DOINGS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20)), max_size=30)


class Pair:
    """The same saga twice: in a database, and as the rules alone have it."""

    def __init__(self, place: Database, steps: list[Any], on_failure: str) -> None:
        self.place = place
        self.clock = FakeClock()
        self.steps, self.queues = separate(steps)
        self.world = World(self.steps, on_failure)
        self.world.now = self.clock.now
        self.claims: dict[str, Claim] = {}
        self.open()
        for queue in self.queues:
            self.hf.queue(queue, lease=LEASE, max_attempts=1, backoff=None)
        self.hf.saga("s", steps=self.steps, on_failure=on_failure)
        self.hf.start_saga("s", id="x")
        self.world.start()

    def open(self) -> None:
        self.hf = Holdfast(self.place.url, clock=self.clock, sweep_every=3600)

    def close(self) -> None:
        self.hf.close()

    @property
    def status(self) -> SagaStatus:
        found = self.hf.sagas.get("x")
        assert found is not None
        return found

    def do(self, choice: int, which: int) -> None:
        letters = list(self.world.letters.values())
        letter = letters[which % len(letters)] if letters else None
        place = which % len(self.world.spec.steps)
        step = self.world.spec.steps[place].name
        if letter and choice < 5:
            self.hold(letter).ack(which)
            self.world.succeed(letter, which)
        elif letter and choice == 5:
            self.hold(letter).dead_letter("no")
            self.world.fail(letter, attempt=1)
        elif letter and choice == 6:
            assert self.hf.cancel(self.id_of(letter))
            self.world.cancel(letter)
        elif letter and choice == 7:
            self.hold(letter)
        elif choice == 8:
            self.pass_time()
        elif choice == 9:
            assert self.hf.signal("x", "go", which) == self.world.apply(Signal("go", which)).accepted
        elif choice == 10:
            assert self.hf.sagas.cancel("x") == self.world.apply(CancelSaga()).accepted
        elif choice == 11:
            self.decide(place, step, which)
        elif choice == 12:
            self.crash()

    def decide(self, place: int, step: str, which: int) -> None:
        if which % 3 == 0:
            assert self.hf.sagas.retry("x", step) == self.world.apply(RetryStep(place)).accepted
        elif which % 3 == 1:
            assert self.hf.sagas.skip("x", step, "why") == self.world.apply(SkipStep(place, "why")).accepted
        else:
            assert self.hf.sagas.mark_done("x", step, 1) == self.world.apply(MarkDone(place, 1)).accepted

    def pass_time(self) -> None:
        due = next_due(self.world.saga)
        assert self.hf.sagas.advance() == 0
        if due is not None:
            self.clock.now = max(self.clock.now, due)
            self.renew()
            self.world.tick()
            assert self.hf.sagas.advance() == 1

    def renew(self) -> None:
        """Every holder lives and renews its lease, which works unless the saga has withdrawn the step."""
        for letter in self.world.letters.values():
            if letter.held:
                claim = self.claims[self.id_of(letter)]
                [sent] = [one for one in self.world.saga.steps[letter.step].out if one.id == letter.id]
                if sent.unwanted:
                    with pytest.raises(LeaseLost):
                        claim.extend(LEASE)
                else:
                    claim.extend(LEASE)
                    letter.until = self.clock.now + LEASE * 1_000_000

    def crash(self) -> None:
        """Whoever held something still knows its token."""
        self.place.crash()
        self.close()
        self.open()
        for claim in self.claims.values():
            claim._client = self.hf

    def hold(self, letter: Letter) -> Claim:
        """Someone begins it, and whatever came before it in its queue."""
        wanted = self.id_of(letter)
        queue = f"{letter.step}.{'undo' if letter.undo else 'do'}"
        while wanted not in self.claims:
            [claim] = self.hf.claim(queue)
            self.claims[claim.message.id] = claim
            for other in self.world.letters.values():
                if self.id_of(other) == claim.message.id:
                    other.held, other.until = True, self.clock.now + LEASE * 1_000_000
        return self.claims[wanted]

    def id_of(self, letter: Letter) -> str:
        """Both note the messages of a step in the same order."""
        kept = [one.id for one in self.world.saga.steps[letter.step].out]
        return self.status.steps[letter.step].messages[kept.index(letter.id)]

    def agree(self) -> None:
        status, saga = self.status, self.world.saga
        assert (status.status, status.data, status.error) == (saga.status.value, saga.data, saga.error)
        assert [step.status for step in status.steps] == self.world.states()
        assert [len(step.messages) for step in status.steps] == [len(step.out) for step in saga.steps]
        assert [line.what for line in status.timeline] == self.world.notes
        waiting = sum(self.hf.stats(queue).pending + self.hf.stats(queue).processing for queue in self.queues)
        assert waiting == len(self.world.letters), "nothing is under way that the saga does not know of"


def separate(steps: list[Any]) -> tuple[list[Any], list[str]]:
    """The same steps, each with queues of its own."""
    queues: list[str] = []

    def one(step: Step | Wait) -> Step | Wait:
        number = len(places)
        places.append(number)
        if isinstance(step, Step):
            step.queue = f"{number}.do"
            queues.append(step.queue)
            if step.undo is not None:
                step.undo = f"{number}.undo"
                queues.append(step.undo)
        return step

    places: list[int] = []
    return [[one(beside) for beside in entry] if isinstance(entry, list) else one(entry) for entry in steps], queues


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
def test_the_database_and_the_rules_agree(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None

    @settings(
        max_examples=int(os.environ.get("HOLDFAST_MODEL_EXAMPLES", EXAMPLES[store])),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(definitions(), st.sampled_from(["compensate", "compensate", "stop"]), DOINGS)
    def run(steps: list[Any], on_failure: str, doings: list[tuple[int, int]]) -> None:
        with closing(database(store, url)) as place, closing(Pair(place, steps, on_failure)) as pair:
            pair.agree()
            for choice, which in doings:
                pair.do(choice, which)
                pair.agree()

    run()
