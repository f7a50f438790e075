"""What goes wrong with SQS, and what comes of it, on both databases, against an SQS that misbehaves.

| what | correct outcome |
|---|---|
| Q1 a pointer comes twice, out of order, or months late | no second run, no attempt burnt, the pointer is deleted |
| Q2 a crash between the commit and the send | sent again, within a bounded time |
| Q3 a batch with failed entries, and some in neither list | only what was confirmed counts as sent |
| Q4 a FIFO queue swallows what it has seen in the last five minutes | every hand-over has an id of its own |
| Q5 12 hours of visibility, 15 minutes of delay | long waits are the database's, and its lease decides |
| Q6 pointers that expire, or a queue that is purged | sent again from the database |
| Q7 a handle that has expired, refused or silently taken | the work goes on |
| Q8, Q9 characters and sizes that SQS does not take | nothing of a message goes there |
| Q10 too many in flight, with and without an error | visible, and over as soon as some are deleted |
| Q11 a group that its head holds up | the order of keys is the database's; no redrive policy |
| Q12 emulators lie | the documentation says what was not run |
| Q13 outage, throttling, wrong credentials | enqueue works, delivery resumes, no hot loop, no secrets in logs |
"""

import json
import logging
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.errors import DeliveryFailed, StoreFull
from holdfast.sqs.queue import Received, SqsQueue
from tests.clock import FakeClock
from tests.sqs.fake_queue import Entry
from tests.sqs.fake_sqs import CREDENTIALS, FakeSQS
from tests.sqs.steps import POINTER, claim_all, forget_trouble, hand_over, pointers, seen, try_to_claim, work_off
from tests.steps import OpenClient, bodies, claim_one
from tests.waiting import LONGEST

pytestmark = pytest.mark.above_the_stores

MONTHS = 90 * 86_400


# --- Q1: duplicates, disorder, months late ----------------------------------------------------------------------------


def test_q1_each_pointer_three_times_and_shuffled_is_one_run_each(hf: Holdfast, rival: Holdfast, sqs: FakeSQS) -> None:
    sqs.faults.copies, sqs.faults.shuffled = 3, random.Random(7)
    sent = hf.enqueue_many("q", list(range(40)))
    found: list[Any] = []
    for turn in range(40):
        consumer = (hf, rival)[turn % 2]
        claims = consumer.claim("q", n=7)
        found += bodies(claims)
        assert all(claim.attempt == 1 for claim in claims)
        consumer.ack(claims)
    sqs.advance(31)
    assert claim_all(hf) == []
    assert sorted(found) == list(range(40))
    assert {hf.status(one.id).attempts for one in sent} == {1}


def test_q1_a_pointer_after_the_ack_is_deleted_and_runs_nothing(hf: Holdfast, sqs: FakeSQS) -> None:
    done = hf.enqueue("q", "done")
    assert work_off(hf) == ["done"]
    sqs.resurrect()
    hf.enqueue("q", "new")
    assert work_off(hf) == ["new"]
    assert pointers(sqs) == []
    assert seen(hf)["over"] == 1
    assert hf.status(done.id).attempts == 1


def test_q1_a_pointer_months_late_leads_to_nothing(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    """Even when nothing is known of its message any more, or that is waiting under another generation."""
    hf.queue("q", history=60, backoff=[0])
    hf.enqueue("q", "long gone")
    work_off(hf)
    retried = hf.enqueue("q", "retried")
    hf.nack(claim_one(hf), "not today")
    clock.advance(MONTHS)
    sqs.advance(MONTHS)
    hf.maintain()
    sqs.resurrect()
    claims = claim_all(hf)
    assert [(claim.message.id, claim.attempt) for claim in claims] == [(retried.id, 2)]
    assert seen(hf)["over"] == 2
    hf.ack(claims)
    assert pointers(sqs) == []


def test_q1_a_copy_that_comes_while_its_message_is_worked_on_is_left(
    hf: Holdfast, rival: Holdfast, sqs: FakeSQS
) -> None:
    """Were it deleted and the worker killed, nobody would come for the message before the reconciler does."""
    sqs.faults.copies = 2
    hf.enqueue("q", 1)
    [claim] = hf.claim("q")
    hf.enqueue("q", 2)  # So that there is a reason to ask SQS.
    assert bodies(rival.claim("q", n=10)) == [2]
    assert len(pointers(sqs)) == 4
    hf.ack(claim)


def test_q1_a_claim_by_hand_takes_what_it_has_before_a_slow_sqs_shows_it_again(
    hf: Holdfast, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = SqsQueue.receive

    def receive_slowly(*given: Any) -> list[Received]:
        found = receive(*given)
        sqs.advance(12)
        return found

    monkeypatch.setattr(SqsQueue, "receive", receive_slowly)
    monkeypatch.setattr("holdfast.sqs.messages.time", SimpleNamespace(monotonic=sqs.now))
    hf.enqueue_many("q", list(range(60)))
    found: list[Any] = []
    for _ in range(3):
        claims = hf.claim("q", n=60)
        found += bodies(claims)
        hf.ack(claims)
    assert found == list(range(60))
    assert seen(hf)["received"] == 60


# --- Q2: a crash between the commit and the send ----------------------------------------------------------------------


class Killed(BaseException):
    """As far as the code is concerned, the process ends here."""


def test_q2_a_crash_between_the_commit_and_the_send(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.enqueue("q", 1)
    monkeypatch.setattr("holdfast.sqs.queue.SqsQueue.send", die)
    with pytest.raises(Killed):
        hf.claim("q")
    monkeypatch.undo()
    for name, value in sqs.environment.items():
        monkeypatch.setenv(name, value)
    assert rival.claim("q") == []
    clock.advance(61)
    assert [(claim.message.body, claim.attempt) for claim in rival.claim("q")] == [(1, 1)]


def test_q2_a_crash_between_the_send_and_the_note_of_it(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQS has it, and the database does not know: whoever comes with the pointer gets the message, once."""
    hf.enqueue("q", 1)
    with monkeypatch.context() as patched:
        patched.setattr(internals(hf).store.deliveries, "confirm", die)
        with pytest.raises(Killed):
            hf.claim("q")
    [claim] = rival.claim("q")
    assert (claim.message.body, claim.attempt) == (1, 1)
    rival.ack(claim)
    clock.advance(61)
    assert claim_all(rival) == []
    assert pointers(sqs) == []


def die(*_: object) -> None:
    raise Killed


# --- Q3: partial failures ---------------------------------------------------------------------------------------------


def test_q3_only_what_was_confirmed_counts_as_sent(hf: Holdfast, sqs: FakeSQS) -> None:
    """Of four, one is confirmed, one has failed, and two are in neither list; SQS has one of these."""
    verdicts = iter(["ok", "failed", "silent", "swallowed"])
    sqs.faults.verdict = lambda entry: next(verdicts, "failed")  # type: ignore[return-value]
    sqs.faults.lost = lambda body: True
    hf.enqueue_many("q", [0, 1, 2, 3])
    assert try_to_claim(hf, n=4) == []
    stats = hf.stats("q")
    assert (stats.enqueued, stats.pending) == (1, 4)
    assert seen(hf)["sent"] == 1


@pytest.mark.parametrize("seed", range(3))
def test_q3_batches_that_fail_at_random_lose_nothing_and_double_nothing(hf: Holdfast, sqs: FakeSQS, seed: int) -> None:
    chance = random.Random(seed)

    def verdict(entry: Entry) -> Any:
        weights = (4, 2, 2, 2) if "MessageBody" in entry else (6, 2, 1, 1)
        return chance.choices(["ok", "failed", "silent", "swallowed"], weights)[0]

    sqs.faults.verdict = verdict
    hf.enqueue_many("q", list(range(30)))
    found: Counter[int] = Counter()
    for _ in range(200):
        forget_trouble(hf)  # No time to rest: this is about what was said, not how often.
        claims = try_to_claim(hf)
        assert all(claim.attempt == 1 for claim in claims)
        found.update(bodies(claims))
        hf.ack(claims)
        if len(found) == 30:
            break
    assert found == Counter(range(30))


# --- Q4: FIFO's memory ------------------------------------------------------------------------------------------------


def test_q4_a_retry_within_five_minutes_is_delivered_by_a_fifo_queue(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", sqs_queue="work.fifo", backoff=[0], max_attempts=5)
    hf.enqueue("q", 1)
    for attempt in range(1, 5):
        claim = claim_one(hf)
        assert claim.attempt == attempt
        hf.nack(claim, "again")
    ids = [
        entry["MessageDeduplicationId"]
        for request in sqs.requests
        for entry in request.payload.get("Entries", ())
        if "MessageBody" in entry
    ]
    assert len(set(ids)) == len(ids) == 4


def test_q4_a_lost_answer_is_no_reason_to_be_swallowed(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    """The send is repeated with a new generation; the first pointer leads to nothing."""
    hf.queue("q", sqs_queue="work.fifo")
    verdicts = iter(["silent"])
    sqs.faults.verdict = lambda entry: next(verdicts, "ok")  # type: ignore[return-value]
    hf.enqueue("q", 1)
    assert try_to_claim(hf) == []
    forget_trouble(hf)
    assert work_off(hf) == [1]


# --- Q5: long work, long delays ---------------------------------------------------------------------------------------


def test_q5_thirteen_hours_of_work_are_one_attempt(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS
) -> None:
    """SQS shows the pointer again after twelve hours at the latest. That changes nothing."""
    hf.queue("q", lease="1h")
    hf.enqueue("q", "long")
    claim = claim_one(hf)
    for hour in range(26):
        clock.advance(1_800)
        sqs.advance(1_800)
        hf.extend(claim)
        rival.enqueue("q", hour)
        others = rival.claim("q", n=10)
        assert bodies(others) == [hour]
        rival.ack(others)
    hf.ack(claim)
    assert hf.status(claim.message.id).attempts == 1


def test_q5_a_pointer_is_hidden_for_as_long_as_its_lease_lasts(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", lease="10m")
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    hf.extend(claim, "2h")
    asked = [request.payload for request in sqs.requests]
    assert {one["VisibilityTimeout"] for one in asked if "MaxNumberOfMessages" in one} == {600}
    [changed] = [one for one in asked if "VisibilityTimeout" in str(one.get("Entries"))]
    assert changed["Entries"][0]["VisibilityTimeout"] == 7_200


def test_q5_a_day_of_delay_is_spent_in_the_database(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    hf.enqueue("q", "tomorrow", delay="1d")
    assert claim_all(hf) == []
    clock.advance("23h")
    assert claim_all(hf) == []
    assert sqs.count("SendMessage", "SendMessageBatch") == 0
    clock.advance("2h")
    assert work_off(hf) == ["tomorrow"]
    assert all("DelaySeconds" not in json.dumps(request.payload) for request in sqs.requests)


# --- Q6: pointers that are gone ---------------------------------------------------------------------------------------


def test_q6_lost_pointers_are_sent_again(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    sqs.faults.lost = lambda body: True
    sent = hf.enqueue_many("q", list(range(15)))
    assert claim_all(hf, n=15) == []
    sqs.faults.lost = lambda body: False
    hf.maintain()
    assert claim_all(hf, n=15) == [], "it is too early to miss them"
    clock.advance(61)
    hf.maintain()
    assert sorted(work_off(hf)) == list(range(15))
    assert {hf.status(one.id).attempts for one in sent} == {1}


def test_q6_pointers_that_outlived_the_retention_are_sent_again(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    """Four days by default, and nobody came. The same goes for a queue that someone has purged."""
    hf.enqueue_many("q", [1, 2, 3])
    hf.release(hf.claim("q", n=3))
    hand_over(hf)
    assert hf.stats("q").enqueued == 3
    clock.advance("5d")
    sqs.advance(5 * 86_400)
    assert sqs.client().get_queue_attributes(
        QueueUrl=sqs.queue("holdfast-q").url, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"] == {"ApproximateNumberOfMessages": "0"}
    hf.maintain()
    assert sorted(work_off(hf)) == [1, 2, 3]


def test_q6_a_backlog_breeds_no_duplicates(hf: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    """They wait in SQS, and nobody comes for half an hour: they are asked after, and not sent again."""
    hf.enqueue_many("q", list(range(20)))
    hand_over(hf)
    for _ in range(30):
        clock.advance(60)
        sqs.advance(60)
        hf.maintain()
    assert len(pointers(sqs)) == 20
    assert sorted(work_off(hf)) == list(range(20))


# --- Q7: handles that have expired ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["work", "work.fifo"])
@pytest.mark.parametrize("answer", ["refused", "accepted"])
def test_q7_an_expired_handle_stops_nobody(hf: Holdfast, sqs: FakeSQS, name: str, answer: Any) -> None:
    hf.queue("q", sqs_queue=name)
    sqs.faults.expired_handles = answer
    one, two = hf.enqueue_many("q", [1, 2])
    claims = claim_all(hf)
    sqs.queue(name).expire_handles()
    hf.extend(claims, "2h")
    hf.ack(claims)
    assert {hf.status(sent.id).state for sent in (one, two)} == {"succeeded"}
    hf.enqueue("q", 3)
    sqs.advance(43_201)
    assert work_off(hf) == [3]
    assert sqs.bodies(name) == [], "what was not deleted then, was when it came again"
    if answer == "refused":
        assert seen(hf)["not_deleted"] == 2


# --- Q8, Q9: what SQS cannot carry ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    ["\x01\x02", "\ufffe\uffff", "x" * 2_097_152, {"text": "\x00"}, "😀"],
    ids=["control", "noncharacter", "2 MiB", "NUL", "emoji"],
)
def test_q8_and_q9_nothing_of_a_message_goes_to_sqs(hf: Holdfast, sqs: FakeSQS, body: Any) -> None:
    hf.queue("q", max_size=4_194_304)
    hf.enqueue("q", body, headers={"secret": "header-text"}, key="key-text", correlation_id="correlation-text")
    assert work_off(hf) == [body]
    sent = [entry for request in sqs.requests for entry in request.payload.get("Entries", ()) if "MessageBody" in entry]
    assert len(sent) == 1
    assert re.fullmatch(POINTER, sent[0]["MessageBody"], re.ASCII)
    assert set(sent[0]) == {"Id", "MessageBody"}
    assert "-text" not in json.dumps([request.payload for request in sqs.requests])


# --- Q10: too many in flight ------------------------------------------------------------------------------------------


def test_q10_the_limit_of_a_standard_queue_is_an_error_that_passes(hf: Holdfast, sqs: FakeSQS) -> None:
    sqs.faults.in_flight_limit = 3
    hf.enqueue_many("q", list(range(6)))
    held = hf.claim("q", n=3)
    with pytest.raises(DeliveryFailed, match="OverLimit"):
        hf.claim("q", n=3)
    assert seen(hf)["failures"] == 1
    hf.ack(held)
    forget_trouble(hf)
    assert sorted(bodies(held) + work_off(hf, n=3)) == list(range(6))


def test_q10_that_of_a_fifo_queue_is_silence_that_passes(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", sqs_queue="work.fifo")
    sqs.faults.in_flight_limit = 3
    hf.enqueue_many("q", list(range(6)))
    held = hf.claim("q", n=3)
    assert hf.claim("q", n=3) == []
    stats = hf.stats("q")
    assert (stats.enqueued, stats.processing) == (3, 3), "that they pile up can be seen"
    hf.ack(held)
    assert sorted(bodies(held) + work_off(hf, n=3)) == list(range(6))


# --- Q11: order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["work", "work.fifo"])
def test_q11_the_order_of_keys_is_the_databases(hf: Holdfast, sqs: FakeSQS, name: str) -> None:
    hf.queue("q", ordering="per_key", sqs_queue=name, backoff=[0])
    sqs.faults.shuffled = random.Random(3)
    for number in range(3):
        for key in "ab":
            hf.enqueue("q", f"{key}{number}", key=key)
    claims = {claim.message.key: claim for claim in claim_all(hf)}
    assert {key: claim.message.body for key, claim in claims.items()} == {"a": "a0", "b": "b0"}
    hf.nack(claims["a"], "again")
    hf.ack(claims["b"])
    again = {claim.message.key: claim for claim in claim_all(hf)}
    assert {key: (claim.message.body, claim.attempt) for key, claim in again.items()} == {
        "a": ("a0", 2),
        "b": ("b1", 1),
    }
    hf.ack(list(again.values()))
    assert sorted(work_off(hf)) == ["a1", "a2", "b2"]


def test_q11_a_head_that_is_held_up_holds_up_no_other_key(hf: Holdfast, rival: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", ordering="per_key", sqs_queue="work.fifo")
    for key in "abc":
        hf.enqueue("q", key, key=key)
    assert len(hf.claim("q")) == 1
    assert len(claim_all(rival)) == 2


def test_q11_queues_that_holdfast_makes_move_no_pointer_away(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.enqueue("q", 1)
    assert work_off(hf) == [1]
    made = [request.payload for request in sqs.requests if request.action == "CreateQueue"]
    assert len(made) == 1
    assert "RedrivePolicy" not in json.dumps(made)


# --- Q12: emulators lie -----------------------------------------------------------------------------------------------


def test_q12_the_documentation_says_what_was_not_run() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for page in ("scaling.md", "howto/deliver-through-sqs.md"):
        assert "not run against AWS" in (docs / page).read_text(), page


def test_q12_an_sqs_that_denies_once_what_it_has_been_sent(
    hf: Holdfast, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto does so, if it is held up for as long as it was to wait."""
    receive, asked = SqsQueue.receive, list[float]()

    def lie(queue: SqsQueue, most: int, wait: float, hidden: int) -> list[Received]:
        asked.append(wait)
        return receive(queue, most, wait, hidden) if len(asked) > 1 else []

    monkeypatch.setattr(SqsQueue, "receive", lie)
    hf.enqueue("q", 1)
    assert bodies(hf.claim("q")) == [1]
    assert asked[:2] == [1.0, 0.0]


# --- Q13: outage, throttling, wrong credentials -----------------------------------------------------------------------


def down(sqs: FakeSQS) -> None:
    sqs.down()


def broken(sqs: FakeSQS) -> None:
    sqs.faults.broken = True


def throttled(sqs: FakeSQS) -> None:
    sqs.faults.throttled = frozenset({"*"})


def unauthorized(sqs: FakeSQS) -> None:
    sqs.faults.refused = "InvalidClientTokenId"


def mend(sqs: FakeSQS) -> None:
    sqs.faults.broken, sqs.faults.throttled, sqs.faults.refused = False, frozenset(), None
    if not sqs.is_up:
        sqs.up()


@pytest.mark.parametrize("trouble", [down, broken, throttled, unauthorized])
def test_q13_enqueue_works_and_delivery_resumes(
    hf: Holdfast, sqs: FakeSQS, trouble: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    hf.enqueue("q", "before")
    work_off(hf)
    trouble(sqs)
    sent = hf.enqueue_many("q", [1, 2, 3])
    before = sqs.count()
    failures: list[DeliveryFailed] = []
    for _ in range(200):
        try:
            hf.claim("q")
        except DeliveryFailed as problem:
            failures.append(problem)
    assert len(failures) == 200
    assert sqs.count() - before <= 8, "who asks again at once gets an answer, but SQS is left alone"
    assert hf.stats("q").pending == 3
    mend(sqs)
    forget_trouble(hf)
    assert sorted(work_off(hf)) == [1, 2, 3]
    assert {hf.status(one.id).attempts for one in sent} == {1}
    told = caplog.text + "".join(map(str, failures))
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in told
    assert CREDENTIALS["AWS_ACCESS_KEY_ID"] not in told


def test_q13_other_queues_are_claimed_from_all_the_same(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("db", delivery="database")
    hf.enqueue("q", "with SQS")
    sqs.down()
    for body in ("first", "second"):
        hf.enqueue("db", body)
        assert bodies(hf.claim("q", "db")) == [body]
    with pytest.raises(DeliveryFailed):
        hf.claim("q", "db")


def test_q13_an_ack_counts_though_the_claim_that_it_came_with_fails(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through SQS these are two transactions: whoever is told that nothing happened would do it again."""
    first = hf.enqueue("q", 1)
    claims = claim_all(hf)
    hf.enqueue("q", 2)

    def fail(*_: Any) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as broken:
        broken.setattr(type(internals(hf).store.deliveries), "claim", fail)
        assert hf.claim("q", ack=claims) == []
        assert hf.status(first.id).state == "succeeded"
        hf.enqueue("q", 3)
        with pytest.raises(StoreFull):
            hf.claim("q")


def test_q13_what_was_claimed_can_be_ended_during_an_outage(hf: Holdfast, client: OpenClient, sqs: FakeSQS) -> None:
    sent = hf.enqueue_many("q", [1, 2])
    claims = claim_all(hf)
    sqs.down()
    hf.extend(claims)
    hf.ack(claims)
    assert {hf.status(one.id).state for one in sent} == {"succeeded"}
    assert (seen(hf)["not_deleted"], seen(hf)["not_hidden"]) == (2, 2)
    sqs.up()
    sqs.advance(43_201)
    hf.enqueue("q", 3)
    assert work_off(client(worker="other")) == [3]
    assert pointers(sqs) == []


def test_q13_a_queue_that_cannot_be_found_holds_up_no_other() -> None:
    asked, answer = Event(), Event()

    def find(name: str) -> str:
        if name == "silent":
            asked.set()
            assert answer.wait(LONGEST)
        return f"https://sqs/{name}"

    sqs: Any = SimpleNamespace(find=find)
    with ThreadPoolExecutor(2) as threads:
        silent = threads.submit(lambda: SqsQueue(sqs, "silent").url)
        assert asked.wait(LONGEST)
        try:
            other = threads.submit(lambda: SqsQueue(sqs, "other").url)
            assert other.result(LONGEST / 4) == "https://sqs/other"
        finally:
            answer.set()
        assert silent.result(LONGEST) == "https://sqs/silent"
