"""A hand and those who disturb it: each piece of work ends once, for one of them."""

import sys
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from holdfast import Holdfast
from holdfast.runtime.context import Context
from holdfast.runtime.hands import Hand
from holdfast.runtime.worker import Worker

FEWEST, MOST = 2_000, 20_000


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_what_is_given_up_has_not_ended_and_what_has_ended_is_not_given_up(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    worker, [claim] = cast(Worker, None), hf.claim("q")
    outcomes = set()
    for number in range(MOST):
        if number > FEWEST and len(outcomes) == 2:
            break
        hand, context = Hand(worker), Context(worker, claim, 0.0)
        together, given_up = threading.Barrier(2), list[bool]()

        def disturb(hand: Hand = hand, context: Context = context, *, start: threading.Barrier = together) -> None:
            start.wait()
            given_up.append(hand.abandon(context))  # noqa: B023

        other = threading.Thread(target=disturb)
        other.start()
        hand.begin(context)
        together.wait()
        hand.let_go()
        ended = not hand.abandoned
        other.join()
        assert given_up == [not ended]
        outcomes.add(ended)
    assert outcomes == {True, False}
