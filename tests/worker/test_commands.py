"""Commands run for messages: outcomes as handlers have, receipts, and the ack in the transaction of the effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Cancel, DeadLetter, Holdfast, Message, Receipt, Retry, Snooze, State, UnknownCommand
from holdfast.client.client import internals
from holdfast.commands.rules import CommandKey
from holdfast.events import MessageLost, MessageSucceeded
from holdfast.worker.command_handler import consume
from tests.waiting import eventually
from tests.worker.steps import ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]
KINDS = pytest.mark.parametrize("kind", ["def", "async def"])
FORMS = pytest.mark.parametrize("with_conn", [True, False], ids=["conn", "no conn"])


@pytest.fixture(autouse=True)
def table(hf: Holdfast) -> None:
    hf.queue("q", backoff=None)
    with internals(hf).store.lend() as conn:
        conn.execute("CREATE TABLE effect (what TEXT)")


def effects(hf: Holdfast) -> list[str]:
    with internals(hf).store.lend() as conn:
        return [what for (what,) in conn.execute("SELECT what FROM effect ORDER BY what").fetchall()]


async def execute(conn: Any, sql: str) -> None:
    found = conn.execute(sql)
    if asyncio.iscoroutine(found):
        await found


def declare(
    hf: Holdfast, kind: str, with_conn: bool, then: Callable[[str, Any], Any] = lambda what, context: what
) -> list[str]:
    """`Thing.Do` writes if it can and does `then`; what it was called with."""
    calls: list[str] = []

    def within(what: str, context: Any, conn: Any) -> Any:
        calls.append(what)
        conn.execute(f"INSERT INTO effect VALUES ('{what}')")
        return then(what, context)

    def plain(what: str, context: Any) -> Any:
        calls.append(what)
        return then(what, context)

    async def within_later(what: str, context: Any, conn: Any) -> Any:
        calls.append(what)
        await execute(conn, f"INSERT INTO effect VALUES ('{what}')")
        found = then(what, context)
        return await found if asyncio.iscoroutine(found) else found

    async def plain_later(what: str, context: Any) -> Any:
        calls.append(what)
        found = then(what, context)
        return await found if asyncio.iscoroutine(found) else found

    chosen = {("def", True): within, ("def", False): plain, ("async def", True): within_later}
    hf.command("Thing.Do")(chosen.get((kind, with_conn), plain_later))
    return calls


def what_of(message: Message) -> dict[str, Any]:
    return {"what": message.body}


def work_off(hf: Holdfast, *queues: str, **options: Any) -> None:
    """Runs `Thing.Do` for these queues until they are empty."""
    for queue in queues or ("q",):
        consume(hf, queue, "Thing.Do", what_of, empty="terminate", **options)
    hf.run()


def receipt_of(hf: Holdfast, key: str) -> bytes | None:
    return internals(hf).store.commands.find(CommandKey("default", "Thing.Do", key))[1]


@KINDS
@FORMS
def test_a_command_is_run_for_each_message(hf: Holdfast, kind: str, with_conn: bool) -> None:
    calls = declare(hf, kind, with_conn, lambda what, context: [what, context.attempt, context.idempotency_key])
    lost: list[Any] = []
    succeeded: list[Any] = []
    hf.on(MessageLost, lost.append)
    hf.on(MessageSucceeded, succeeded.append)
    put = hf.enqueue_many("q", [f"x{number}" for number in range(30)], idempotency_key=lambda body: f"key {body}")
    plain = hf.enqueue("q", "y")
    work_off(hf, concurrency=3)
    assert sorted(calls) == sorted([*(f"x{number}" for number in range(30)), "y"])
    assert effects(hf) == (sorted(calls) if with_conn else [])
    assert [hf.status(one.id).result for one in put[:2]] == [["x0", 1, "key x0"], ["x1", 1, "key x1"]]
    assert hf.status(plain.id).result == ["y", 1, plain.id]
    assert receipt_of(hf, plain.id) is not None
    assert receipt_of(hf, "key x29") == b'["x29",1,"key x29"]'
    assert (lost, len(succeeded), hf.stats("q").processing, hf.stats("q").pending) == ([], 31, 0, 0)


@KINDS
@FORMS
def test_the_same_key_through_two_doors_is_one_run(hf: Holdfast, kind: str, with_conn: bool) -> None:
    calls = declare(hf, kind, with_conn, lambda what, context: {"did": what})
    hf.commands.run("Thing.Do", {"what": "at once"}, idempotency_key="k")
    hf.queue("other")
    put = [hf.enqueue(queue, f"by {queue}", idempotency_key="k") for queue in ("q", "other")]
    work_off(hf, "q", "other")
    assert calls == ["at once"]
    assert [hf.status(one.id).result for one in put] == [{"did": "at once"}] * 2


@KINDS
@FORMS
def test_nothing_is_a_result_too(hf: Holdfast, kind: str, with_conn: bool) -> None:
    """Without one an ack is written in another way."""
    declare(hf, kind, with_conn, lambda what, context: None)
    put = hf.enqueue_many("q", ["a", "b", "c"])
    work_off(hf)
    assert [ended(hf, one.id) for one in put] == [State.SUCCEEDED] * 3
    assert [receipt_of(hf, one.id) for one in put] == [b"null"] * 3
    assert hf.stats("q").processing == 0


@KINDS
@FORMS
def test_a_failed_attempt_leaves_no_effect_and_is_tried_again(hf: Holdfast, kind: str, with_conn: bool) -> None:
    def fail_first(what: str, context: Any) -> str:
        if context.attempt < 3:
            raise RuntimeError("boom")
        return "done"

    calls = declare(hf, kind, with_conn, fail_first)
    put = hf.enqueue("q", "a")
    work_off(hf)
    found = hf.status(put.id)
    assert (calls, found.result, found.attempts) == (["a"] * 3, "done", 3)
    assert effects(hf) == (["a"] if with_conn else [])


@FORMS
@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Retry(0, reason="busy"), State.SUCCEEDED),
        (Snooze(0), State.SUCCEEDED),
        (Cancel("gone"), State.CANCELED),
        (DeadLetter("no use"), State.DEAD),
    ],
    ids=["retry", "snooze", "cancel", "dead letter"],
)
def test_outcomes_are_those_of_a_handler(hf: Holdfast, with_conn: bool, outcome: Exception, state: State) -> None:
    first: list[str] = []

    def decide(what: str, context: Any) -> None:
        if not first:
            first.append(what)
            raise outcome

    declare(hf, "def", with_conn, decide)
    put = hf.enqueue("q", "a")
    work_off(hf)
    assert ended(hf, put.id) is state
    assert effects(hf) == (["a"] if with_conn and state is State.SUCCEEDED else [])


def test_input_that_does_not_fit_is_dead_at_once(hf: Holdfast) -> None:
    calls = declare(hf, "def", False)
    put = hf.enqueue("q", 7)
    work_off(hf)
    [dead] = hf.dead_letters.list("q")
    assert (calls, dead.message.id, dead.attempts) == ([], put.id, 1)
    assert "does not fit Thing.Do: Expected `str`, got `int` - at `$.what`" in dead.error


def test_an_unknown_command_is_an_error_before_anything_is_claimed(hf: Holdfast) -> None:
    declare(hf, "def", False)
    with pytest.raises(UnknownCommand, match=r"did you mean 'Thing.Do'\?"):
        consume(hf, "q", "Thing.Doo", what_of)


def test_two_queues_may_have_the_same_command(hf: Holdfast) -> None:
    calls = declare(hf, "def", False)
    hf.queue("other")
    for queue in ("q", "other"):
        hf.enqueue(queue, queue)
    assert consume(hf, "third", "Thing.Do", what_of, empty="terminate").name == "third:Thing.Do"
    work_off(hf, "q", "other")
    assert sorted(calls) == ["other", "q"]


@KINDS
@FORMS
def test_what_a_command_enqueues_arrives_with_its_ack(hf: Holdfast, kind: str, with_conn: bool) -> None:
    def tell(what: str, context: Any) -> Receipt:
        return context.enqueue("unheard of", what)

    async def tell_later(what: str, context: Any) -> None:
        await context.enqueue("unheard of", what)

    def tell_once(what: str, context: Any) -> Any:
        told = tell_later(what, context) if kind == "async def" else tell(what, context)
        return told if kind == "async def" else None

    declare(hf, kind, with_conn, tell_once)
    hf.enqueue_many("q", ["a", "b"])
    lost: list[Any] = []
    hf.on(MessageLost, lost.append)
    work_off(hf)
    assert sorted(claim.message.body for claim in hf.claim("unheard of", n=10)) == ["a", "b"]
    assert lost == []


@KINDS
def test_a_lost_claim_has_no_effect(hf: Holdfast, kind: str) -> None:
    calls = declare(hf, kind, True)
    put = hf.enqueue("q", "a")

    def lose(message: Message) -> dict[str, Any]:
        assert hf.cancel(message.id)
        return {"what": message.body}

    consume(hf, "q", "Thing.Do", lose, empty="terminate")
    hf.run()
    assert (calls, effects(hf), hf.status(put.id).state) == (["a"], [], State.CANCELED)
    assert receipt_of(hf, put.id) is None


@KINDS
def test_promises_are_checked_before_the_ack_and_the_command_is_not_run_again(
    hf: Holdfast, kind: str, tmp_path: Any
) -> None:
    """The first check fails, and makes that the second will not."""
    flag = tmp_path / "flag"
    hf.queue("q", backoff=None, commitments=[{"name": "second time", "check": f"test -e {flag} || ! touch {flag}"}])
    calls = declare(hf, kind, True, lambda what, context: "done")
    put = hf.enqueue("q", "a")
    work_off(hf)
    found = hf.status(put.id)
    assert (found.state, found.attempts, found.result) == (State.SUCCEEDED, 2, "done")
    assert (calls, effects(hf)) == (["a"], ["a"])


def test_receipts_of_messages_live_as_long_as_the_queues_keys(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "holdfast.worker.maintenance.duties.commands.turn", lambda hf: 0
    )  # It would forget it before us.
    hf.queue("q", idempotency_window=0.05)
    declare(hf, "def", True)
    hf.enqueue("q", "a")
    work_off(hf)

    def is_over() -> bool:
        return internals(hf).store.commands.forget("default", 10) == 1

    eventually(is_over)


def test_maintenance_has_the_duty() -> None:
    from holdfast.worker.maintenance.duties import DUTIES, commands

    assert commands in DUTIES


@KINDS
@FORMS
@pytest.mark.parametrize("key", [None, "k"])
def test_each_group_of_a_topic_runs_a_command_once(hf: Holdfast, kind: str, with_conn: bool, key: str | None) -> None:
    calls = declare(hf, kind, with_conn)
    hf.topic("news")
    for group in ("one", "two"):
        hf.subscribe("news", group, backoff=None)
    receipt = hf.publish("news", "x", idempotency_key=key)
    work_off(hf, "news/one", "news/two")
    assert calls == ["x", "x"]
    assert effects(hf) == (calls if with_conn else [])
    assert [receipt_of(hf, f"news/{group}:{receipt.id}") for group in ("one", "two")] == [b'"x"', b'"x"']
