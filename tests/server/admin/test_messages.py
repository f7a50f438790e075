"""Messages and tasks over HTTP."""

from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.server.admin.conftest import Ask

pytestmark = pytest.mark.above_the_stores

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_a_task_is_stored_and_seen(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email")
    made = ask("POST", "/tasks", 201, json={"type": "email", "payload": {"to": "a@b.c"}, "priority": "high"})
    assert (made["type"], made["status"], made["duplicate"]) == ("email", "pending", False)
    [claim] = hf.claim("email")
    assert (claim.message.id, claim.message.body, claim.message.priority) == (made["id"], {"to": "a@b.c"}, 1)
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["status"], task["attempts"], task["payload"]) == ("processing", 1, {"to": "a@b.c"})
    assert task["retry_state"].startswith("attempt 1 is under way")
    claim.ack({"sent": True})
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["status"], task["result"]) == ("succeeded", {"sent": True})


def test_a_payload_has_to_fit_the_message_type(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email", message_type=dict[str, int])
    answer = ask("POST", "/tasks", 422, json={"type": "email", "payload": {"n": "one"}})
    assert "does not fit the message type of 'email'" in answer["error"]["message"]
    assert hf.stats("email").pending == 0
    ask("POST", "/tasks", 201, json={"type": "email", "payload": {"n": 1}})


def test_a_task_tells_of_its_failures(hf: Holdfast, ask: Ask, clock: FakeClock) -> None:
    hf.queue("email", backoff=60, max_attempts=2)
    made = ask("POST", "/tasks", 201, json={"type": "email", "payload": 1})
    hf.nack(hf.claim("email"), "no route to host")
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["status"], task["last_error"]) == ("pending", "no route to host")
    assert task["retry_state"] == "attempt 1 failed; the next one is due at 2026-01-01 00:01:00 UTC"
    assert [step["event"] for step in task["timeline"]] == ["enqueued", "claimed", "failed"]
    clock.advance(61)
    hf.nack(hf.claim("email"), "still not")
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["status"], task["last_error"]) == ("dead", "still not")
    assert task["retry_state"] == "gave up after 2 attempts; replay its dead letter to try again"
    events = ["enqueued", "claimed", "failed", "claimed", "failed", "dead"]
    assert [step["event"] for step in task["timeline"]] == events


@pytest.mark.parametrize("delay", [0, 5])
def test_a_task_tells_of_each_claim(hf: Holdfast, ask: Ask, clock: FakeClock, delay: int) -> None:
    hf.queue("email", backoff=60)
    begun = clock() / 1_000_000
    made = ask("POST", "/tasks", 201, json={"type": "email", "payload": 1, "delay": delay})
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["claimed_at"], task["session"]) == (None, None)
    clock.advance(10)
    [claim] = hf.claim("email")
    clock.advance(1)
    hf.nack(claim, "no route to host")
    clock.advance(89)
    [claim] = hf.claim("email")
    spend_reports.remember(internals(hf), claim, "thread-7")
    clock.advance(1)
    for path in ("/tasks", "/admin/messages"):
        task = ask("GET", f"{path}/{made['id']}")
        assert (task["claimed_at"], task["session"], task["worker"]) == (begun + 100, "thread-7", claim.lease.worker)
        steps = [(step["event"], step["at"] - begun, step["attempt"], step["worker"]) for step in task["timeline"]]
        worker = claim.lease.worker
        assert steps == [
            ("enqueued", 0, None, None),
            ("claimed", 10, 1, worker),
            ("failed", 11, 1, worker),
            ("claimed", 100, 2, worker),
        ]
    claim.ack()
    task = ask("GET", f"/tasks/{made['id']}")
    assert (task["status"], task["claimed_at"]) == ("succeeded", begun + 100)
    assert [(step["event"], step["at"] - begun) for step in task["timeline"]][-2:] == [
        ("claimed", 100),
        ("succeeded", 101),
    ]


def test_a_claim_that_was_canceled_is_told_once(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email")
    ids = [receipt.id for receipt in hf.enqueue_many("email", [1, 2])]
    first, _ = hf.claim("email", n=2)
    internals(hf).store.messages.settle(settlements.canceled([first], "nobody wants it"))
    hf.cancel(ids[1])
    told = [[step["event"] for step in ask("GET", f"/tasks/{one}")["timeline"]] for one in ids]
    assert told == [["enqueued", "claimed", "failed", "canceled"], ["enqueued", "claimed", "canceled"]]


def test_a_dead_letter_tells_of_each_claim(hf: Holdfast, ask: Ask, clock: FakeClock) -> None:
    hf.queue("email", max_attempts=1)
    hf.enqueue("email", 1)
    [claim] = hf.claim("email")
    begun = clock() / 1_000_000
    clock.advance(2)
    claim.nack("no")
    [letter] = hf.dead_letters.list("email")
    [line] = ask("GET", f"/admin/queues/email/dlq/{letter.id}")["history"]
    assert (line["claimed_at"], line["at"]) == (begun, begun + 2)


@pytest.mark.parametrize("when", [{"delay": 30}, {"run_at": 1767225630}, {"delay": 30, "run_at": 1767225610}])
def test_a_task_may_begin_later(hf: Holdfast, ask: Ask, clock: FakeClock, when: dict[str, Any]) -> None:
    hf.queue("email")
    ask("POST", "/tasks", 201, json={"type": "email", "payload": 1, **when})
    clock.advance(29)
    assert hf.claim("email") == []
    clock.advance(1)
    assert len(hf.claim("email")) == 1


def test_the_same_task_twice_is_one(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email")
    task = {"type": "email", "payload": 1, "idempotency_key": "once"}
    first = ask("POST", "/tasks", 201, json=task)
    again = ask("POST", "/tasks", 200, json=task)
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    hf.ack(hf.claim("email"), result="done")
    assert ask("POST", "/tasks", 200, json=task)["result"] == "done"
    assert ask("POST", "/tasks", 409, json={**task, "payload": 2})["error"]["code"] == "idempotency_conflict"


def test_canceling_is_200_once_then_409(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email")
    task = ask("POST", "/tasks", 201, json={"type": "email", "payload": 1})["id"]
    assert ask("PUT", f"/tasks/{task}/cancel") == {"ok": True}
    assert ask("PUT", f"/tasks/{task}/cancel", 409)["error"]["code"] == "cannot_cancel"
    assert ask("GET", f"/tasks/{task}")["status"] == "canceled"
    assert hf.claim("email") == []
    for method, path in (("PUT", f"/tasks/{NOBODY}/cancel"), ("GET", f"/tasks/{NOBODY}"), ("GET", "/tasks/what")):
        ask(method, path, 404)


def test_what_was_published_cannot_be_taken_back(hf: Holdfast, ask: Ask) -> None:
    hf.topic("news")
    hf.subscribe("news", "a")
    message = hf.publish("news.today", 1).id
    assert ask("POST", f"/admin/messages/{message}/cancel", 409)["error"]["code"] == "cannot_cancel"


@pytest.mark.parametrize(
    "task",
    [
        {"type": "email"},
        {"payload": 1},
        {"type": "", "payload": 1},
        {"type": "email", "payload": None},
        {"type": "email", "payload": "  "},
        {"type": "email", "payload": 1, "priority": 4},
        {"type": "email", "payload": 1, "priority": True},
        {"type": "email", "payload": 1, "delay": "5"},
        {"type": "email", "payload": 1, "delay": -1},
        {"type": "email", "payload": 1, "more": 1},
        {"type": "email", "payload": 2**70},
    ],
    ids=str,
)
def test_a_task_that_does_not_fit_is_refused(hf: Holdfast, ask: Ask, task: dict[str, Any]) -> None:
    hf.queue("email")
    assert ask("POST", "/tasks", 422, json=task)["error"]["message"]
    assert hf.stats("email").pending == 0


def test_a_type_that_nobody_declared_is_404(ask: Ask, hf: Holdfast) -> None:
    ask("POST", "/tasks", 404, json={"type": "nobody", "payload": 1})
    assert hf.queues.list() == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"{", 422),
        (b'{"type": "email", "payload": NaN}', 422),
        (b'{"type": "email", "payload": "\\ud800"}', 422),
        (b'{"type": "email\\u0000", "payload": 1}', 422),
        (b'{"type": "email", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (b'{"type": "email", "payload": ' + b"9" * 5_000 + b"}", 400),
        (b"\xff\xfe", 422),
    ],
)
def test_no_body_breaks_the_server(hf: Holdfast, ask: Ask, raw: bytes, expected: int) -> None:
    hf.queue("email")
    answer = ask("POST", "/tasks", expected, content=raw, headers={"content-type": "application/json"})
    assert answer["error"]["code"]


def test_a_full_queue_is_503(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email", max_depth=1)
    ask("POST", "/tasks", 201, json={"type": "email", "payload": 1})
    assert ask("POST", "/tasks", 503, json={"type": "email", "payload": 1})["error"]["code"] == "queue_full"


def test_a_task_beyond_the_size_of_its_queue_is_413(hf: Holdfast, ask: Ask) -> None:
    hf.queue("email", max_size=10)
    ask("POST", "/tasks", 413, json={"type": "email", "payload": "x" * 100})


def test_messages_are_found_by_what_they_carry(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    one = hf.enqueue("q", 1, key="k", correlation_id="c", headers={"who": "me"}).id
    hf.enqueue("q", 2, key="other")
    for query in ("key=k", "correlation_id=c", "header=who&header_value=me", "queue=q&key=k"):
        assert [found["id"] for found in ask("GET", f"/admin/messages?{query}")["messages"]] == [one]
    assert ask("GET", "/admin/messages")["messages"] == []
    found = ask("GET", f"/admin/messages/{one}")
    assert (found["body"], found["key"], found["queue"], found["status"]) == (1, "k", "q", "pending")
    assert ask("GET", f"/admin/messages/{one}/commitments") == {"commitments": []}
