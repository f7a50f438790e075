"""Queues: declared, changed, named, and apart from other tenants'."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import DEFAULT, Holdfast, InvalidInput, NotFound, UnknownGroup, UnknownQueue
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, kill

pytestmark = pytest.mark.of_queues


def test_a_queue_comes_to_life_with_the_defaults_when_first_used(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("new", 1)
    claim = claim_one(hf, "new")
    assert claim.lease.until_us == clock() + 30_000_000
    assert hf.queues.list() == ["new"]


def test_claiming_from_a_queue_that_nobody_declared_finds_nothing(hf: Holdfast) -> None:
    assert hf.claim("never") == []


def test_a_strict_client_refuses_a_queue_that_was_never_declared(client: OpenClient) -> None:
    strict = client(strict=True)
    for use in (
        lambda: strict.enqueue("q", 1),
        lambda: strict.enqueue_many("q", [1]),
        lambda: strict.claim("q"),
        lambda: strict.queues.peek("q"),
        lambda: strict.stats("q"),
        lambda: strict.queues.purge("q"),
        lambda: strict.queues.sweep("q"),
    ):
        with pytest.raises(UnknownQueue, match=r"hf\.queue\('q'\)"):
            use()
    assert strict.queues.list() == []


def test_a_strict_client_uses_what_was_declared_by_anyone(client: OpenClient, hf: Holdfast) -> None:
    strict = client(strict=True)
    hf.queue("q")
    strict.enqueue("q", "hello")
    assert drain(strict) == ["hello"]


def test_declaring_again_changes_the_settings_and_keeps_the_messages(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", lease=30)
    hf.enqueue_many("q", ["in the lane", "too"])
    hf.enqueue("q", "a row", delay=1)
    hf.queue("q", lease=5)
    clock.advance(1)
    claims = hf.claim("q", n=10)
    assert sorted(bodies(claims)) == ["a row", "in the lane", "too"]
    assert {claim.lease.until_us for claim in claims} == {clock() + 5_000_000}


def test_declaring_again_keeps_claims_in_progress(hf: Holdfast) -> None:
    hf.enqueue_many("q", [1, 2])
    claims = hf.claim("q", n=2)
    hf.queue("q", lease=5, max_attempts=2)
    hf.ack(claims)
    assert drain(hf) == []


def test_settings_that_are_not_given_are_kept(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", lease=5, max_attempts=2, max_depth=10, rate="5/m", requires={"gpu": "yes"}, backoff=[1, 2])
    before = hf.queues.settings("q")
    rival.queue("q", lease=7, owner="mia")
    assert rival.queues.settings("q") == before | {"lease": 7.0, "owner": "mia"}


def test_default_resets_one_setting_and_none_keeps_its_meaning(hf: Holdfast) -> None:
    hf.queue("q", lease=5, max_age=60, max_depth=10, ordering="fifo")
    hf.queue("q", lease=DEFAULT, max_age=None)
    found = hf.queues.settings("q")
    assert (found["lease"], found["max_age"], found["max_depth"], found["ordering"]) == (30.0, None, 10, "fifo")


def test_a_message_type_that_is_not_given_is_kept(hf: Holdfast) -> None:
    hf.queue("q", message_type=int)
    hf.queue("q", lease=5)
    with pytest.raises(InvalidInput):
        hf.enqueue("q", "no number")
    hf.queue("q", message_type=None)
    hf.enqueue("q", "anything")


def test_two_services_that_declare_at_once_undo_nothing_of_each_other(client: OpenClient) -> None:
    """The database decides: whoever comes second adds to what the first has stored, also for a new queue."""
    services = [client(), client()]
    own: list[dict[str, Any]] = [{"lease": 5, "max_depth": 7}, {"max_attempts": 2, "owner": "mia"}]
    for turn in range(8):
        start = threading.Barrier(2)

        def declare(who: int, name: str = f"q{turn}", start: threading.Barrier = start) -> None:
            start.wait()
            services[who].queue(name, **own[who])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(declare, range(2)))
        found = services[0].queues.settings(f"q{turn}")
        assert (found["lease"], found["max_depth"], found["max_attempts"], found["owner"]) == (5.0, 7, 2, "mia")


def test_a_queue_that_is_used_first_does_not_undo_a_declaration(hf: Holdfast, rival: Holdfast) -> None:
    """It was declared after the user of it had looked for it in vain."""
    hf.queues.list()
    looked = internals(rival).store.channels.find

    def declared_meanwhile(tenant: str, name: str) -> object:
        found = looked(tenant, name)
        hf.queue("q", lease=5)
        return found

    internals(rival).store.channels.find = declared_meanwhile  # type: ignore[method-assign, assignment]
    rival.enqueue("q", 1)
    assert hf.queues.settings("q")["lease"] == 5.0


def test_declaring_again_as_it_is_writes_nothing(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    @hf.consumer("q")
    def work(message: object) -> None: ...

    def declare() -> None:
        hf.queue("q", lease=5, rate="5/m", max_depth=7)
        hf.queue("q")
        hf.topic("t", retention="2h", max_depth=9)
        hf.topic("own", mode="queue", lease=9)
        hf.subscribe("t", "g", patterns=["t.a"], rate="7/s")
        hf.schedule("s", queue="q", every="5m", body={"a": [1.5, None]})
        hf.pool(work, max=3)

    declare()
    monkeypatch.setattr(type(internals(hf).store.channels._database), "write", _refuse)  # type: ignore[attr-defined]
    declare()
    with pytest.raises(AssertionError, match="written"):
        hf.queue("q", lease=6)


def _refuse(*_: object) -> None:
    raise AssertionError("something was written")


def test_a_topic_keeps_what_is_not_given(hf: Holdfast) -> None:
    hf.topic("t", retention="2h", max_depth=9, no_subscribers="refuse")
    hf.topic("t", max_depth=None)
    hf.topic("t", no_subscribers=DEFAULT)
    found = hf.queues.settings("t")
    assert (found["retention"], found["max_depth"], found["no_subscribers"]) == (7200.0, None, "keep")
    hf.topic("work", mode="queue", lease=9)
    hf.topic("work", max_attempts=2)
    assert (hf.queues.settings("work")["lease"], hf.queues.settings("work")["max_attempts"]) == (9.0, 2)


def test_a_group_keeps_what_is_not_given(hf: Holdfast) -> None:
    hf.topic("t")
    hf.subscribe("t", "g", patterns=["t.a"], lease=5, timeout=60)
    hf.subscribe("t", "g", max_attempts=2)
    found = hf.queues.settings("t/g")
    assert (found["patterns"], found["lease"], found["timeout"], found["max_attempts"]) == (("t.a",), 5.0, 60.0, 2)
    hf.subscribe("t", "g", patterns=None, timeout=DEFAULT)
    found = hf.queues.settings("t/g")
    assert (found["patterns"], found["lease"], found["timeout"]) == (("t.**",), 5.0, None)


def test_a_schedule_keeps_what_is_not_given(hf: Holdfast) -> None:
    hf.schedule("s", queue="q", cron="0 9 * * *", tz="Europe/Berlin", body={"a": 1}, key="k")
    hf.schedule("s", missed="all")
    (found,) = hf.schedules.list()
    assert (found.queue, found.cron, found.tz, found.body) == ("q", "0 9 * * *", "Europe/Berlin", {"a": 1})
    hf.schedule("s", every="5m", body=None, tz=DEFAULT)
    (found,) = hf.schedules.list()
    assert (found.cron, found.every, found.tz, found.body, found.key) == (None, 300.0, "UTC", None, "k")
    with pytest.raises(InvalidInput, match="cron"):
        hf.schedule("s", every=None)
    with pytest.raises(InvalidInput, match="queue"):
        hf.schedule("new", every="5m")


def test_a_pool_keeps_what_is_not_given(hf: Holdfast) -> None:
    @hf.consumer("q")
    def work(message: object) -> None: ...

    pool = hf.pool(work, min=2, max=6, owner="mia")
    assert hf.pool(work, max=9) is pool
    assert (pool.spec.least, pool.spec.most, pool.owner) == (2, 9, "mia")
    hf.pool(work, min=DEFAULT, owner=None)
    assert (pool.spec.least, pool.spec.most, pool.owner) == (1, 9, None)
    with pytest.raises(InvalidInput, match="min must not be above max"):
        hf.pool(work, min=10)
    assert pool.spec.most == 9


def test_settings_of_what_is_not_there_are_not_found(hf: Holdfast) -> None:
    with pytest.raises(UnknownQueue, match="'q'"):
        hf.queues.settings("q")
    with pytest.raises(UnknownGroup):
        hf.queues.settings("t/g")
    assert hf.queues.list() == []


def test_a_queue_that_becomes_ordered_keeps_what_it_had(hf: Holdfast) -> None:
    hf.enqueue_many("q", [1, 2, 3])
    hf.queue("q", ordering="fifo")
    hf.enqueue_many("q", [4, 5])
    assert sorted(drain(hf)) == [1, 2, 3, 4, 5]


def test_a_queue_that_is_no_longer_ordered_keeps_what_it_had(hf: Holdfast) -> None:
    hf.queue("q", ordering="fifo")
    hf.enqueue_many("q", [1, 2, 3])
    hf.queue("q", ordering="unordered")
    hf.enqueue_many("q", [4, 5])
    assert sorted(drain(hf)) == [1, 2, 3, 4, 5]


def test_new_settings_reach_another_client(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 0.0)
    hf.queue("q", lease=30)
    rival.enqueue("q", 1)
    hf.queue("q", lease=7)
    assert claim_one(rival).lease.until_us == clock() + 7_000_000


def test_a_refused_setting_leaves_the_queue_as_it_was(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", lease=5)
    with pytest.raises(InvalidInput):
        hf.queue("q", lease=10, max_attempts=0)
    hf.enqueue("q", 1)
    assert claim_one(hf).lease.until_us == clock() + 5_000_000


def test_all_queues_are_listed_by_name(hf: Holdfast) -> None:
    for name in ("b", "a", "c"):
        hf.queue(name)
    assert hf.queues.list() == ["a", "b", "c"]


def test_a_queue_may_have_any_printable_name(hf: Holdfast) -> None:
    names = ["orders.eu.created", "with space", "Zürich-東京-🐙", "x" * 200, "'; DROP TABLE x; --", "%s"]
    for name in names:
        hf.enqueue(name, f"for {name}")
    assert sorted(hf.queues.list()) == sorted(names)
    assert [drain(hf, name) for name in names] == [[f"for {name}"] for name in names]


def test_a_name_that_cannot_be_carried_is_refused_and_nothing_is_declared(hf: Holdfast) -> None:
    for name in ("", " a", "a/b/c", "a/", "a\x00", "x" * 201, "\ud800", None, 5, ["a"]):
        for use in (hf.queue, hf.claim, hf.stats, lambda bad: hf.enqueue(bad, 1)):
            with pytest.raises(InvalidInput):
                use(name)
    assert hf.queues.list() == []


def test_queues_whose_names_differ_in_case_are_different(hf: Holdfast) -> None:
    hf.enqueue("Q", "upper")
    hf.enqueue("q", "lower")
    assert drain(hf, "Q") == ["upper"]


def test_messages_of_one_queue_never_show_up_in_another(hf: Holdfast) -> None:
    hf.enqueue("a", "for a")
    hf.enqueue("b", "for b", delay=0)
    assert (drain(hf, "a"), drain(hf, "b")) == (["for a"], ["for b"])


def test_tenants_have_queues_of_their_own(client: OpenClient) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    acme.enqueue("q", "acme's")
    other.enqueue("q", "other's")
    acme.queue("only acme's")
    assert (acme.queues.list(), other.queues.list()) == (["only acme's", "q"], ["q"])
    assert (drain(acme), drain(other)) == (["acme's"], ["other's"])


def test_tenants_have_settings_of_their_own(client: OpenClient, clock: FakeClock) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    acme.queue("q", lease=5)
    other.queue("q", lease=9)
    acme.enqueue("q", 1)
    assert claim_one(acme).lease.until_us == clock() + 5_000_000


def test_a_tenant_does_not_see_the_messages_of_another(client: OpenClient) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    acme.enqueue("q", 1)
    acme.enqueue("q", 2, delay=60)
    assert other.claim("q", n=10) == []
    assert other.queues.peek("q") == []
    assert other.queues.purge("q") == 0
    stats = other.stats("q")
    assert (stats.pending, stats.waiting, stats.processing, stats.dead) == (0, 0, 0, 0)
    assert acme.stats("q").pending == 1


def test_a_tenant_can_neither_look_up_nor_cancel_the_messages_of_another(client: OpenClient) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    for receipt in (acme.enqueue("q", "lane"), acme.enqueue("q", "row", delay=60)):
        assert other.status(receipt.id) is None
        assert other.cancel(receipt.id) is False
        assert acme.status(receipt.id).state == "pending"


def test_a_tenant_can_neither_see_nor_replay_the_dead_letters_of_another(client: OpenClient) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    dead_id = kill(acme)
    assert other.dead_letters.list() == []
    assert other.dead_letters.list("q") == []
    with pytest.raises(NotFound):
        other.dead_letters.replay(dead_id)
    assert acme.dead_letters.list()[0].replayed_as is None


def test_a_sweep_of_one_tenant_leaves_the_leases_of_another(client: OpenClient, clock: FakeClock) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    acme.enqueue("q", 1)
    claim = claim_one(acme)
    clock.advance(60)
    assert other.queues.sweep("q") == 0
    claim.ack()


def test_dead_letters_go_to_the_queue_of_their_own_tenant(client: OpenClient) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    acme.queue("q", dead_letter="graves")
    other.queue("graves")
    kill(acme)
    assert other.claim("graves") == []
    assert len(acme.claim("graves")) == 1


def test_a_look_up_that_a_declaration_has_overtaken_is_not_remembered(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer's thread reads the settings while another one declares new ones."""
    hf.queue("q", lease=5)
    internals(hf).catalog._known.clear()
    find = internals(hf).store.channels.find

    def overtaken(tenant: str, name: str) -> object:
        found = find(tenant, name)
        monkeypatch.undo()
        hf.queue("q", lease=7)
        return found

    monkeypatch.setattr(internals(hf).store.channels, "find", overtaken)
    assert internals(hf).catalog.channel("q").spec.lease == 5
    assert internals(hf).catalog.channel("q").spec.lease == 7
