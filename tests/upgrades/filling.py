"""What a database of a release holds, and what the public client shows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from holdfast import Claim, CommitmentResult, Holdfast, Step, Wait
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.core.message import Lease
from tests.clock import FakeClock
from tests.topics.publishing import watch

TENANTS = ("default", "acme")
HOUR = 3600
KEPT_IDS = "ids"
LEASES = "leases"


def fill(client: Callable[..., Holdfast], clock: FakeClock) -> dict[str, Any]:
    """Put one of everything into an empty database. Return the names by which a test finds it again.

    `client` opens clients that live by `clock`, for instance `client(tenant="acme")`.
    """
    hf = client(worker="old")
    ids: dict[str, str] = {}
    held: dict[str, list[Claim]] = {}
    _topics(hf, clock, held)
    _messages(hf, ids, held)
    _rows(hf, clock, ids, held)
    _ordered(hf, held)
    _dead_letters(hf, clock, ids)
    _sagas(hf, clock, held)
    hf.schedule("hourly", queue="reports", body={"kind": "hourly"}, every="1h")
    hf.schedule("daily", queue="reports", body={"kind": "daily"}, cron="0 9 * * *", tz="Europe/Berlin")
    hf.schedules.pause("daily")
    acme = client(tenant="acme")
    acme.enqueue_many("plain", ["theirs-1", "theirs-2"])
    acme.enqueue("plain", "theirs-3", delay=HOUR)
    leases = {name: [lease_of(claim) for claim in claims] for name, claims in held.items()}
    return {KEPT_IDS: ids, LEASES: leases}


def _messages(hf: Holdfast, ids: dict[str, str], held: dict[str, list[Claim]]) -> None:
    """Plain messages of three priorities, a run that is partly acked, and what is remembered of messages."""
    hf.enqueue_many("plain", [f"plain-{number}" for number in range(8)])
    hf.ack(hf.claim("plain", n=2))
    hf.enqueue("plain", "high", priority="high", headers={"a": [1, {"b": "ü"}]}, correlation_id="order-1")
    hf.enqueue("plain", "low", priority="low", reply_to="answers", ttl="30d")
    hf.queue("claimed", lease="1h")
    hf.enqueue_many("claimed", [f"claimed-{number}" for number in range(6)])
    run = hf.claim("claimed", n=4)
    hf.ack(run[:2])
    held["run"] = run[2:]
    hf.queue("once", history="30d", idempotency_window="30d")
    ids["waiting once"] = hf.enqueue("once", "waiting", idempotency_key="k-waiting").id
    ids["acked once"] = hf.enqueue("once", "acked", idempotency_key="k-acked", priority="high").id
    [claim] = hf.claim("once")
    claim.ack({"sum": 7})
    hf.queue("limited", concurrency=2, rate="100/h", max_depth=10)
    hf.enqueue_many("limited", ["limited-1", "limited-2", "limited-3"])
    held["limited"] = hf.claim("limited", lease="1h")
    hf.queues.pause("limited")


def _rows(hf: Holdfast, clock: FakeClock, ids: dict[str, str], held: dict[str, list[Claim]]) -> None:
    """Messages with a state of their own: delayed, backing off, processing, canceled, and what was spent on them."""
    hf.queue("rows", backoff="1h", lease="1h", history="30d", max_attempts=5)
    ids["delayed"] = hf.enqueue("rows", "delayed", delay=2 * HOUR).id
    for body in ("backing off", "processing"):
        ids[body] = hf.enqueue("rows", body).id
    hf.claim("rows")[0].nack("RuntimeError: no route")
    hf.claim("rows")[0].nack("RuntimeError: busy", delay=1)
    clock.advance(2)
    held["row"] = hf.claim("rows")
    ids["canceled"] = hf.enqueue("rows", "canceled", delay=HOUR).id
    hf.cancel(ids["canceled"])
    hf.queue("costly", lease="1h", budget=100, message_budget=10, backoff="1h")
    ids["costly"] = hf.enqueue("costly", "costly", budget=5).id
    [claim] = hf.claim("costly")
    spend_reports.spend(internals(hf), claim, 3)
    [settlement] = settlements.acked([claim])
    internals(hf).store.commitments.keep(settlement, [CommitmentResult("built", False, 1, "2 failed")])
    claim.nack("built")


def _ordered(hf: Holdfast, held: dict[str, list[Claim]]) -> None:
    """Queues that keep an order: a key in someone's hands, and one that is blocked by a death."""
    hf.queue("fifo", ordering="fifo", lease="1h")
    hf.enqueue_many("fifo", ["fifo-1", "fifo-2", "fifo-3"])
    hf.queue("keyed", ordering="per_key", lease="1h", on_dead="block")
    for key in ("a", "b", "c"):
        hf.enqueue_many("keyed", [f"{key}-{number}" for number in range(3)], key=key)
    held["key"] = hf.claim("keyed")
    [blocking] = hf.claim("keyed")
    blocking.dead_letter("ValueError: blocks its key")


def _topics(hf: Holdfast, clock: FakeClock, held: dict[str, list[Claim]]) -> None:
    """A topic with groups that are done, behind, paused, dead, in someone's hands, ordered, and choosy."""
    hf.topic("orders", retention="60d", min_retention="60d")
    for group in ("done", "lagging", "paused", "open"):
        hf.subscribe("orders", group, lease="1h")
    hf.subscribe("orders", "choosy", patterns=["orders.*.created"])
    hf.subscribe("orders", "ordered", ordering="per_key", lease="1h")
    hf.subscribe("orders", "silent", timeout=60)
    for number in range(4):
        hf.publish("orders.eu.created", f"created-{number}", key=f"k{number % 2}")
        hf.publish("orders.eu.paid", f"paid-{number}", key=f"k{number % 2}", priority="high")
    hf.ack(hf.claim("orders", group="done", n=100))
    hf.ack(hf.claim("orders", group="lagging", n=3))
    hf.queues.pause("orders/paused")
    for wait in (60, 12, 12):
        clock.advance(wait)
        watch(hf)
    held["group"] = hf.claim("orders", group="open", n=3)
    held["fed group"] = hf.claim("orders", group="ordered")
    [doomed] = hf.claim("orders", group="open")
    doomed.dead_letter("ValueError: not an order")


def _dead_letters(hf: Holdfast, clock: FakeClock, ids: dict[str, str]) -> None:
    """Dead letters with a history, with an owner who was told, replayed ones, and what operators did."""
    hf.owner("boss")
    hf.owner("mia", owner="boss", escalate_after="10d")
    hf.queue("doomed", max_attempts=2, backoff=1, owner="mia", dead_letter="graveyard")
    for body in ("doomed-1", "doomed-2"):
        ids[body] = hf.enqueue("doomed", body, headers={"n": body}).id
    for attempt in (1, 2):
        for _ in range(2):  # A last attempt is claimed alone.
            hf.claim("doomed")[0].nack(f"RuntimeError: failed {attempt}")
        clock.advance(1)
    hf.enqueue("doomed", "twice")
    hf.claim("doomed")[0].dead_letter("ValueError: first death")
    [again] = [letter for letter in hf.dead_letters.list("doomed") if letter.message.body == "twice"]
    hf.dead_letters.replay(again.id)
    hf.notices.report("crash_loop", "worker-7", "RuntimeError: out of memory", owner="mia")
    hf.notices.acknowledge(
        hf.notices.report("disk", "db-1", "OSError: nearly full", owner="boss"), remark="ordered one"
    )


def _sagas(hf: Holdfast, clock: FakeClock, held: dict[str, list[Claim]]) -> None:
    """One that is under way, one that waits, one that is being undone, and one that is done."""

    def book(queue: str, output: Any = None) -> None:
        [claim] = hf.claim(queue)
        claim.ack(output)

    hf.saga(
        "trip",
        steps=[
            Step("flight", "flight.book", undo="flight.cancel"),
            Step("hotel", "hotel.book", undo="hotel.cancel"),
            Wait("paid", signal="paid"),
            Step("car", "car.book", undo="car.cancel"),
        ],
        keep="60d",
    )
    for queue in ("flight.book", "hotel.book", "car.book", "flight.cancel"):
        hf.queue(queue, lease="1h")
    for name in ("done", "undone", "waiting"):
        hf.start_saga("trip", {"who": name}, id=name)
        book("flight.book", {"seat": name})
        if name == "undone":
            hf.claim("hotel.book")[0].dead_letter("RuntimeError: full")
            continue
        book("hotel.book", {"room": name})
        if name == "done":
            hf.signal("done", "paid", {"by": "card"})
            book("car.book")
    hf.start_saga("trip", {"who": "running"}, id="running")
    book("flight.book", {"seat": "running"})
    held["saga"] = hf.claim("hotel.book")
    hf.start_saga("trip", {"who": "begun"}, id="begun")


# --- what can be seen of it -------------------------------------------------------------------------------------------


def observe(client: Callable[..., Holdfast], ids: dict[str, str]) -> dict[str, Any]:
    """Return what the public client shows of such a database, as JSON. Looking changes nothing."""
    shown = {tenant: _tenant(client(tenant=tenant)) for tenant in TENANTS}
    hf = client()
    shown["messages"] = {name: _message(hf, one) for name, one in ids.items()}
    shown["sagas"] = {saga.id: _saga(hf, saga.id) for saga in hf.sagas.list(n=100)}
    shown["commitments"] = [(one.name, one.passed, one.output) for one in hf.messages.commitments(ids["costly"])]
    shown["spent"] = hf.queues.budget("costly")
    found: dict[str, Any] = json.loads(json.dumps(shown))
    return found


def _tenant(hf: Holdfast) -> dict[str, Any]:
    groups = [f"orders/{one.group}" for one in hf.groups.list("orders")] if "orders" in hf.topics.list() else []
    return {
        "topics": hf.topics.list(),
        "readers": {name: _reader(hf, name) for name in sorted([*hf.queues.list(), *groups])},
        "schedules": [(one.name, one.queue, one.body, one.paused, one.next_at_us) for one in hf.schedules.list()],
        "owners": sorted(hf.notices.owners()),
        "notices": [
            (one.kind, one.owner, one.queue, one.error, one.level, one.remark)
            for one in hf.notices.list(acknowledged=True)
        ],
        "audit": [(one.actor, one.act, one.queue, one.count) for one in hf.audit.list()],
    }


def _reader(hf: Holdfast, name: str) -> dict[str, Any]:
    stats = hf.stats(name)
    return {
        "counts": [stats.pending, stats.waiting, stats.processing, stats.dead],
        "paused": hf.queues.is_paused(name),
        "next": [_body(message) for message in hf.queues.peek(name, 100)],
        "blocked": [(one.key, one.waiting) for one in hf.queues.blocked(name)],
        "dead letters": [
            {
                "message": _body(one.message),
                "error": one.error,
                "history": [(line.attempt, line.worker, line.error) for line in one.history],
                "replayed": one.replay_state,
            }
            for one in hf.dead_letters.list(name)
        ],
    }


def _body(message: Any) -> list[Any]:
    return [message.id, message.body, message.priority, message.key, message.headers, message.correlation_id]


def _message(hf: Holdfast, message_id: str) -> dict[str, Any]:
    found = hf.status(message_id)
    assert found is not None, message_id
    failures = [(line.attempt, line.worker, line.error) for line in found.history]
    return {"state": found.state, "attempts": found.attempts, "result": found.result, "failures": failures}


def _saga(hf: Holdfast, saga_id: str) -> dict[str, Any]:
    found = hf.sagas.get(saga_id)
    assert found is not None
    return {
        "status": found.status,
        "data": found.data,
        "steps": [(step.name, step.status) for step in found.steps],
        "timeline": [(line.what, line.step, line.who) for line in found.timeline],
    }


# --- leases -----------------------------------------------------------------------------------------------------------


def lease_of(claim: Claim) -> dict[str, Any]:
    """What a process has in its memory of a claim, as JSON."""
    lease = {name: getattr(claim.lease, name) for name in claim.lease.__struct_fields__}
    return {
        "queue": claim.queue,
        "id": claim.message.id,
        "body": claim.message.body,
        "attempt": claim.attempt,
        "member": claim.member,
        "lease": lease,
    }


def claim_of(hf: Holdfast, held: dict[str, Any]) -> Claim:
    """The claim in the hand of the process that made it."""
    status = hf.status(held["id"])
    assert status is not None
    assert status.message is not None
    channel = internals(hf).catalog.channel(held["queue"])
    return Claim(hf, status.message, held["attempt"], Lease(**held["lease"]), held["member"], channel)
