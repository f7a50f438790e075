"""A death is told outside, best effort, after it is stored; what a crash or an outage left untold is told later."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.events import DeadTaskEvent
from tests.clock import FakeClock
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import claim_all, forget_trouble, pointers
from tests.steps import claim_one

pytestmark = pytest.mark.above_the_stores

FIELDS = {"taskId", "workerId", "attemptCount", "maxAttempts", "error", "traceback", "timestamp"}


class Killed(BaseException):
    """As far as the code is concerned, the process ends here."""


@pytest.fixture
def deaths(sqs: FakeSQS) -> str:
    sqs.create("deaths")
    return "deaths"


def told(sqs: FakeSQS) -> list[dict[str, Any]]:
    return [json.loads(body) for body in sqs.bodies("deaths")]


def test_a_death_is_told_with_all_that_is_known_of_it(hf: Holdfast, sqs: FakeSQS, deaths: str) -> None:
    hf.queue("q", dead_events=deaths, max_attempts=1)
    sent = hf.enqueue("q", 1)
    hf.nack(claim_one(hf), "boom \x01 ☠")
    hf.maintain()
    [event] = told(sqs)
    assert set(event) == FIELDS
    assert (event["taskId"], event["workerId"]) == (sent.id, "anna")
    assert (event["attemptCount"], event["maxAttempts"]) == (1, 1)
    assert "boom" in event["error"]
    assert pointers(sqs) == []
    assert all(body.isascii() for body in sqs.bodies("deaths"))


def test_an_exception_is_told_as_a_sentence_with_its_traceback_beside_it(
    hf: Holdfast, sqs: FakeSQS, deaths: str
) -> None:
    hf.queue("q", dead_events=deaths, max_attempts=1)
    heard: list[DeadTaskEvent] = []
    hf.on(DeadTaskEvent, heard.append)
    hf.enqueue("q", 1)
    try:
        raise RuntimeError("guard rejected")
    except RuntimeError as problem:
        hf.nack(claim_one(hf), problem)
    hf.maintain()
    [sent], [event] = told(sqs), heard
    assert sent["error"] == event.error == "RuntimeError: guard rejected"
    assert sent["traceback"] == event.traceback
    assert str(event.traceback).startswith("Traceback")


def test_the_hook_hears_the_same(hf: Holdfast, sqs: FakeSQS) -> None:
    """`callback` sends nothing to SQS: functions of the program are all who hear of it."""
    hf.queue("q", dead_events="callback", max_attempts=2, backoff=[0])
    heard: list[DeadTaskEvent] = []
    hf.on(DeadTaskEvent, heard.append)
    sent = hf.enqueue("q", 1)
    hf.nack(claim_one(hf), "boom")
    hf.nack(claim_one(hf), "boom again")
    hf.maintain()
    [event] = heard
    assert (event.queue, event.task_id, event.worker_id, event.worker) == ("q", sent.id, "anna", "anna")
    assert (event.attempt_count, event.max_attempts) == (2, 2)
    assert "boom again" in event.error
    assert event.timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert sqs.count("SendMessageBatch") == 2, "the pointers, and nothing else"


def test_only_who_has_a_listener_says_that_it_was_told(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process with the listener is killed before it hears; one without a listener does maintenance."""
    hf.queue("q", dead_events="callback")
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.sqs.dead_events.tell", die)
        with suppress(Killed):
            hf.dead_letter(claim, "no use")
    rival.maintain()
    heard: list[DeadTaskEvent] = []
    hf.on(DeadTaskEvent, heard.append)
    hf.maintain()
    assert [event.error for event in heard] == ["no use"]


def test_events_that_sqs_refuses_are_tried_less_and_less(hf: Holdfast, sqs: FakeSQS, deaths: str) -> None:
    hf.queue("q", dead_events=deaths, max_attempts=1)
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    sqs.faults.throttled = frozenset({"SendMessageBatch"})
    hf.nack(claim, "boom")
    before = sqs.count("SendMessageBatch")
    hf.maintain()
    hf.maintain()
    assert sqs.count("SendMessageBatch") == before, "it is left alone for a while"
    sqs.faults.throttled = frozenset()
    forget_trouble(hf)
    hf.maintain()
    assert len(told(sqs)) == 1


def test_a_kill_between_the_death_and_the_event_is_made_good(
    hf: Holdfast, rival: Holdfast, sqs: FakeSQS, deaths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.queue("q", dead_events=deaths)
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.sqs.dead_events.tell", die)
        patched.setattr("holdfast.sqs.queue.SqsQueue.send", die)
        with suppress(Killed):
            hf.dead_letter(claim, "no use")
    assert len(hf.dead_letters.list("q")) == 1
    assert told(sqs) == []
    rival.maintain()
    assert [event["error"] for event in told(sqs)] == ["no use"]
    rival.maintain()
    hf.maintain()
    assert len(told(sqs)) == 1, "it is told once"


@pytest.mark.parametrize("fault", ["gone", "throttled"])
def test_an_event_that_cannot_be_sent_keeps_nothing_from_being_deleted(hf: Holdfast, sqs: FakeSQS, fault: str) -> None:
    """Poison must not come round and round because nobody can be told of it."""
    hf.queue("q", dead_events="deaths", max_attempts=1)
    hf.enqueue("q", "poison")
    hf.enqueue("q", "fine")
    claims = {claim.message.body: claim for _ in range(2) for claim in hf.claim("q")}
    if fault == "throttled":
        sqs.create("deaths")
        sqs.faults.throttled = frozenset({"SendMessage", "SendMessageBatch"})
    hf.nack(claims["poison"], "boom")
    hf.ack(claims["fine"])
    assert pointers(sqs) == []
    assert len(hf.dead_letters.list("q")) == 1


def test_what_an_outage_left_untold_is_told_when_it_is_over(
    hf: Holdfast, clock: FakeClock, sqs: FakeSQS, deaths: str
) -> None:
    hf.queue("q", dead_events=deaths, max_attempts=1)
    hf.enqueue_many("q", [1, 2, 3])
    claims = []
    while found := hf.claim("q"):
        claims += found
    sqs.down()
    for claim in claims:
        hf.nack(claim, "boom")
    hf.maintain()
    assert len(hf.dead_letters.list("q")) == 3
    sqs.up()
    forget_trouble(hf)
    hf.maintain()
    assert len(told(sqs)) == 3
    assert claim_all(hf) == []


def die(*_: object, **__: object) -> None:
    raise Killed
