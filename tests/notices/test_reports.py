"""Trouble that is no dead letter comes before an owner in the same way, and once until someone answers."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import AsyncHoldfast, Holdfast, Notice, UnknownQueue
from holdfast.client.client import internals
from holdfast.errors import InvalidInput
from tests.clock import FakeClock
from tests.steps import OpenClient, inbox, kill, one_notice

pytestmark = pytest.mark.of_queues

DAY = 86_400


def test_a_report_is_a_notice_and_a_message_in_the_owners_inbox(owned: Holdfast, clock: FakeClock) -> None:
    notice_id = owned.notices.report("crash_loop", "mailers", "5 crashes in a minute: boom", owner="mia")
    notice = one_notice(owned)
    assert (notice.id, notice.kind, notice.about, notice.repeats) == (notice_id, "crash_loop", "mailers", 0)
    assert (notice.owner, notice.level, notice.error) == ("mia", 0, "5 crashes in a minute: boom")
    assert (notice.queue, notice.dead_id, notice.message_id, notice.attempts) == (None, None, None, 0)
    assert (notice.created_at_us, notice.climbs_at_us) == (clock(), clock() + 600_000_000)
    (body,) = inbox(owned)
    assert (body["kind"], body["notice_kind"], body["about"]) == ("notice", "crash_loop", "mailers")
    assert (body["id"], body["queue"], body["dead_id"], body["owner"]) == (notice_id, None, None, "mia")
    assert body["error"] == "5 crashes in a minute: boom"


def test_a_death_is_a_notice_of_the_kind_dead_letter(owned: Holdfast) -> None:
    dead_id = kill(owned)
    notice = one_notice(owned)
    assert (notice.kind, notice.about, notice.repeats, notice.dead_id) == ("dead_letter", None, 0, dead_id)
    (body,) = inbox(owned)
    assert (body["kind"], body["notice_kind"], body["about"]) == ("notice", "dead_letter", None)


def test_a_report_about_a_queue_goes_to_its_owner_unless_another_is_named(owned: Holdfast) -> None:
    owned.notices.report("preflight", "reader", "no bucket", queue="q")
    owned.notices.report("budget", "reader", "too dear", queue="q", owner="boss")
    assert [(one.queue, one.owner) for one in owned.notices.list()] == [("q", "mia"), ("q", "boss")]
    assert len(owned.notices.list(queue="q")) == 2
    assert [body["queue"] for body in inbox(owned)] == ["q"]


def test_a_report_for_nobody_is_listed_all_the_same(hf: Holdfast) -> None:
    hf.notices.report("preflight", "reader", "no bucket")
    assert one_notice(hf) == one_notice(hf, owner="")
    assert (one_notice(hf).owner, one_notice(hf).climbs_at_us) == (None, None)
    assert hf.queues.list() == []


def test_the_same_again_counts_up_and_tells_nobody(owned: Holdfast, clock: FakeClock) -> None:
    told: list[Notice] = []
    owned.on_notice(told.extend)
    first = owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    owned.notices.escalate()
    before = one_notice(owned)
    for number in range(1, 4):
        clock.advance(60)
        assert owned.notices.report("crash_loop", "mailers", f"boom {number}", owner="mia") == first
    owned.notices.escalate()
    notice = one_notice(owned)
    assert (notice.repeats, notice.error) == (3, "boom 3")
    assert (notice.created_at_us, notice.climbs_at_us) == (before.created_at_us, before.climbs_at_us)
    assert len(inbox(owned)) == len(told) == 1


def test_another_kind_or_name_is_another_notice(owned: Holdfast) -> None:
    ids = {
        owned.notices.report("crash_loop", "mailers", "boom"),
        owned.notices.report("preflight", "mailers", "boom"),
        owned.notices.report("crash_loop", "printers", "boom"),
    }
    assert {notice.id for notice in owned.notices.list()} == ids
    assert len(ids) == 3


def test_after_an_answer_it_is_a_new_notice(owned: Holdfast) -> None:
    first = owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    assert owned.notices.acknowledge(first, remark="rolled back") == 1
    second = owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    assert second != first
    assert (one_notice(owned).id, one_notice(owned).repeats) == (second, 0)
    assert [(one.id, one.remark) for one in owned.notices.list(acknowledged=True)] == [
        (first, "rolled back"),
        (second, None),
    ]
    assert len(inbox(owned)) == 2


def test_it_climbs_with_what_it_counted(owned: Holdfast, clock: FakeClock) -> None:
    owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    clock.advance(600)
    assert owned.notices.escalate() == 1
    assert (one_notice(owned).owner, one_notice(owned).level) == ("boss", 1)
    (body,) = inbox(owned, "boss.inbox")
    assert (body["about"], body["climbed_from"], body["repeats"]) == ("mailers", "mia", 1)


def test_a_digest_has_both(owned: Holdfast, clock: FakeClock) -> None:
    owned.owner("mia", notify="digest", digest_every="5m")
    kill(owned)
    owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    owned.notices.report("preflight", "reader", "boom", queue="q")
    clock.advance(300)
    assert owned.notices.escalate() == 3
    (body,) = inbox(owned)
    assert (body["count"], body["queues"]) == (3, {"q": 2})
    assert body["kinds"] == {"dead_letter": 1, "crash_loop": 1, "preflight": 1}
    assert [line["about"] for line in body["notices"]] == [None, "mailers", "reader"]


def test_a_callback_is_told(owned: Holdfast) -> None:
    told: list[Notice] = []
    owned.on_notice(told.extend, owner="mia")
    owned.notices.report("crash_loop", "mailers", "boom", owner="mia")
    assert owned.notices.escalate() == 1
    assert told == owned.notices.list()


def test_trouble_with_an_inbox_goes_to_whoever_is_above(owned: Holdfast) -> None:
    owned.queue("mia.inbox", owner="mia")
    owned.notices.report("preflight", "pager", "no network", queue="mia.inbox")
    assert one_notice(owned).owner == "boss"


def test_an_exception_is_kept_with_its_traceback_and_a_long_text_with_both_ends(owned: Holdfast) -> None:
    try:
        raise OSError("no bucket")
    except OSError as problem:
        owned.notices.report("preflight", "reader", problem)
    assert one_notice(owned).error == "OSError: no bucket"
    assert str(one_notice(owned).traceback).startswith("Traceback")
    assert str(one_notice(owned).traceback).endswith("OSError: no bucket")
    owned.notices.report("preflight", "reader", f"gave up: {'x' * 10_000} boom")
    error = one_notice(owned).error
    assert (error[:8], error[-4:], len(error)) == ("gave up:", "boom", 500)
    assert one_notice(owned).traceback is None, "it is that of the newest error"


def test_dead_retention_removes_no_report(owned: Holdfast, clock: FakeClock) -> None:
    owned.queue("q", owner="mia", dead_retention=100)
    kill(owned)
    owned.notices.report("preflight", "reader", "no bucket", queue="q")
    clock.advance(100)
    owned.queues.sweep("q")
    assert one_notice(owned, acknowledged=True).kind == "preflight"


def test_what_was_answered_a_month_ago_goes_with_the_next_report(owned: Holdfast, clock: FakeClock) -> None:
    old, other = (owned.notices.report("crash_loop", about, "boom") for about in ("mailers", "printers"))
    owned.notices.acknowledge(old, other)
    clock.advance(30 * DAY - 1)
    recent = owned.notices.report("crash_loop", "mailers", "boom")
    owned.notices.acknowledge(recent)
    assert [notice.id for notice in owned.notices.list(acknowledged=True)] == [old, other, recent]
    clock.advance(1)
    new = owned.notices.report("crash_loop", "mailers", "boom")
    assert [notice.id for notice in owned.notices.list(acknowledged=True)] == [other, recent, new]
    clock.advance(300 * DAY)
    assert owned.notices.report("crash_loop", "mailers", "boom") == new, "what waits for an answer waits for ever"


def test_one_tenants_report_is_no_repeat_of_anothers(client: OpenClient, owned: Holdfast, clock: FakeClock) -> None:
    other = client(tenant="acme")
    assert owned.notices.report("crash_loop", "mailers", "ours") != other.notices.report(
        "crash_loop", "mailers", "theirs"
    )
    assert (one_notice(owned).repeats, one_notice(owned).error, one_notice(other).error) == (0, "ours", "theirs")
    answered = one_notice(other).id
    other.notices.acknowledge(answered)
    owned.notices.acknowledge(one_notice(owned).id)
    clock.advance(31 * DAY)
    owned.notices.report("crash_loop", "mailers", "ours again")
    assert one_notice(other, acknowledged=True).id == answered


def test_many_who_report_the_same_at_once_make_one_notice(client: OpenClient) -> None:
    clients = [client() for _ in range(4)]
    clients[0].owner("mia")
    together = threading.Barrier(12)

    def report(thread: int) -> str:
        together.wait(30)
        return clients[thread % 4].notices.report("crash_loop", "mailers", f"boom {thread}", owner="mia")

    with ThreadPoolExecutor(12) as threads:
        ids = set(threads.map(report, range(12)))
    notice = one_notice(clients[0])
    assert ids == {notice.id}
    assert notice.repeats == 11
    assert len(inbox(clients[0])) == 1


def test_a_queue_that_was_never_declared(client: OpenClient, hf: Holdfast) -> None:
    strict = client(strict=True)
    with pytest.raises(UnknownQueue):
        strict.notices.report("preflight", "reader", "boom", queue="new")
    with pytest.raises(UnknownQueue, match="leave queue= out"):
        internals(strict).store.notices.post("default", "preflight", "reader", "boom", queue="new")
    assert (hf.notices.list(), hf.queues.list()) == ([], [])
    hf.notices.report("preflight", "reader", "boom", queue="new")
    assert (one_notice(hf).queue, hf.queues.list()) == ("new", ["new"])


@pytest.mark.parametrize("kind", ["", "Crash", "crash loop", "5xx", "x" * 51, "dead_letter", "crash-loop", "ü", "a\n"])
def test_a_kind_that_is_no_word_is_refused(hf: Holdfast, kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"^kind "):
        hf.notices.report(kind, "mailers", "boom")
    assert hf.notices.list() == []


def test_the_asyncio_client_reports_too(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            notice_id = await hf.notices.report("crash_loop", "mailers", "boom", owner="mia")
            (notice,) = await hf.notices.list("mia")
            assert (notice.id, notice.about) == (notice_id, "mailers")

    asyncio.run(main())
