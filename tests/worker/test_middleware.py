"""Functions around enqueue: in which order, what they may change, and how they refuse."""

import asyncio
from typing import Any

import psycopg
import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidInput, Outgoing, QueueFull, UnknownQueue
from tests.client.test_conn import commit, of_the_driver, roll_back
from tests.worker.stamps import async_stamp, stamp

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def test_the_first_is_outermost_and_what_it_changes_is_stored(hf: Holdfast) -> None:
    hf.around_enqueue(stamp("outer"))
    hf.around_enqueue(stamp("inner"))
    mine = {"mine": 1}
    receipt = hf.enqueue("q", "body", headers=mine)
    [claim] = hf.claim("q")
    assert claim.message.id == receipt.id
    assert claim.message.headers == {"mine": 1, "by": ["outer", "inner"]}
    assert mine == {"mine": 1}


def test_everything_may_be_changed(hf: Holdfast) -> None:
    seen = []

    @hf.around_enqueue
    def redirect(outgoing: Outgoing, proceed: Any) -> Any:
        seen.append(outgoing)
        outgoing.queue = "elsewhere"
        outgoing.bodies[:] = [body * 10 for body in outgoing.bodies]
        outgoing.priority, outgoing.key, outgoing.correlation_id, outgoing.reply_to = "high", "k", "c", "r"
        outgoing.idempotency_key = str
        return proceed()

    mine = [1, 2]
    first = hf.enqueue_many("q", mine)
    again = hf.enqueue_many("q", mine)
    assert mine == [1, 2]
    assert [receipt.id for receipt in again] == [receipt.id for receipt in first]
    assert all(receipt.duplicate for receipt in again)
    claims = hf.claim("elsewhere", n=10)
    assert [claim.message.body for claim in claims] == [10, 20]
    message = claims[0].message
    assert (message.priority, message.key, message.correlation_id, message.reply_to) == (1, "k", "c", "r")
    assert [type(one) for one in seen] == [Outgoing, Outgoing]
    assert hf.queues.list() == ["elsewhere"]


def test_delay_and_ttl_may_be_changed(hf: Holdfast) -> None:
    @hf.around_enqueue
    def later(outgoing: Outgoing, proceed: Any) -> Any:
        outgoing.delay, outgoing.ttl = "1h", "2h"
        return proceed()

    sent = hf.enqueue("q", 1)
    assert hf.claim("q") == []
    assert hf.stats("q").waiting == 1
    status = hf.status(sent.id)
    assert status is not None
    assert status.message.expires_at_us is not None


def test_it_sees_what_the_caller_wrote(hf: Holdfast) -> None:
    seen = []

    @hf.around_enqueue
    def look(outgoing: Outgoing, proceed: Any) -> Any:
        seen.append(Outgoing(**{name: getattr(outgoing, name) for name in outgoing.__struct_fields__}))
        return proceed()

    hf.enqueue("q", 1)
    options: dict[str, Any] = {"priority": 0, "key": "k", "delay": 1, "headers": {"a": 1}, "correlation_id": "c"}
    options |= {"reply_to": "r", "ttl": 60, "idempotency_key": "once", "budget": 5, "commitments": []}
    hf.enqueue("q", 2, **options)
    hf.enqueue_many("q", (body for body in (3, 4)))
    assert seen == [Outgoing("q", [1]), Outgoing("q", [2], **options), Outgoing("q", [3, 4])]


def test_what_follows_the_store_is_told_the_receipts(hf: Holdfast) -> None:
    told = []

    @hf.around_enqueue
    def note(outgoing: Outgoing, proceed: Any) -> Any:
        receipts = proceed()
        told.extend(receipt.id for receipt in receipts)
        return receipts

    assert [receipt.id for receipt in hf.enqueue_many("q", range(3))] == told
    assert hf.enqueue_many("q", []) == []


def test_raising_refuses(hf: Holdfast) -> None:
    @hf.around_enqueue
    def refuse(outgoing: Outgoing, proceed: Any) -> Any:
        if "secret" in outgoing.bodies:
            raise PermissionError("no secrets")
        return proceed()

    with pytest.raises(PermissionError, match="no secrets"):
        hf.enqueue_many("q", ["a", "secret"])
    assert hf.queues.list() == []
    assert hf.enqueue("q", "a")


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "queue": ({"queue": "a/b"}, "may not hold slashes"),
    "bodies": ({"bodies": [object(), 1]}, "^body cannot be written as JSON"),
    "no bodies": ({"bodies": 7}, "^bodies must be a list"),
    "fewer bodies": ({"bodies": [1]}, "made 1 bodies out of 2"),
    "priority": ({"priority": 9}, "^priority must"),
    "key": ({"key": 7}, "^key must be text"),
    "delay": ({"delay": -1}, "^delay "),
    "headers": ({"headers": [1]}, "^headers must be a dict"),
    "what headers hold": ({"headers": {"a": object()}}, "^headers"),
    "correlation_id": ({"correlation_id": 7}, "^correlation_id must be text"),
    "reply_to": ({"reply_to": 7}, "^reply_to must be text"),
    "ttl": ({"ttl": 0}, "^ttl must be longer"),
    "budget": ({"budget": -1}, "^budget must"),
    "commitments": ({"commitments": 7}, "^commitments "),
    "one key for all": ({"idempotency_key": "k"}, "needs a function that gives each body"),
    "idempotency_key": ({"idempotency_key": lambda body: 7}, "^idempotency_key must be text"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_it_changes_is_checked_as_if_the_caller_had_written_it(hf: Holdfast, what: str) -> None:
    change, says = CHANGES[what]

    @hf.around_enqueue
    def spoil(outgoing: Outgoing, proceed: Any) -> Any:
        for name, value in change.items():
            setattr(outgoing, name, value)
        return proceed()

    with pytest.raises(InvalidInput, match=says):
        hf.enqueue_many("q", [1, 2])
    assert hf.queues.list() == []


@pytest.mark.parametrize("bad", [{"queue": 7}, {"queue": "a/b"}, {"headers": [1]}, {"headers": {1: 1}}])
def test_bad_input_is_refused_before_it_is_called(hf: Holdfast, bad: dict[str, Any]) -> None:
    called = []
    hf.around_enqueue(lambda outgoing, proceed: called.append(outgoing) or proceed())
    with pytest.raises(InvalidInput):
        hf.enqueue(**{"queue": "q", "body": 1, **bad})
    with pytest.raises(InvalidInput, match=r"^bodies must"):
        hf.enqueue_many("q", None)  # type: ignore[arg-type]
    assert called == []


@pytest.mark.parametrize("given", [None, [], ["receipt"]])
def test_what_it_returns_must_be_the_receipts(hf: Holdfast, given: Any) -> None:
    @hf.around_enqueue
    def forgetful(outgoing: Outgoing, proceed: Any) -> Any:
        return given

    with pytest.raises(InvalidInput, match=r"forgetful, .*`return proceed\(\)`"):
        hf.enqueue("q", 1)


def test_strict_clients_and_full_queues_refuse_as_ever(url: str) -> None:
    with Holdfast(url, strict=True) as hf:
        hf.queue("q", max_depth=1)
        hf.around_enqueue(stamp("one"))
        with pytest.raises(UnknownQueue):
            hf.enqueue("other", 1)
        with pytest.raises(QueueFull):
            hf.enqueue_many("q", [1, 2])
        assert hf.enqueue("q", 1)


@pytest.mark.parametrize("committed", [True, False])
def test_in_the_callers_transaction(hf: Holdfast, url: str, committed: bool) -> None:
    hf.queue("q")
    hf.around_enqueue(stamp("one"))
    with of_the_driver(url) as conn:
        hf.enqueue("q", 1, conn=conn)
        hf.enqueue_many("q", [2, 3], conn=conn)
        commit(conn) if committed else roll_back(conn)
    found = [(message.body, message.headers) for message in hf.queues.peek("q")]
    assert found == ([(body, {"by": ["one"]}) for body in (1, 2, 3)] if committed else [])


def test_awaited_around_the_client_for_asyncio(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            hf.around_enqueue(async_stamp("outer"))
            hf.around_enqueue(stamp("never: it is not awaited"))
            hf.around_enqueue(async_stamp("inner"))
            await hf.enqueue("q", 1)
            await asyncio.gather(*(hf.enqueue_many("q", [2, 3]) for _ in range(2)))
            claims = await hf.claim("q", n=10)
            assert [claim.message.headers for claim in claims] == [{"by": ["outer", "inner"]}] * 5

            @hf.around_enqueue
            async def refuse(outgoing: Outgoing, proceed: Any) -> Any:
                raise PermissionError("no more")

            with pytest.raises(PermissionError, match="no more"):
                await hf.enqueue("q", 1)

    asyncio.run(main())


def test_awaited_ones_must_return_the_receipts_too(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:

            @hf.around_enqueue
            async def forgetful(outgoing: Outgoing, proceed: Any) -> None:
                await proceed()

            with pytest.raises(InvalidInput, match=r"forgetful, .*`return await proceed\(\)`"):
                await hf.enqueue("q", 1)

    asyncio.run(main())


def test_awaited_in_the_callers_transaction(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            await hf.queue("q")
            hf.around_enqueue(async_stamp("awaited"))
            hf.around_enqueue(stamp("never: it is not awaited"))
            with of_the_driver(url) as conn:
                await hf.enqueue("q", 1, conn=conn)
                commit(conn)
            assert [message.headers for message in await hf.queues.peek("q")] == [{"by": ["awaited"]}]

    asyncio.run(main())


def test_awaited_in_a_transaction_that_is_awaited(postgres_url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(postgres_url) as hf:
            await hf.queue("q")
            hf.around_enqueue(async_stamp("awaited"))
            async with await psycopg.AsyncConnection.connect(postgres_url) as conn:
                await hf.enqueue("q", 1, conn=conn)
                assert await hf.queues.peek("q") == []
            assert [message.headers for message in await hf.queues.peek("q")] == [{"by": ["awaited"]}]

    asyncio.run(main())
