"""Times: aware datetimes for whoever reads them, and nothing without a zone from whoever gives them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, InvalidInput, Step
from holdfast.client.client import internals
from holdfast.consumers.rules import Beat, Work
from holdfast.core.times import EPOCH, UNIT, Moment, MomentOrNone, WithTimes
from holdfast.testing import FakeClock
from tests.steps import claim_one

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]

NAMES = ("at", "until", "since", "last_slot", "last_seen")


def told_by(record: Any) -> Iterator[tuple[str, object]]:
    """Every time of a record, and of the records in it, by the name that users know."""
    for name in record.__struct_fields__:
        if name.endswith(UNIT):
            yield f"{type(record).__name__}.{name}", getattr(record, name.removesuffix(UNIT))
        elif name in NAMES or name.endswith("_at"):
            yield f"{type(record).__name__}.{name}", getattr(record, name)
        value = getattr(record, name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, msgspec.Struct):
                yield from told_by(part)


def everything(hf: Holdfast, clock: FakeClock) -> Iterator[Any]:
    hf.owner("mia")
    hf.queue("q", max_attempts=1, owner="mia", ordering="per_key", on_dead="block")
    hf.queue("plain")
    hf.topic("t")
    hf.subscribe("t", "g")
    hf.groups.heartbeat("t", "g")
    hf.saga("s", steps=[Step("a", "plain")])
    hf.start_saga("s", {}, id="s1")
    hf.schedule("hourly", queue="plain", body=1, cron="@hourly")
    clock.advance("1h")
    assert hf.schedules.fire() == 1
    hf.consumers.attach("c", "plain")
    hf.enqueue("q", 1, key="k", ttl="1d")
    waiting = hf.enqueue("plain", 1, delay=60)
    claim = claim_one(hf)
    yield claim.message
    yield claim.lease
    work = [Work(claim.message.id, "q", 1, claim.lease.since_us)]
    beat = Beat(id="w", consumer="c", host="h", pid=1, queues=["q"], state="working", valid_for=5.0, work=work)
    internals(hf).store.crew.beat(hf.settings.tenant, beat)
    yield hf.status(claim.message.id)
    claim.nack("boom")
    yield hf.status(claim.message.id)
    yield hf.status(waiting.id)
    yield from hf.dead_letters.list()
    yield from hf.queues.blocked("q")
    yield from hf.notices.list()
    yield from hf.schedules.list()
    yield from hf.groups.list("t")
    yield from hf.consumers.list()
    yield from hf.consumers.attachments()
    yield hf.sagas.get("s1")
    hf.dead_letters.replay(hf.dead_letters.list()[0].id)
    yield from hf.audit.list()


def test_every_time_that_is_told_is_a_datetime_in_utc(hf: Holdfast, clock: FakeClock) -> None:
    begun = clock.utc
    told = [line for record in everything(hf, clock) for line in told_by(record)]
    assert {name.partition(".")[0] for name, _ in told} == {
        "Message", "Lease", "Work", "MessageStatus", "Failure", "DeadLetterRecord", "BlockedKey", "Notice", "Schedule",
        "GroupStatus", "ConsumerStatus", "Attachment", "SagaStatus", "StepStatus", "SagaEvent", "AuditRecord",
    }  # fmt: skip
    for name, value in told:
        assert value is None or (isinstance(value, datetime) and value.tzinfo is UTC), name
    moments = [value for _, value in told if isinstance(value, datetime)]
    assert min(moments) == begun
    assert max(moments) == clock.utc + timedelta(days=1)


def test_a_record_shows_datetimes(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    lease = claim_one(hf).lease
    assert lease.since == clock.utc
    assert f"until={clock.utc + timedelta(seconds=30)!r}" in repr(lease)
    assert UNIT not in repr(lease)


def test_a_time_is_given_as_a_datetime_or_in_seconds(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention="1h")
    hf.subscribe("t", "first")
    hf.publish("t", "early")
    clock.advance(10)
    hf.publish("t", "late")
    zone = timezone(timedelta(hours=5))
    for number, start in enumerate((clock.utc, clock.utc.astimezone(zone), clock() / 1_000_000)):
        hf.subscribe("t", f"g{number}", start=start)
        assert [claim.message.body for claim in hf.claim(f"t/g{number}", n=5)] == ["late"]


def test_a_dead_letter_is_chosen_by_its_own_time(hf: Holdfast, clock: FakeClock) -> None:
    for number in range(2):
        hf.enqueue("q", number)
        claim_one(hf).dead_letter("boom")
        clock.advance(1)
    first, second = hf.dead_letters.list()
    assert [one.id for one in hf.dead_letters.list(since=second.failed_at)] == [second.id]
    assert [one.id for one in hf.dead_letters.list(before=second.failed_at.timestamp())] == [first.id]


def test_a_datetime_without_a_zone_is_refused(hf: Holdfast) -> None:
    hf.topic("t")
    hf.subscribe("t", "g")
    naive = datetime(2026, 1, 1)
    for act in (
        lambda: hf.subscribe("t", "new", start=naive),
        lambda: hf.groups.seek("g", naive, topic="t"),
        lambda: hf.dead_letters.list(since=naive),
        lambda: hf.dead_letters.list(before=naive),
    ):
        with pytest.raises(InvalidInput, match=r"2026-01-01T00:00:00 has no time zone: write datetime\(…"):
            act()


def test_a_time_in_json_says_what_it_is(hf: Holdfast, clock: FakeClock) -> None:
    hf.owner("mia")
    hf.queue("q", max_attempts=1, owner="mia", dead_letter="graves")
    hf.enqueue("q", 1)
    claim_one(hf).nack("boom")
    [about] = hf.claim("graves")
    assert datetime.fromisoformat(about.message.body["failed_at"]) == clock.utc
    assert datetime.fromisoformat(about.message.body["original_message"]["enqueued_at"]) == clock.utc
    [notice] = hf.claim("mia.inbox")
    assert datetime.fromisoformat(notice.message.body["created_at"]) == clock.utc
    hf.dead_letters.replay_many("q", since=EPOCH + timedelta(seconds=1))
    assert hf.audit.list()[0].about["since"] == "1970-01-01T00:00:01.000000Z"


def test_every_record_with_a_unit_tells_a_datetime() -> None:
    for kind in WithTimes.__subclasses__():
        fields = [name for name in kind.__struct_fields__ if name.endswith(UNIT)]  # type: ignore[attr-defined]
        assert fields, kind
        for name in fields:
            assert isinstance(getattr(kind, name.removesuffix(UNIT)), Moment | MomentOrNone), (kind, name)
