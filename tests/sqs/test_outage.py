"""Consumers at work while SQS is away. HOLDFAST_SQS_OUTAGE=60 is the long form, in seconds."""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast import Claim, DeliveryFailed, Holdfast
from tests.sqs.fake_sqs import CREDENTIALS, FakeSQS
from tests.sqs.steps import Seen
from tests.waiting import spend

pytestmark = pytest.mark.above_the_stores

OUTAGE = float(os.environ.get("HOLDFAST_SQS_OUTAGE", "2"))
MOST_REQUESTS = 30
"""And one a second: a handful by each of the two threads that ask SQS, further and further apart. A hot loop makes
thousands."""


def refuse(sqs: FakeSQS) -> None:
    sqs.down()


def break_down(sqs: FakeSQS) -> None:
    sqs.faults.broken = True


def throttle(sqs: FakeSQS) -> None:
    sqs.faults.throttled = frozenset({"*"})


def mend(sqs: FakeSQS) -> None:
    sqs.faults.broken, sqs.faults.throttled = False, frozenset()
    if not sqs.is_up:
        sqs.up()


@pytest.mark.parametrize("trouble", [refuse, break_down, throttle])
def test_enqueue_works_delivery_resumes_and_nobody_runs_hot(
    url: str, sqs: FakeSQS, trouble: Callable[[FakeSQS], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        seen = Seen(60 + OUTAGE)
        hf.consumer("q")(seen.note)
        with hf.running():
            hf.enqueue_many("q", [0, 1, 2])
            seen.wait(3)
            began = time.monotonic()
            trouble(sqs)
            before = sqs.count()
            hf.enqueue_many("q", [3, 4, 5])
            spend(OUTAGE)
            during = sqs.count() - before
            took = time.monotonic() - began
            assert hf.stats("q").pending == 3
            mend(sqs)
            seen.wait(6)
        assert sorted(seen.bodies) == [0, 1, 2, 3, 4, 5]
        assert during <= MOST_REQUESTS + took
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in caplog.text


def test_with_a_fallback_the_database_delivers_meanwhile(url: str, sqs: FakeSQS) -> None:
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", sqs_fallback=0.5)
        seen = Seen(60 + OUTAGE)
        hf.consumer("q")(seen.note)
        with hf.running():
            hf.enqueue_many("q", [0, 1, 2])
            seen.wait(3)
            sqs.down()
            hf.enqueue_many("q", [3, 4, 5])
            seen.wait(6)
            assert not sqs.is_up
            sqs.up()
            before = sqs.count("SendMessageBatch")
            number = 6
            while sqs.count("SendMessageBatch") == before:
                hf.enqueue("q", number)
                number += 1
                seen.wait(number)
        assert sorted(seen.bodies) == list(range(number))


def test_who_claims_by_hand_falls_back_and_comes_back(url: str, sqs: FakeSQS) -> None:
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", sqs_fallback=0.1)
        assert hf.claim("q") == []
        sqs.down()
        hf.enqueue("q", "by the database")
        claims: list[Claim] = []
        while not claims:
            with suppress(DeliveryFailed):
                claims = hf.claim("q")
        assert [claim.message.body for claim in claims] == ["by the database"]
        assert not sqs.is_up
        hf.ack(claims)
        sqs.up()
        before = sqs.count("SendMessageBatch")
        while sqs.count("SendMessageBatch") == before:
            hf.enqueue("q", "by either")
            hf.ack(hf.claim("q", n=10))
