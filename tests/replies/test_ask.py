"""Asking and answering: everyone gets their own answer, and reply queues do not outlive their askers for long."""

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from holdfast import AsyncHoldfast, Claim, Holdfast, InvalidInput, NoAnswer, RequestDied, State
from holdfast.client.async_client import async_internals
from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.replies import inbox
from holdfast.replies.rules import REPLIES, REPLY_SPEC
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, sleepers, state

pytestmark = pytest.mark.of_queues

HOUR = 3600


def asked(hf: Holdfast, queue: str = "q") -> Claim:
    """The next request."""
    [claim] = hf.claim(queue, wait=30)
    return claim


def answer(hf: Holdfast, claim: Claim, body: Any) -> None:
    """As someone does who knows nothing of consumers."""
    hf.enqueue(claim.message.reply_to, body, correlation_id=claim.message.correlation_id)
    claim.ack()


def serve(hf: Holdfast, count: int, work: Callable[[Any], Any]) -> None:
    for _ in range(count):
        claim = asked(hf)
        answer(hf, claim, work(claim.message.body))


class Background:
    """Calls that run meanwhile."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(40)

    def __call__(self, call: Callable[..., Any], *args: Any, **options: Any) -> "Future[Any]":
        return self._pool.submit(call, *args, **options)

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def test_an_answer_comes_back_to_who_asked(hf: Holdfast, rival: Holdfast) -> None:
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", {"a": 1}, priority="high", key="k", headers={"h": 1})
        claim = asked(rival)
        message = claim.message
        answer(rival, claim, [None, "ä"])
        assert question.result(30) == [None, "ä"]
    assert (message.body, message.priority, message.key, message.headers) == ({"a": 1}, 1, "k", {"h": 1})
    assert message.reply_to.startswith(REPLIES)
    assert hf.stats(message.reply_to).pending + hf.stats(message.reply_to).processing == 0


def test_many_threads_ask_through_one_client_and_each_gets_its_own(hf: Holdfast, rival: Holdfast) -> None:
    with Background() as meanwhile:
        meanwhile(serve, rival, 100, lambda body: body * 10)
        questions = {number: meanwhile(hf.ask, "q", number) for number in range(100)}
        assert {number: one.result(60) for number, one in questions.items()} == {n: n * 10 for n in range(100)}
    assert len(reply_queues(hf)) == 1


def test_answers_may_come_in_any_order_and_one_asker_listens_for_all(hf: Holdfast, rival: Holdfast) -> None:
    with Background() as meanwhile:
        first, second, third = (meanwhile(hf.ask, "q", name) for name in ("first", "second", "third"))
        claims = {claim.message.body: claim for claim in (asked(rival) for _ in range(3))}
        for name, question in (("third", third), ("first", first), ("second", second)):
            answer(rival, claims[name], name.upper())
            assert question.result(30) == name.upper()


def test_one_of_those_who_wait_is_at_the_database(hf: Holdfast, rival: Holdfast, monkeypatch: Any) -> None:
    """No thread but the askers', and only one of them claims: the others sleep without a look."""
    listening: list[int] = []
    listen = inbox.ReplyInbox.listen

    def counted(self: inbox.ReplyInbox, expected: inbox.Expected) -> None:
        listening.append(threading.get_ident())
        listen(self, expected)

    monkeypatch.setattr(inbox.ReplyInbox, "listen", counted)
    with Background() as meanwhile:
        questions = [meanwhile(hf.ask, "q", number) for number in range(5)]
        claims = [asked(rival) for _ in questions]
        assert len(listening) == 1
        for claim in claims:
            answer(rival, claim, claim.message.body)
        assert [one.result(30) for one in questions] == list(range(5))
    assert len(listening) <= 5


def test_without_an_answer_in_time_there_is_an_error(hf: Holdfast, rival: Holdfast) -> None:
    with pytest.raises(NoAnswer, match=r"within 0.05 s what was asked of 'q'") as caught:
        hf.ask("q", 1, timeout="50ms")
    assert isinstance(caught.value, TimeoutError)


def test_what_nobody_waits_for_is_not_worked_on(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", "given up", timeout=0.05)
    clock.advance(0.05)
    assert rival.claim("q") == []


def test_a_request_may_outlive_its_asker(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", "given up", timeout=0.05, expires=False)
    clock.advance(60)
    assert claim_one(rival).message.body == "given up"


def test_a_late_answer_is_thrown_away(hf: Holdfast, rival: Holdfast) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", "slow", timeout=0.05, expires=False)
    late = asked(rival)
    answer(rival, late, "late")
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", "quick")
        answer(rival, asked(rival), "in time")
        assert question.result(30) == "in time"
    stats = hf.stats(late.message.reply_to)
    assert (stats.pending, stats.processing, stats.dead) == (0, 0, 0)


def test_an_answer_without_a_question_is_thrown_away(hf: Holdfast, rival: Holdfast) -> None:
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", 1)
        claim = asked(rival)
        rival.enqueue(claim.message.reply_to, "what?")
        rival.enqueue(claim.message.reply_to, "who?", correlation_id="nobody's")
        answer(rival, claim, "yes")
        assert question.result(30) == "yes"


@pytest.mark.parametrize("as_row", [False, True], ids=["lane", "row"])
def test_a_death_is_told_to_who_asked(hf: Holdfast, rival: Holdfast, as_row: bool) -> None:
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", 1, expires=as_row)
        asked(rival).dead_letter("no such thing")
        with pytest.raises(RequestDied, match=r"asked of 'q' is a dead letter now: no such thing"):
            question.result(30)
    assert len(rival.dead_letters.list("q")) == 1


def test_silence_to_the_end_is_told_as_well(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    rival.queue("q", lease=10, max_attempts=1)
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", 1, expires=False)
        asked(rival)
        clock.advance(11)
        rival.queues.sweep("q")
        with pytest.raises(RequestDied):
            question.result(30)


def test_a_death_long_after_the_asker_is_gone_harms_nobody(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", 1, timeout=0.05, expires=False)
    claim = asked(rival, "q")
    forget_everything(rival, clock)
    claim = asked(rival, "q")
    claim.dead_letter("boom")
    assert state(rival, claim.message.id) is State.DEAD
    assert reply_queues(rival) == []


def test_a_reply_to_that_is_no_reply_queue_is_only_carried_along(hf: Holdfast) -> None:
    hf.enqueue("q", 1, reply_to="answers")
    claim_one(hf).dead_letter("boom")
    assert hf.queues.list() == ["q"]


# --- reply queues -----------------------------------------------------------------------------------------------------


def reply_queues(hf: Holdfast) -> list[str]:
    """The names of all there are, gone or not."""
    raw = internals(hf).store.database.read(lambda tx: tx.all("channels.names", tenant=hf.settings.tenant, own="-"))
    return [name for (name,) in raw if name.startswith(REPLIES)]


def forget_everything(hf: Holdfast, clock: FakeClock) -> None:
    for _ in range(2):
        clock.advance(HOUR)
        hf.maintain()


def test_reply_queues_are_not_listed_and_not_declared(hf: Holdfast) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", 1, timeout=0.01)
    assert hf.queues.list() == ["q"]
    assert len(reply_queues(hf)) == 1
    with pytest.raises(InvalidInput, match=r"holdfast\.replies\. are hf\.ask's own"):
        hf.queue(f"{REPLIES}mine")


def test_the_reply_queue_of_a_process_that_is_gone_goes_too(
    client: OpenClient, rival: Holdfast, clock: FakeClock
) -> None:
    asker = client()
    with pytest.raises(NoAnswer):
        asker.ask("q", 1, timeout=0.01, expires=False)
    [name] = reply_queues(rival)
    held, fresh = rival.claim("q")[0], internals(rival).store.channels.find("default", name)
    assert fresh is not None
    for delay in (0, 10):
        rival.enqueue_many(name, range(3), delay=delay, idempotency_key=lambda body, delay=delay: f"{delay} {body}")
    [read, spoilt, *_] = rival.claim(name, n=3)
    read.ack("with a result")
    spoilt.dead_letter("boom")
    held.release()

    assert len(remains(rival, fresh.id, fresh.group)) >= 10
    clock.advance(HOUR - 1)
    other = internals(rival).store.replies.open("default", f"{REPLIES}other", REPLY_SPEC)
    rival.maintain()
    assert reply_queues(rival) == sorted([name, other.name])
    clock.advance(1)
    rival.maintain()
    gone = f"{REPLIES}gone.{fresh.id}"
    assert reply_queues(rival) == [gone, other.name]
    clock.advance(HOUR - 1)
    rival.maintain()
    assert reply_queues(rival) == [gone, f"{REPLIES}gone.{other.id}"], "what was on its way has an hour to arrive"
    clock.advance(1)
    rival.maintain()
    assert reply_queues(rival) == [f"{REPLIES}gone.{other.id}"]
    assert remains(rival, fresh.id, fresh.group) == {}
    assert bodies(rival.claim("q")) == [1]


def remains(hf: Holdfast, channel: int, group: int) -> dict[str, int]:
    """How many rows of each table speak of a queue, whatever tables there are."""
    if hf.settings.url.startswith("sqlite"):
        columns = rows(
            hf, "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        )
    else:
        columns = rows(
            hf, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        )
    wanted = {
        "group_id": f"group_id = {group}",
        "channel_id": f"channel_id = {channel}",
        "lane": f"lane / 4 = {channel}",
        "position": f"(position >> 40) / 4 = {channel}",
    }
    counts = {
        f"{table}.{column}": rows(hf, f"SELECT count(*) FROM {table} WHERE {wanted[column]}")[0][0]
        for table, column in columns
        if column in wanted
    }
    assert len(counts) > 20, "there are more tables than that"
    return {where: count for where, count in counts.items() if count}


def rows(hf: Holdfast, sql: str) -> list[Any]:
    """Through SQLite's own connection: a second library on the file would break its locks."""
    if not hf.settings.url.startswith("sqlite"):
        with psycopg.connect(hf.settings.url) as connection:
            return connection.execute(sql).fetchall()
    return internals(hf).store.database.read(lambda tx: tx._connection.rows(sql, ()))  # type: ignore[attr-defined]


def test_a_process_that_asks_keeps_its_reply_queue(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "OPEN_EVERY", -1.0)
    for _ in range(3):
        with pytest.raises(NoAnswer):
            hf.ask("q", 1, timeout=0.01)
        clock.advance(HOUR - 1)
        rival.maintain()
    assert len(reply_queues(hf)) == 1
    assert reply_queues(hf)[0] == internals(hf).desk.name


@pytest.mark.parametrize("delay", [0, 10], ids=["in a lane", "as rows"])
def test_many_answers_that_nobody_heard_go_in_turns(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, delay: int
) -> None:
    monkeypatch.setattr("holdfast.replies.steps.MOST_MESSAGES", 3)
    channel = internals(hf).store.replies.open("default", f"{REPLIES}mine", REPLY_SPEC)
    hf.enqueue_many(channel.name, range(5), delay=delay)
    for _ in range(2):
        clock.advance(HOUR)
        done = internals(hf).store.replies.forget("default", SWEEP_LIMIT)
    assert done == SWEEP_LIMIT, "it is not over"
    assert len(reply_queues(hf)) == 1
    assert internals(hf).store.replies.forget("default", SWEEP_LIMIT) == 1
    assert remains(hf, channel.id, channel.group) == {}


def test_an_asker_that_was_taken_for_gone_asks_on(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoAnswer):
        hf.ask("q", 1, timeout=0.01)
    forget_everything(rival, clock)
    assert reply_queues(rival) == []
    monkeypatch.setattr(inbox, "OPEN_EVERY", -1.0)
    with Background() as meanwhile:
        question = meanwhile(hf.ask, "q", 2)
        answer(rival, asked(rival), "yes")
        assert question.result(30) == "yes"


def test_who_answers_a_process_that_is_gone_is_not_told_off(client: OpenClient, clock: FakeClock) -> None:
    """Not even if strict: the queue comes to life again, and goes as all reply queues do."""
    strict = client(strict=True)
    strict.queue("q")
    strict.enqueue(f"{REPLIES}0123", "too late")
    assert reply_queues(strict) == [f"{REPLIES}0123"]
    forget_everything(strict, clock)
    assert reply_queues(strict) == []


def test_tenants_forget_their_own(client: OpenClient, clock: FakeClock) -> None:
    acme, other = client(tenant="acme"), client(tenant="other")
    for hf in (acme, other):
        with pytest.raises(NoAnswer):
            hf.ask("q", 1, timeout=0.01)
    forget_everything(acme, clock)
    assert reply_queues(acme) == []
    assert reply_queues(other) == [internals(other).desk.name]


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_tasks_ask_and_each_gets_its_own(url: str, clock: FakeClock, rival: Holdfast) -> None:
    async def main() -> list[Any]:
        async with AsyncHoldfast(url, clock=clock) as hf:
            return await asyncio.gather(*(hf.ask("q", number, timeout=600) for number in range(200)))

    with Background() as meanwhile:
        meanwhile(serve, rival, 200, lambda body: -body)
        assert asyncio.run(main()) == [-number for number in range(200)]


def test_tasks_that_wait_have_one_thread_between_them(url: str, clock: FakeClock, rival: Holdfast) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url, clock=clock) as hf:
            waiting = [asyncio.ensure_future(hf.ask("q", number)) for number in range(50)]
            claims = [await asyncio.to_thread(asked, rival) for _ in waiting]
            sleepers = async_internals(hf).threads._pools[1_000]._threads
            assert len(sleepers) == 1
            for claim in claims:
                answer(rival, claim, claim.message.body)
            assert await asyncio.gather(*waiting) == list(range(50))

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_the_listening_to_others(
    url: str, clock: FakeClock, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.replies.inbox.LONGEST_NAP", 3600.0)  # Only a ring wakes who listens.

    async def main() -> None:
        async with AsyncHoldfast(url, clock=clock) as hf:
            asleep = sleepers(async_internals(hf).hf)
            first = asyncio.ensure_future(hf.ask("q", "first"))
            claims = [await asyncio.to_thread(asked, rival)]
            second = asyncio.ensure_future(hf.ask("q", "second"))
            claims.append(await asyncio.to_thread(asked, rival))
            assert async_internals(hf).parts.desk._listener is not None
            await asyncio.to_thread(asleep.acquire)
            first.cancel()
            await asyncio.wait([first])
            for claim in claims:
                answer(rival, claim, claim.message.body)
            assert await asyncio.wait_for(second, 60) == "second", "nobody listened, or was not woken"
            assert first.cancelled()
            assert async_internals(hf).parts.desk._waiting == {}

    asyncio.run(main())


def test_a_task_without_an_answer_in_time_has_an_error(url: str, clock: FakeClock) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url, clock=clock) as hf:
            slow = asyncio.ensure_future(hf.ask("q", 1, timeout=30))
            while async_internals(hf).parts.desk._listener is None:
                await asyncio.sleep(0.01)
            with pytest.raises(NoAnswer):
                await hf.ask("q", 1, timeout=0.05)
            slow.cancel()
            await asyncio.wait([slow])

    asyncio.run(main())


def test_functions_around_enqueue_see_requests(hf: Holdfast, rival: Holdfast) -> None:
    seen = []

    @hf.around_enqueue
    def look(outgoing: Any, proceed: Any) -> Any:
        seen.append((outgoing.queue, outgoing.bodies, bool(re.match(r"[0-9a-f-]{36}$", outgoing.correlation_id))))
        return proceed()

    with pytest.raises(NoAnswer):
        hf.ask("q", 1, timeout=0.01)
    assert seen == [("q", [1], True)]
