"""Two tenants with the same names for everything: neither sees nor touches what is the other's, whatever it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast import Claim, CommitmentResult, Holdfast, NoAnswer, NotFound, Receipt, Step, Wait, Work
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.commands.rules import CommandKey
from tests.client_names import public_methods
from tests.clock import FakeClock
from tests.long import only_long
from tests.steps import OpenClient, beat, bodies, kill

pytestmark = pytest.mark.not_through_sqs("is about who sees what, call by call, whoever delivers")


class Estate(NamedTuple):
    """All that a tenant has. Both have the same, under the same names."""

    hf: Holdfast
    messages: list[str]
    dead: list[str]
    held: Claim
    once: Receipt

    def view(self) -> dict[str, Any]:
        """Everything that can be seen of it."""
        hf = self.hf
        queues = hf.queues.list()
        return {
            "queues": queues,
            "declared": [internals(hf).store.channels.find(hf.settings.tenant, queue) for queue in queues],
            "paused": [hf.queues.is_paused(queue) for queue in queues],
            "stats": [hf.stats(queue) for queue in queues],
            "peek": [[(one.id, one.body) for one in hf.queues.peek(queue)] for queue in queues],
            "blocked": [hf.queues.blocked(queue) for queue in queues],
            "status": [hf.status(message) for message in self.messages],
            "commitments": [hf.messages.commitments(message) for message in self.messages],
            "dead": [(one.id, one.message.body, one.replayed_as, one.replay_state) for one in hf.dead_letters.list()],
            "notices": hf.notices.list(acknowledged=True),
            "owners": hf.notices.owners(),
            "schedules": hf.schedules.list(),
            "sagas": [hf.sagas.get(saga.id) for saga in hf.sagas.list()],
            "audit": hf.audit.list(),
            "consumers": hf.consumers.list(alive=False),
            "attachments": hf.consumers.attachments(),
            "spent": [hf.queues.budget(queue) for queue in queues],
            "receipts": [
                internals(hf).store.commands.find(CommandKey(hf.settings.tenant, "A.B", key)) for key in ("old", "new")
            ],
            "topics": hf.topics.list(),
            "groups": hf.groups.list("news"),
            "readers": [
                internals(hf).store.channels.find(hf.settings.tenant, name) for name in ("news/readers", "news/more")
            ],
            "news": [(one.id, one.body) for one in hf.queues.peek("news/readers")] if self.is_read() else None,
        }

    def is_read(self) -> bool:
        return internals(self.hf).store.channels.find(self.hf.settings.tenant, "news/readers") is not None

    def ids(self) -> list[str]:
        """Every id that it could hand to someone else by mistake."""
        return [*self.messages, *self.dead, *(notice.id for notice in self.hf.notices.list(acknowledged=True))]


def settle_in(hf: Holdfast, clock: FakeClock) -> Estate:
    tenant = hf.settings.tenant
    hf.owner("mia", inbox="inbox", escalate_after=60)
    hf.queue("q", ordering="per_key", on_dead="block", owner="mia", dead_letter="graves", max_depth=10)
    hf.queue("p", lease=30)
    hf.queue("halted")
    hf.queues.pause("halted")
    hf.schedule("s", queue="ticks", body=f"{tenant} ticks", every=60)
    hf.schedule("paused", queue="ticks", every=60)
    hf.schedules.pause("paused")
    hf.schedule(f"{tenant} alone has this", queue="ticks", every=3600)
    hf.queue(f"{tenant} alone has this")
    hf.topic("news")
    hf.topic(f"{tenant} alone tells this")
    hf.subscribe("news", "readers")
    hf.publish("news.today", f"{tenant} news")
    hf.owner(f"{tenant} alone has this")
    put = [hf.enqueue("q", f"{tenant} dead", key="k"), hf.enqueue("q", f"{tenant} replayed", key="j")]
    hf.dead_letter(hf.claim("q", n=2), "boom")
    dead = [letter.id for letter in hf.dead_letters.list()]
    hf.dead_letters.replay(dead[1])
    put += [hf.enqueue("q", f"{tenant} behind", key="k"), hf.enqueue("q", f"{tenant} late", delay=3600)]
    once = hf.enqueue("p", "work", idempotency_key="once")
    hf.ack(hf.claim("p"), result=tenant)
    hf.owner("dora", inbox="inbox", notify="digest", digest_every=60, escalate_after=None)
    hf.queue("d", owner="dora")
    dead.append(kill(hf, f"{tenant} digested", "d"))
    put += [once, *hf.enqueue_many("p", [f"{tenant} held", f"{tenant} lane"])]
    hf.notices.report("crash_loop", "pool", f"{tenant} crashed", owner="mia")
    [held] = hf.claim("p")
    hf.consumers.attach("mailer", "q", weight=2)
    busy = [Work(held.message.id, "p", 1, 0, f"{tenant} is half way")]
    internals(hf).store.crew.beat(tenant, beat(held.lease.worker, work=busy, saturation=0.9))
    spend_reports.spend(internals(hf), held, {"acme": 41.5, "other": 7}[tenant])
    results = [CommitmentResult("tidy", True, 0, tenant)]
    internals(hf).store.commitments.keep(settlements.acked([held])[0], results)
    hf.command("A.B")(lambda: tenant)
    hf.commands.run("A.B", {}, idempotency_key="old")
    hf.saga("trip", steps=[Step("a", "steps", undo="undoing"), Wait("b", signal="go")])
    hf.start_saga("trip", {"whose": tenant}, id="failed")
    hf.dead_letter(hf.claim("steps"), "boom")
    hf.start_saga("trip", {"whose": tenant}, id="t1")
    hf.start_saga("trip", {"whose": tenant}, id="later", delay=60)
    hf.start_saga("trip", {"whose": tenant}, id=f"{tenant} alone")
    clock.advance(1)
    return Estate(hf, [receipt.id for receipt in put], dead, held, once)


@pytest.fixture
def acme(client: OpenClient, clock: FakeClock) -> Estate:
    return settle_in(client(tenant="acme", actor="anna"), clock)


@pytest.fixture
def other(client: OpenClient, clock: FakeClock, acme: Estate) -> Estate:
    return settle_in(client(tenant="other", actor="ben"), clock)


def refused(call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(NotFound) as found:
        call(*args, **kwargs)
    return type(found.value).__name__


def asks(hf: Holdfast, queue: str) -> str:
    with pytest.raises(NoAnswer) as found:
        hf.ask(queue, "hello", timeout=0.01)
    return str(found.value)


def told(hf: Holdfast, owner: str | None) -> list[Any]:
    """What a callback hears."""
    heard: list[Any] = []
    hf.on_notice(lambda notices: heard.extend(notices), owner)
    hf.notices.escalate()
    return heard


# Each is called by the other tenant, with a name that both have or with an id of acme's.
Act = Callable[[Holdfast, Estate], object]
FIND_NOTHING: dict[str, Act] = {
    "status": lambda hf, acme: [hf.status(one) for one in acme.ids()],
    "cancel": lambda hf, acme: [hf.cancel(one) for one in acme.ids()],
    "messages.get": lambda hf, acme: [hf.messages.get(one) for one in acme.ids()],
    "messages.cancel": lambda hf, acme: [hf.messages.cancel(one) for one in acme.ids()],
    "schedules.get": lambda hf, acme: [hf.schedules.get("acme alone has this")],
    "messages.commitments": lambda hf, acme: [hf.messages.commitments(one) for one in acme.ids()],
    "notices.acknowledge": lambda hf, acme: [hf.notices.acknowledge(one, remark="seen") for one in acme.ids()],
    "dead_letters.get": lambda hf, acme: [hf.dead_letters.get(one) for one in acme.ids()],
    "dead_letters.delete": lambda hf, acme: [hf.dead_letters.delete(one) for one in acme.ids()],
    "schedules.remove": lambda hf, acme: [hf.schedules.remove("acme alone has this")],
    "sagas.get": lambda hf, acme: [hf.sagas.get("acme alone")],
    "groups.skip": lambda hf, acme: [hf.groups.skip("news", "readers", one) for one in acme.ids()],
}
"""All of them answer None, False or 0."""
SEE_THEIR_OWN: dict[str, Act] = {
    "queues.list": lambda hf, acme: hf.queues.list(),
    "notices.owners": lambda hf, acme: hf.notices.owners(),
    "topics.list": lambda hf, acme: hf.topics.list(),
    "topics.settings": lambda hf, acme: hf.topics.settings("news"),
    "groups.settings": lambda hf, acme: hf.groups.settings("news", "readers"),
    "pools.list": lambda hf, acme: hf.pools.list(),
    "groups.list": lambda hf, acme: hf.groups.list("news"),
    "groups.accept_loss": lambda hf, acme: hf.groups.accept_loss("news", "readers"),
    "queues.peek": lambda hf, acme: [
        (one.id, one.body) for queue in ("q", "p", "inbox", "graves") for one in hf.queues.peek(queue)
    ],
    "stats": lambda hf, acme: [hf.stats("q"), hf.stats("p")],
    "queues.settings": lambda hf, acme: [hf.queues.settings("q"), hf.queues.settings("p")],
    "queues.budget": lambda hf, acme: [hf.queues.budget("q"), hf.queues.budget("p")],
    "queues.is_paused": lambda hf, acme: hf.queues.is_paused("q"),
    "queues.blocked": lambda hf, acme: hf.queues.blocked("q"),
    "messages.search": lambda hf, acme: [
        hf.messages.search(key="k"),
        hf.messages.search("q", key="j"),
        *(hf.messages.search(key="k", after=one) for one in acme.messages),
    ],
    "dead_letters.list": lambda hf, acme: [
        hf.dead_letters.list(),
        hf.dead_letters.list("q", error="boom", key="k", since=0),
        *(hf.dead_letters.list(after=one) for one in acme.dead),
    ],
    "dead_letters.count": lambda hf, acme: [hf.dead_letters.count(), hf.dead_letters.count("q", fresh=True)],
    "notices.list": lambda hf, acme: [
        hf.notices.list(acknowledged=True),
        hf.notices.list("mia", queue="q"),
        *(hf.notices.list(after=one.id, acknowledged=True) for one in acme.hf.notices.list(acknowledged=True)),
    ],
    "schedules.list": lambda hf, acme: hf.schedules.list(),
    "sagas.list": lambda hf, acme: [
        hf.sagas.list(),
        hf.sagas.list("in_progress", name="trip"),
        hf.sagas.list(after="t1"),
    ],
    "audit.list": lambda hf, acme: [hf.audit.list(), *(hf.audit.list(before=one.id) for one in acme.hf.audit.list())],
    "consumers.list": lambda hf, acme: [hf.consumers.list(), hf.consumers.list(alive=False)],
    "consumers.amplification": lambda hf, acme: hf.consumers.amplification(),
    "consumers.attachments": lambda hf, acme: [hf.consumers.attachments(), hf.consumers.attachments("mailer")],
    "claim": lambda hf, acme: [
        bodies(hf.claim(queue, n=10)) for queue in ("q", "p", "inbox", "graves", "news/readers")
    ],
    "acting_as": lambda hf, acme: [
        hf.acting_as("cleo").audit.list(),
        hf.acting_as(tenant="nobody").dead_letters.list(),
    ],
    "on_notice": lambda hf, acme: [told(hf, "mia"), told(hf, None)],
}
"""What comes back speaks of the caller's own things only."""
CHANGE_THEIR_OWN: dict[str, Act] = {
    "queues.pause": lambda hf, acme: (hf.queues.pause("q"), hf.queues.pause("p")),
    "queues.resume": lambda hf, acme: hf.queues.resume("halted"),
    "queues.reset_budget": lambda hf, acme: [hf.queues.reset_budget("q"), hf.queues.reset_budget("p")],
    "queues.purge": lambda hf, acme: [hf.queues.purge("q"), hf.queues.purge("p")],
    "queues.unblock": lambda hf, acme: hf.queues.unblock("q", "k"),
    "queues.sweep": lambda hf, acme: [hf.queues.sweep("q"), hf.queues.sweep("p")],
    "maintain": lambda hf, acme: hf.maintain(),
    "notices.escalate": lambda hf, acme: hf.notices.escalate(),
    "dead_letters.replay": lambda hf, acme: [refused(hf.dead_letters.replay, one) for one in acme.ids()],
    "dead_letters.replay_many": lambda hf, acme: [hf.dead_letters.replay_many("q"), hf.dead_letters.replay_many()],
    "dead_letters.delete_many": lambda hf, acme: [hf.dead_letters.delete_many("q"), hf.dead_letters.delete_many()],
    "queue": lambda hf, acme: [hf.queue("q", lease=1, max_attempts=1), hf.queue("p", owner="nobody", history=0)],
    "notices.report": lambda hf, acme: [
        hf.notices.report("crash_loop", "pool", "boom", owner="mia"),
        hf.notices.report("preflight", "reader", "boom", queue="q"),
    ],
    "schedule": lambda hf, acme: hf.schedule("s", queue="ticks", body="changed", cron="@daily"),
    "schedules.pause": lambda hf, acme: hf.schedules.pause("s"),
    "schedules.resume": lambda hf, acme: hf.schedules.resume("paused"),
    "schedules.run": lambda hf, acme: hf.schedules.run("s").id,
    "schedules.fire": lambda hf, acme: hf.schedules.fire(),
    "saga": lambda hf, acme: [
        hf.saga("trip", steps=[Step("b", "steps")]),
        hf.start_saga("trip", id="new"),
    ],
    "start_saga": lambda hf, acme: [hf.start_saga("trip", id="new"), refused(hf.start_saga, "unheard of", id="t1")],
    "signal": lambda hf, acme: [hf.signal("t1", "go"), refused(hf.signal, "acme alone", "go")],
    "sagas.cancel": lambda hf, acme: [hf.sagas.cancel("t1"), refused(hf.sagas.cancel, "acme alone")],
    "sagas.retry": lambda hf, acme: [hf.sagas.retry("failed", "a"), refused(hf.sagas.retry, "acme alone", "a")],
    "sagas.skip": lambda hf, acme: [
        hf.sagas.skip("t1", "a", "why"),
        refused(hf.sagas.skip, "acme alone", "a", "why"),
    ],
    "sagas.mark_done": lambda hf, acme: [
        hf.sagas.mark_done("t1", "a"),
        refused(hf.sagas.mark_done, "acme alone", "a"),
    ],
    "sagas.advance": lambda hf, acme: hf.sagas.advance(),
    "owner": lambda hf, acme: hf.owner("mia", inbox="elsewhere", escalate_after=None),
    "enqueue": lambda hf, acme: [hf.enqueue("q", "new", key="k").id, hf.enqueue("p", "new").id],
    "enqueue_many": lambda hf, acme: [one.id for one in hf.enqueue_many("q", ["new"] * 5, key="k")],
    "topic": lambda hf, acme: [hf.topic("news", no_subscribers="refuse"), hf.topic("olds")],
    "publish": lambda hf, acme: hf.publish("news.new", "new").id,
    "publish_many": lambda hf, acme: [one.id for one in hf.publish_many("news.new", ["new"] * 5)],
    "subscribe": lambda hf, acme: [
        hf.subscribe("news", "readers", patterns="news.new"),
        hf.subscribe("news", "more", start="earliest"),
    ],
    "groups.heartbeat": lambda hf, acme: hf.groups.heartbeat("news", "readers"),
    "groups.pause": lambda hf, acme: hf.groups.pause("news", "readers"),
    "groups.resume": lambda hf, acme: (hf.groups.pause("news", "readers"), hf.groups.resume("news", "readers")),
    "groups.seek": lambda hf, acme: hf.groups.seek("readers", "latest"),
    "groups.cancel": lambda hf, acme: hf.groups.cancel("news", "readers"),
    "groups.remove": lambda hf, acme: hf.groups.remove("news", "readers"),
    "ask": lambda hf, acme: [asks(hf, "p"), asks(hf, "q")],
    "commands.run": lambda hf, acme: [hf.commands.run("A.B", {}, idempotency_key=key) for key in ("old", "new")],
    "consumers.attach": lambda hf, acme: hf.consumers.attach("mailer", "q", weight=5, empty="terminate"),
    "consumers.detach": lambda hf, acme: hf.consumers.detach("mailer", "q"),
}
"""What they do, they do to the caller's own things only."""
TAKE_CLAIMS = {"ack", "nack", "release", "snooze", "dead_letter", "extend"}
"""Whoever was handed a claim holds it: it is no name that two tenants could share."""
OF_THE_PROCESS = {
    "around_enqueue",
    "around_execute",
    "close",
    "command",
    "commands.list",
    "consumer",
    "on",
    "pool",
    "run",
    "running",
    "stop",
    "subscriber",
}
"""They are about this client and its consumers, which claim as everyone does."""
ACTS = {**FIND_NOTHING, **SEE_THEIR_OWN, **CHANGE_THEIR_OWN}


def test_every_method_that_takes_a_name_or_an_id_is_tried() -> None:
    assert public_methods().keys() - TAKE_CLAIMS - OF_THE_PROCESS == set(ACTS)


@pytest.mark.parametrize("later", [0, 120], ids=["now", "when leases and notices are over"])
def test_one_tenant_finds_and_sees_nothing_of_the_other(
    acme: Estate, other: Estate, clock: FakeClock, later: int
) -> None:
    clock.advance(later)
    before, theirs = acme.view(), acme.ids()
    for name, act in {**FIND_NOTHING, **SEE_THEIR_OWN}.items():
        answer = act(other.hf, acme)
        assert name not in FIND_NOTHING or not any(answer), (name, answer)  # type: ignore[call-overload]
        assert not shown_of_acme(answer, theirs), (name, answer)
        assert acme.view() == before, name


@pytest.mark.parametrize("act", CHANGE_THEIR_OWN)
@pytest.mark.parametrize(
    "later", [pytest.param(0, marks=only_long, id="now"), pytest.param(120, id="when leases and notices are over")]
)
def test_whatever_one_tenant_changes_the_other_is_as_before(
    acme: Estate, other: Estate, clock: FakeClock, act: str, later: int
) -> None:
    clock.advance(later)
    before, theirs, own = acme.view(), acme.ids(), other.view()
    answer = CHANGE_THEIR_OWN[act](other.hf, acme)
    assert not shown_of_acme(answer, theirs), answer
    assert acme.view() == before
    if later and act != "dead_letters.replay":
        assert other.view() != own, "it did nothing at all, so it shows nothing"


def shown_of_acme(answer: object, theirs: list[str]) -> list[str]:
    return [one for one in [*theirs, "acme"] if one in repr(answer)]


def test_an_idempotency_key_of_two_tenants_is_two_keys(acme: Estate, other: Estate) -> None:
    for estate in (acme, other):
        again = estate.hf.enqueue("p", "work", idempotency_key="once")
        assert (again.duplicate, again.id, again.result) == (True, estate.once.id, estate.hf.settings.tenant)


def test_the_depth_of_a_queue_counts_ones_own(acme: Estate, other: Estate) -> None:
    room = 10 - other.hf.stats("q").pending - other.hf.stats("q").waiting
    assert len(other.hf.enqueue_many("q", range(room))) == room
    acme.hf.enqueue("q", "still room")


def test_a_lease_outlives_what_the_other_tenant_does_with_its_name(acme: Estate, other: Estate) -> None:
    for act in CHANGE_THEIR_OWN.values():
        act(other.hf, acme)
    acme.held.ack("done")
    assert acme.hf.status(acme.held.message.id).result == "done"


def test_a_wake_up_is_for_ones_own(acme: Estate, other: Estate) -> None:
    """Both queues are called p; a sleeper of one is not given what came into the other."""
    acme.hf.queues.purge("p")
    other.hf.enqueue("p", "not for acme")
    assert acme.hf.claim("p", wait=0.2) == []


def test_what_is_counted_is_ones_own(acme: Estate, other: Estate) -> None:
    hf = other.hf
    assert (hf.dead_letters.count(), hf.dead_letters.count("q"), hf.dead_letters.count(fresh=True)) == (4, 2, 3)
    assert (hf.stats("q").dead, hf.stats("p").processing, hf.stats("p").pending) == (2, 1, 1)
    assert (hf.queues.purge("p"), hf.dead_letters.replay_many(), hf.dead_letters.delete_many()) == (1, 3, 4)
    assert acme.hf.dead_letters.count() == 4


def test_a_worker_of_two_tenants_is_two_workers(client: OpenClient) -> None:
    """Even if, as here, both were given the same name."""
    tenants = [client(tenant=name, worker="the same") for name in ("acme", "other")]
    held = []
    for hf in tenants:
        hf.enqueue("p", "work")
        [claim] = hf.claim("p")
        work = [Work(claim.message.id, "p", 1, 0, hf.settings.tenant)]
        internals(hf).store.crew.beat(hf.settings.tenant, beat("the same", work=work, saturation=0.9))
        held.append(claim.message.id)
    assert [hf.status(one).progress for hf, one in zip(tenants, held, strict=True)] == ["acme", "other"]
    internals(tenants[0]).store.crew.leave("acme", "the same")
    assert [hf.consumers.amplification() for hf in tenants] == [0, 1]


def test_an_owner_of_two_tenants_is_two_owners(acme: Estate, other: Estate) -> None:
    for estate, inbox in ((acme, "north"), (other, "south")):
        estate.hf.owner("mia", inbox=inbox)
    for estate, inbox in ((other, "south"), (acme, "north")):
        dead = kill(estate.hf, "more", key="z")
        assert [message.body["dead_id"] for message in estate.hf.queues.peek(inbox)] == [dead]
    assert ("north" in other.hf.queues.list(), "south" in acme.hf.queues.list()) == (False, False)
