"""Sagas that turn round at every possible moment: what was done is undone in exact reverse, after the last claim."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, NamedTuple

import pytest

from holdfast import Claim, Holdfast, LeaseLost, Step
from holdfast.client.client import internals
from holdfast.sagas.rules.declaration import saga_spec
from tests.clock import FakeClock
from tests.long import only_long

pytestmark = pytest.mark.of_queues

SHAPES: dict[str, list[list[str]]] = {
    "one after the other": [["a"], ["b"], ["c"]],
    "side by side": [["a"], ["b", "c"], ["d"]],
}
ENDS = ("ack", "nack", "silence")
TIMEOUT = 60


class Case(NamedTuple):
    """What happens before the saga turns round, and how the claims of that moment end, in this order."""

    doings: tuple[tuple[str, str], ...]
    ends: tuple[tuple[str, str], ...]


def moments(shape: list[list[str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every way in which steps can be claimed and acked, up to every moment at which one has not been acked."""
    found: list[tuple[tuple[str, str], ...]] = [()]
    while found:
        doings = found.pop()
        acked = {step for what, step in doings if what == "ack"}
        claimed = {step for what, step in doings if what == "claim"}
        stage = next((one for one in shape if not acked.issuperset(one)), None)
        if stage is None:
            continue
        yield doings
        found += [(*doings, ("claim", step)) for step in stage if step not in claimed]
        found += [(*doings, ("ack", step)) for step in stage if step in claimed - acked]


def cases(shape: list[list[str]]) -> Iterator[Case]:
    for doings in moments(shape):
        acked = {step for what, step in doings if what == "ack"}
        held = [step for what, step in doings if what == "claim" and step not in acked]
        for order in permutations(held):
            for ends in product(ENDS, repeat=len(order)):
                yield Case(doings, tuple(zip(order, ends, strict=True)))


class Play:
    """One saga, played by hand."""

    def __init__(self, hf: Holdfast, clock: FakeClock, saga: str, case: Case) -> None:
        self.hf, self.clock, self.saga, self.case = hf, clock, saga, case
        self.claims: dict[str, Claim] = {}
        self.begun: dict[str, int] = {}
        self.done: list[str] = []
        self.places = {step: place for place, (step, _) in enumerate(case.ends)}

    def lease_of(self, step: str) -> int:
        """Those that end in silence do so in the order of the case; no other ever does."""
        return 1000 * (1 + self.places[step]) if (step, "silence") in self.case.ends else 10**7

    def before(self) -> None:
        for what, step in self.case.doings:
            if what == "claim":
                self.begun[step] = self.clock.now
                [self.claims[step]] = self.hf.claim(f"{step}.do", lease=self.lease_of(step))
            else:
                self.claims[step].ack()
                self.done.append(step)

    def end(self, step: str, how: str, by_hand: bool) -> None:
        claim = self.claims[step]
        with pytest.raises(LeaseLost):
            claim.extend(10**8)
        if how == "ack":
            claim.ack()
        elif how == "nack":
            claim.nack("told to stop", delay=0)
        else:
            self.clock.now = max(self.clock.now, self.begun[step] + self.lease_of(step) * 1_000_000)
            if by_hand:
                assert self.hf.claim(f"{step}.do") == []
            else:
                self.hf.sagas.advance()
            with pytest.raises(LeaseLost):
                claim.ack("too late")
        if how != "nack":
            self.done.append(step)
        assert self.hf.claim(f"{step}.do") == [], "it is not tried again"

    def undo(self, steps: set[str]) -> None:
        for step in reversed(self.done):
            assert self.undos(steps) == [step], f"{self.case}: the next one to be undone"
            [claim] = self.hf.claim(f"{step}.undo")
            claim.ack()
        assert self.undos(steps) == []

    def undos(self, steps: set[str]) -> list[str]:
        return [step for step in sorted(steps) if self.hf.stats(f"{step}.undo").pending]

    def run(self, turn: str, by_hand: bool) -> None:
        hf, steps = self.hf, {step.name for step in self.status.steps}
        self.before()
        if turn == "cancel":
            assert hf.sagas.cancel(self.saga)
        else:
            self.clock.advance(TIMEOUT + 1)
            assert hf.sagas.advance() == 1
        assert not [step for step in steps if hf.stats(f"{step}.do").pending], f"{self.case}: withdrawn"
        for step, how in self.case.ends:
            assert self.undos(steps) == [], f"{self.case}: nothing is undone while someone works on {step}"
            assert self.status.status == "compensating"
            self.end(step, how, by_hand)
        self.undo(steps)
        end = "canceled" if turn == "cancel" else "compensated" if self.done else "failed"
        assert (self.status.status, self.done) == (end, self.done), self.case
        assert not [step.messages for step in self.status.steps if step.messages]

    @property
    def status(self) -> Any:
        found = self.hf.sagas.get(self.saga)
        assert found is not None
        return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("url", ["sqlite-apsw", pytest.param("postgres", marks=only_long)], indirect=True)
@pytest.mark.parametrize("turn", ["cancel", "timeout"])
@pytest.mark.parametrize("shape", [pytest.param("one after the other", marks=only_long), "side by side"])
def test_the_undo_is_the_exact_reverse_whenever_the_saga_turns_round(
    hf: Holdfast, clock: FakeClock, shape: str, turn: str
) -> None:
    def step(name: str) -> Step:
        return Step(name, f"{name}.do", undo=f"{name}.undo", timeout=TIMEOUT)

    hf.saga("s", steps=[[step(name) for name in stage] for stage in SHAPES[shape]])
    every = list(cases(SHAPES[shape]))
    assert len(every) >= 12
    for number, case in enumerate(every):
        hf.start_saga("s", id=f"s{number}")
        Play(hf, clock, f"s{number}", case).run(turn, by_hand=bool(number % 2))


def test_beside_a_step_that_dies_the_others_end_first(hf: Holdfast) -> None:
    hf.saga("s", steps=[Step("a", "a.do", undo="a.undo"), [Step("b", "b.do", undo="b.undo"), Step("c", "c.do")]])
    hf.start_saga("s", id="s")
    [claim] = hf.claim("a.do")
    claim.ack()
    [held] = hf.claim("b.do")
    [claim] = hf.claim("c.do")
    claim.dead_letter("no")
    assert hf.claim("a.undo") == []
    held.ack()
    assert hf.claim("a.undo") == []
    [claim] = hf.claim("b.undo")
    claim.ack()
    assert len(hf.claim("a.undo")) == 1


def test_a_step_is_withdrawn_if_the_one_beside_it_cannot_be_sent(hf: Holdfast) -> None:
    hf.topic("news")
    steps = [Step("a", "a.do", undo="a.undo"), [Step("b", "b.do", undo="b.undo"), Step("c", "news.c")]]
    internals(hf).store.sagas.declare("default", "s", saga_spec(steps, "compensate", None))
    hf.start_saga("s", id="s")
    [claim] = hf.claim("a.do")
    claim.ack()
    assert (hf.claim("b.do"), len(hf.claim("a.undo"))) == ([], 1)
    saga = hf.sagas.get("s")
    assert saga is not None
    assert [step.status for step in saga.steps] == ["compensating", "skipped", "failed"]


def test_steps_that_are_given_back_together_are_withdrawn_once_each(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("a.do", lease=1000)
    hf.saga("s", steps=[Step("a", "a.do", undo="a.undo", timeout=TIMEOUT, retry=1, backoff=0)])
    hf.start_saga("s", id="s")
    claims = hf.claim("a.do")
    clock.advance(TIMEOUT + 1)
    hf.sagas.advance()
    claims += hf.claim("a.do")
    assert len(claims) == 2
    assert hf.sagas.cancel("s")
    hf.nack(claims, "told to stop", delay=0)
    saga, stats = hf.sagas.get("s"), hf.stats("a.do")
    assert saga is not None
    assert (saga.status, saga.steps[0].status) == ("canceled", "failed")
    assert (stats.pending, stats.processing, hf.claim("a.do")) == (0, 0, [])
