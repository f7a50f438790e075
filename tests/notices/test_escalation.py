"""A dead letter has a notice, a notice has an owner, and an owner who does not answer has an owner."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Notice, Step
from holdfast.client.client import internals
from holdfast.errors import InvalidInput
from tests.clock import FakeClock
from tests.steps import OpenClient, drain, inbox, kill, one_notice

pytestmark = pytest.mark.of_queues


def test_a_death_makes_a_notice_and_brings_it_to_the_owners_inbox(owned: Holdfast, clock: FakeClock) -> None:
    dead_id = kill(owned)
    notice = one_notice(owned)
    dead = owned.dead_letters.list("q")[0]
    assert (notice.dead_id, notice.message_id) == (dead_id, dead.message.id)
    assert (notice.queue, notice.owner, notice.level, notice.error, notice.attempts) == ("q", "mia", 0, "boom", 1)
    assert (notice.created_at_us, notice.climbs_at_us) == (clock(), clock() + 600_000_000)
    (body,) = inbox(owned)
    assert body["kind"] == "notice"
    assert (body["id"], body["dead_id"], body["queue"], body["error"]) == (notice.id, dead_id, "q", "boom")
    assert (body["owner"], body["level"], body["climbed_from"]) == ("mia", 0, None)


def test_whatever_kills_makes_a_notice(owned: Holdfast, clock: FakeClock) -> None:
    owned.queue("q", owner="mia", max_attempts=1, lease=5)
    owned.enqueue("q", "silent")
    owned.enqueue("q", "silent row", delay=1)
    clock.advance(1)
    assert len(owned.claim("q")) + len(owned.claim("q")) == 2
    clock.advance(5)
    owned.queues.sweep("q")
    assert [notice.owner for notice in owned.notices.list()] == ["mia", "mia"]
    assert len(inbox(owned)) == 2


def test_a_death_that_nobody_owns_is_a_notice_all_the_same(hf: Holdfast) -> None:
    kill(hf)
    notice = one_notice(hf)
    assert (notice.owner, notice.climbs_at_us) == (None, None)
    assert hf.notices.list("") == [notice]
    assert hf.queues.list() == ["q"]


def test_an_owner_that_was_never_declared_has_the_defaults(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", owner="noah")
    kill(hf)
    assert len(inbox(hf, "noah.inbox")) == 1
    assert one_notice(hf).climbs_at_us == clock() + 900_000_000


def test_it_climbs_to_the_owners_owner_and_stays_at_the_top(owned: Holdfast, clock: FakeClock) -> None:
    kill(owned)
    clock.advance(599)
    assert owned.notices.escalate() == 0
    clock.advance(1)
    assert owned.notices.escalate() == 1
    notice = one_notice(owned)
    assert (notice.owner, notice.level, notice.climbs_at_us) == ("boss", 1, clock() + 3_600_000_000)
    (body,) = inbox(owned, "boss.inbox")
    assert (body["level"], body["climbed_from"], body["owner"]) == (1, "mia", "boss")
    clock.advance(3600)
    assert owned.notices.escalate() == 1
    assert (one_notice(owned).owner, one_notice(owned).climbs_at_us) == ("boss", None)
    clock.advance(10**6)
    assert owned.notices.escalate() == 0
    assert len(inbox(owned, "boss.inbox")) == 1


def test_only_a_claim_that_sweeps_looks_after_notices(
    client: OpenClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain claim costs nothing for it; but where leases end all the time, every sweep is one of these."""
    hf, looks = client(worker="anna", sweep_every=3600), []
    monkeypatch.setattr(internals(hf).upkeep, "look_after_others", lambda: looks.append(1))
    hf.queue("q", lease="10s", backoff=0)
    hf.enqueue("q", 1)
    for _ in range(3):
        assert hf.claim("other") == []
    assert len(looks) == 1, "there was one sweep"
    assert len(hf.claim("q")) == 1
    assert len(looks) == 2, "and one of another queue"
    for count in (3, 4):
        clock.advance(11)
        assert len(hf.claim("q")) == 1, "its lease has ended"
        assert len(looks) == count


def test_whoever_claims_escalates_now_and_then(owned: Holdfast, clock: FakeClock) -> None:
    kill(owned)
    clock.advance(600)
    assert owned.claim("other") == []
    assert one_notice(owned).owner == "boss"


def test_acknowledged_it_climbs_no_further(owned: Holdfast, clock: FakeClock) -> None:
    kill(owned)
    notice = one_notice(owned)
    assert owned.notices.acknowledge(notice.id, remark="on it") == 1
    assert owned.notices.list() == []
    answered = one_notice(owned, acknowledged=True)
    assert (answered.acknowledged_at_us, answered.acknowledged_by, answered.remark) == (clock(), owned.actor, "on it")
    clock.advance(10**6)
    assert owned.notices.escalate() == 0
    assert owned.notices.acknowledge(notice.id) == 0
    (line,) = owned.audit.list()
    assert (line.act, line.count, line.about) == ("acknowledge", 1, {"remark": "on it"})


def test_a_replay_answers_and_a_deletion_removes(owned: Holdfast) -> None:
    replayed, *_ = [kill(owned, n) for n in range(3)]
    owned.dead_letters.replay(replayed)
    assert replayed not in [notice.dead_id for notice in owned.notices.list()]
    assert owned.notices.list(acknowledged=True)[0].remark == "replayed"
    owned.queues.purge("q")
    assert (
        owned.dead_letters.replay_many(
            "q", before=owned.dead_letters.list("q")[2].failed_at + timedelta(microseconds=1)
        )
        == 2
    )
    assert owned.notices.list() == []
    assert {notice.acknowledged_by for notice in owned.notices.list(acknowledged=True)} == {owned.actor}
    owned.dead_letters.delete_many("q")
    assert owned.notices.list(acknowledged=True) == []


def test_a_notice_goes_with_its_dead_letter(owned: Holdfast, clock: FakeClock) -> None:
    owned.queue("q", owner="mia", dead_retention=100)
    kill(owned)
    clock.advance(100)
    owned.queues.sweep("q")
    assert owned.dead_letters.list() == []
    assert owned.notices.list(acknowledged=True) == []


def test_a_second_death_is_a_second_notice(owned: Holdfast) -> None:
    owned.dead_letters.replay(kill(owned))
    (claim,) = owned.claim("q")
    claim.dead_letter("again")
    assert [notice.error for notice in owned.notices.list()] == ["again"]


def test_a_digest_brings_them_together(owned: Holdfast, clock: FakeClock) -> None:
    owned.owner("mia", owner="boss", notify="digest", digest_every="5m")
    owned.queue("p", owner="mia")
    kill(owned)
    clock.advance(200)
    kill(owned, queue="p")
    assert owned.queues.list() == ["p", "q"]
    clock.advance(100)
    assert owned.notices.escalate() == 2
    (body,) = inbox(owned)
    assert (body["kind"], body["owner"], body["count"], body["queues"]) == ("digest", "mia", 2, {"q": 1, "p": 1})
    assert [line["id"] for line in body["notices"]] == [notice.id for notice in owned.notices.list()]
    clock.advance(300)
    assert owned.notices.escalate() == 0
    assert len(inbox(owned)) == 1


def test_digests_of_many_owners_take_turns(owned: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.notices.client.ESCALATE_LIMIT", 3)
    monkeypatch.setattr("holdfast.notices.callbacks.AT_ONCE", 3)
    for owner in ("ann", "bob", "cleo"):
        owned.owner(owner, notify="digest", digest_every=10)
        for number in range(2):
            owned.notices.report("trouble", f"{owner}{number}", "boom", owner=owner)
        clock.advance(1)
    clock.advance(10)
    assert [owned.notices.escalate() for _ in range(3)] == [4, 2, 0], "a digest is not cut short"
    for owner in ("ann", "bob", "cleo"):
        (body,) = inbox(owned, f"{owner}.inbox")
        assert (body["owner"], body["count"]) == (owner, 2)


def test_what_was_answered_is_not_in_the_digest(owned: Holdfast, clock: FakeClock) -> None:
    owned.owner("mia", notify="digest", digest_every=10)
    kill(owned)
    owned.notices.acknowledge(one_notice(owned).id)
    clock.advance(10)
    assert owned.notices.escalate() == 0


def test_a_callback_is_told_once(owned: Holdfast, rival: Holdfast) -> None:
    told: list[list[Notice]] = []
    kill(owned)
    kill(owned)
    owned.on_notice(told.append)
    rival.on_notice(told.append)
    assert rival.notices.escalate() == 2
    assert owned.notices.escalate() == 0
    assert told == [[notice] for notice in owned.notices.list()]


def test_a_callback_for_one_owner(owned: Holdfast, clock: FakeClock) -> None:
    told: list[Notice] = []
    owned.on_notice(told.extend, owner="boss")
    kill(owned)
    assert owned.notices.escalate() == 0
    clock.advance(600)
    owned.notices.escalate()
    assert [(notice.owner, notice.level) for notice in told] == [("boss", 1)]


@pytest.mark.parametrize("owner", [None, "mia"])
def test_a_callback_is_told_of_a_level_that_was_left_before_anyone_looked(
    owned: Holdfast, rival: Holdfast, clock: FakeClock, owner: str | None
) -> None:
    told: list[Notice] = []
    kill(owned)
    clock.advance(600)
    assert rival.notices.escalate() == 1  # It has no callback.
    owned.on_notice(told.extend, owner=owner)
    owned.notices.escalate()
    levels = [("mia", 0), ("boss", 1)] if owner is None else [("mia", 0)]
    assert [(notice.owner, notice.level) for notice in told] == levels
    clock.advance(61)
    owned.notices.escalate()
    assert len(told) == len(levels)


def test_a_notice_that_climbs_while_a_callback_runs_is_told_of_again(
    owned: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    told: list[tuple[str | None, int]] = []

    def tell(notices: list[Notice]) -> None:
        told.extend((notice.owner, notice.level) for notice in notices)
        if len(told) == 1:
            clock.advance(600)
            rival.notices.escalate()

    kill(owned)
    owned.on_notice(tell)
    owned.notices.escalate()
    owned.notices.escalate()
    assert told == [("mia", 0), ("boss", 1)]


@pytest.mark.parametrize("how", ["acknowledge", "replay", "delete"])
def test_a_level_that_was_left_is_not_told_of_when_the_notice_is_answered(
    owned: Holdfast, clock: FakeClock, how: str
) -> None:
    told: list[Notice] = []
    dead_id = kill(owned)
    clock.advance(600)
    owned.notices.escalate()
    if how == "acknowledge":
        owned.notices.acknowledge(one_notice(owned).id)
    elif how == "replay":
        owned.dead_letters.replay(dead_id)
    else:
        owned.dead_letters.delete(dead_id)
    owned.on_notice(told.extend)
    owned.notices.escalate()
    assert told == []


def test_declaring_an_unknown_owner_says_where_its_notices_go(
    owned: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        owned.queue("q", owner="mia")
    assert caplog.text == ""
    owned.topic("t")
    for declare in (
        lambda: owned.queue("q", owner="mai"),
        lambda: owned.subscribe("t", "g", owner="mai"),
        lambda: owned.saga("s", steps=[Step("a", "a")], owner="mai"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            declare()
        assert "the owner 'mai' is not declared" in caplog.text
        assert "'mai.inbox'" in caplog.text


def test_a_callback_gets_a_digest_at_once(owned: Holdfast, clock: FakeClock) -> None:
    owned.owner("mia", notify="digest", digest_every=10)
    told: list[list[Notice]] = []
    owned.on_notice(told.append)
    kill(owned)
    kill(owned)
    owned.notices.escalate()
    assert told == []
    clock.advance(10)
    owned.notices.escalate()
    assert [len(notices) for notices in told] == [2]


def test_a_callback_that_fails_is_told_again(
    owned: Holdfast, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[list[Notice]] = []

    def fails_first(notices: list[Notice]) -> None:
        told.append(notices)
        if len(told) == 1:
            raise OSError("the pager is down")

    owned.on_notice(fails_first)
    kill(owned)
    with caplog.at_level(logging.ERROR):
        assert owned.notices.escalate() == 0
    assert "the pager is down" in caplog.text
    assert owned.notices.escalate() == 0
    clock.advance(60)
    assert owned.notices.escalate() == 1
    assert len(told) == 2
    assert owned.notices.escalate() == 0


def test_trouble_in_an_inbox_goes_to_whoever_is_above(owned: Holdfast) -> None:
    """Its own owner would only get more of what cannot be delivered."""
    owned.queue("mia.inbox", owner="mia")
    kill(owned)
    (claim,) = owned.claim("mia.inbox")
    claim.dead_letter("cannot read this")
    assert [notice.owner for notice in owned.notices.list()] == ["mia", "boss"]
    owned.queue("boss.inbox", owner="boss")
    (claim,) = owned.claim("boss.inbox")
    claim.dead_letter("neither can I")
    assert [notice.owner for notice in owned.notices.list()] == ["mia", "boss", None]


def test_a_rolled_back_death_leaves_no_notice(owned: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    owned.enqueue("q", "work")
    (claim,) = owned.claim("q")
    clock.advance(31)
    (again,) = rival.claim("q")
    with pytest.raises(Exception, match="no longer yours"):
        claim.dead_letter("too late")
    assert owned.notices.list() == []
    again.ack()


def test_notices_by_owner_queue_and_page(owned: Holdfast) -> None:
    owned.queue("p", owner="boss")
    kill(owned)
    kill(owned, queue="p")
    kill(owned)
    assert [notice.queue for notice in owned.notices.list()] == ["q", "p", "q"]
    assert [notice.queue for notice in owned.notices.list("boss")] == ["p"]
    assert len(owned.notices.list(queue="q")) == 2
    first = owned.notices.list(n=2)
    assert [*first, *owned.notices.list(n=2, after=first[-1].id)] == owned.notices.list()


def test_one_tenant_never_sees_anothers(client: OpenClient, owned: Holdfast, clock: FakeClock) -> None:
    other = client(tenant="acme")
    kill(owned)
    notice = one_notice(owned)
    assert other.notices.list() == []
    assert other.notices.acknowledge(notice.id) == 0
    assert other.notices.owners() == {}
    told: list[object] = []
    other.on_notice(told.append)
    clock.advance(10**6)
    assert other.notices.escalate() == 0
    assert told == []
    assert one_notice(owned) == notice


def test_owners_are_listed_and_changed(owned: Holdfast) -> None:
    owned.owner("mia", inbox="alarms", escalate_after=None, notify="digest")
    assert sorted(owned.notices.owners()) == ["boss", "mia"]
    assert owned.notices.owners()["mia"].inbox == "alarms"
    assert owned.notices.owners()["mia"].owner is None
    owned.owner("mia", inbox="alarms", escalate_after=None)
    kill(owned)
    assert one_notice(owned).climbs_at_us is None
    assert len(inbox(owned, "alarms")) == 1


def test_owners_in_a_circle_are_refused(owned: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="boss → mia → boss"):
        owned.owner("boss", owner="mia")
    with pytest.raises(InvalidInput, match="its own owner"):
        owned.owner("boss", owner="boss")


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "a/b"},
        {"notify": "sometimes"},
        {"escalate_after": -1},
        {"digest_every": "soon"},
        {"inbox": "a/b"},
        {"owner": ""},
    ],
    ids=str,
)
def test_an_owner_that_makes_no_sense_is_refused(hf: Holdfast, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        hf.owner(**{"name": "mia", **options})


@pytest.mark.parametrize("ids", [[], ["m1"], [7]], ids=str)
def test_an_acknowledgement_of_nothing_is_refused(hf: Holdfast, ids: list[Any]) -> None:
    with pytest.raises(InvalidInput):
        hf.notices.acknowledge(*ids)


def test_an_inbox_is_a_queue_like_any_other(owned: Holdfast) -> None:
    kill(owned)
    assert [body["queue"] for body in drain(owned, "mia.inbox")] == ["q"]


@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "plain"])
def test_a_callback_of_the_asyncio_client(url: str, awaited: bool) -> None:
    told: list[Notice] = []

    async def tell(notices: list[Notice]) -> None:
        told.extend(notices)

    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            await hf.owner("mia")
            await hf.queue("q", owner="mia")
            await hf.on_notice(tell if awaited else told.extend)
            await hf.enqueue("q", "work")
            (claim,) = await hf.claim("q")
            await claim.dead_letter("boom")
            assert await hf.notices.escalate() == 1
            assert told == await hf.notices.list("mia")
            assert await hf.notices.acknowledge(told[0].id) == 1
            assert sorted(await hf.notices.owners()) == ["mia"]

    asyncio.run(main())
