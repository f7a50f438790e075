"""Commands as steps of sagas: run by whoever has declared them, once under the step's key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Expression, Holdfast, InvalidInput, Message, Step, UnknownCommand
from holdfast.client.client import internals
from holdfast.commands.rules import command_queue
from holdfast.errors import HoldfastError
from tests.clock import FakeClock
from tests.waiting import eventually
from tests.worker.steps import PATIENCE
from tests.worker.test_sagas import ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]


def declare_shop(hf: Holdfast, ledger: bool = True) -> list[str]:
    """`Card.Charge` and its undo write into a table, `Mail.Send` is awaited; what they were called with."""
    calls: list[str] = []
    if ledger:
        internals(hf).catalog.open()
        with internals(hf).store.lend() as conn:
            conn.execute("CREATE TABLE ledger (line TEXT)")

    @hf.command("Card.Charge")
    def charge(amount: float, conn: Any) -> dict[str, float]:
        calls.append(f"charge {amount:g}")
        conn.execute(f"INSERT INTO ledger VALUES ('charged {amount:g}')")
        return {"charged": amount}

    @hf.command("Card.Refund")
    def refund(card: dict[str, float], conn: Any, context: Any) -> None:
        calls.append(f"refund {card['charged']:g} {context.step_key}")
        conn.execute(f"INSERT INTO ledger VALUES ('refunded {card['charged']:g}')")

    @hf.command("Mail.Send")
    async def send(to: str, subject: str = "thanks") -> str:
        calls.append(f"mail {to} {subject}")
        return f"{subject} to {to}"

    return calls


def ledger_of(hf: Holdfast) -> list[str]:
    with internals(hf).store.lend() as conn:
        return sorted(line for (line,) in conn.execute("SELECT line FROM ledger").fetchall())


def test_a_step_may_be_a_command(hf: Holdfast) -> None:
    calls = declare_shop(hf)
    hf.saga(
        "order",
        steps=[
            Step("card", "Card.Charge", undo="Card.Refund", input={"amount": Expression("data.price * 2.0")}),
            Step("mail", "Mail.Send", input=lambda data: {"to": data.to}),
        ],
    )
    with hf.running():
        hf.start_saga("order", {"price": 10, "to": "mia"}, id="o")
        saga = ended(hf, "o")
    assert saga.status == "completed"
    assert saga.data == {"price": 10, "to": "mia", "card": {"charged": 20.0}, "mail": "thanks to mia"}
    assert [step.queue for step in saga.steps] == [command_queue("Card.Charge"), command_queue("Mail.Send")]
    assert (calls, ledger_of(hf)) == (["charge 20", "mail mia thanks"], ["charged 20"])


def test_without_input_a_command_has_what_is_named_as_its_parameters(hf: Holdfast) -> None:
    calls = declare_shop(hf)
    hf.queue("lost", max_attempts=1)
    steps = [Step("card", "Card.Charge", undo="Card.Refund"), Step("mail", "Mail.Send"), Step("gone", "lost")]
    hf.saga("order", steps=steps)

    @hf.consumer("lost")
    def lose(message: Message) -> None:
        raise LookupError("gone")

    with hf.running():
        hf.start_saga("order", {"amount": 5, "to": "mia"}, id="o")
        saga = ended(hf, "o")
    assert saga.status == "compensated"
    assert calls == ["charge 5", "mail mia thanks", "refund 5 o/1/card/undo"]
    assert ledger_of(hf) == ["charged 5", "refunded 5"]


def test_input_that_does_not_fit_fails_the_step_at_once(hf: Holdfast) -> None:
    calls = declare_shop(hf)
    hf.saga("order", steps=[Step("card", "Card.Charge", input=lambda data: {"amount": data.price}, retry=5)])
    with hf.running():
        hf.start_saga("order", {"price": "much"}, id="o")
        saga = ended(hf, "o")
    assert (saga.status, calls) == ("failed", [])
    assert "does not fit Card.Charge" in str(saga.error)


def sent_twice(hf: Holdfast, clock: FakeClock, target: str) -> str:
    """A saga whose first step was sent again, as a worker held the first message past its time; its dead letter."""
    card = Step("card", target, undo="Card.Refund", undo_input={"card": {"charged": 3}}, timeout=60, retry=1)
    hf.saga("order", steps=[card, Step("gone", "gone")])
    assert card.queue is not None
    hf.queue(card.queue, lease="1d", backoff=None)
    hf.start_saga("order", {"amount": 3}, id="o")
    [held] = hf.claim(card.queue)
    clock.advance(61)
    assert hf.sagas.advance() == 1
    held.dead_letter("it hung")
    [dead] = hf.dead_letters.list(card.queue)
    return dead.id


def replay(hf: Holdfast, dead_id: str) -> None:
    message_id = hf.dead_letters.replay(dead_id).id
    eventually(lambda: (found := hf.status(message_id)) and found.state.value == "succeeded")


@pytest.mark.parametrize("is_undone", [False, True])
def test_a_command_that_is_sent_again_happens_once(connect: Connect, is_undone: bool) -> None:
    """The first message is replayed when the second was run, or undone as well: there is a receipt."""
    hf = connect(clock=(clock := FakeClock()))
    calls = declare_shop(hf)
    first = sent_twice(hf, clock, "Card.Charge")
    with hf.running():
        [last] = hf.claim("gone", wait=PATIENCE)
        if is_undone:
            last.dead_letter("gone")
            eventually(lambda: "refunded 3" in ledger_of(hf))
        replay(hf, first)
        assert ended(hf, "o").status == "compensated" if is_undone else last.ack() is None
    assert ledger_of(hf) == (["charged 3", "refunded 3"] if is_undone else ["charged 3"])
    assert [call.split()[0] for call in calls] == (["charge", "refund"] if is_undone else ["charge"])


def test_what_is_done_again_after_its_undo_is_undone_again(connect: Connect) -> None:
    """The worker of a queue has charged twice: so the command that takes it back has to be run twice."""
    hf = connect(clock=(clock := FakeClock()))
    calls = declare_shop(hf)
    first = sent_twice(hf, clock, "charge")
    with hf.running():
        hf.claim("charge", wait=PATIENCE)[0].ack({"charged": 3})
        hf.claim("gone", wait=PATIENCE)[0].dead_letter("gone")
        eventually(lambda: calls == ["refund 3 o/1/card/undo"])
        hf.dead_letters.replay(first)
        hf.claim("charge", wait=PATIENCE)[0].ack({"charged": 3})
        eventually(lambda: len(calls) == 2)
        assert ended(hf, "o").status == "compensated"
    assert calls == ["refund 3 o/1/card/undo", "refund 3 o/1/card/undo/2"]
    assert ledger_of(hf) == ["refunded 3", "refunded 3"]


def test_an_effect_that_two_tries_vouch_for_is_undone_once(connect: Connect, tmp_path: Path) -> None:
    """One try has charged, and its promise takes long to check. The other one finds the receipt and is faster: the step
    is completed, and undone when the first one is through as well."""
    hf = connect(clock=(clock := FakeClock()))
    calls = declare_shop(hf)
    go_on = tmp_path / "go on"
    patient = f"mkdir '{tmp_path / 'first'}' || exit 0; until test -e '{go_on}'; do sleep 0.02; done"
    first = sent_twice(hf, clock, "Card.Charge")
    hf.queue(command_queue("Card.Charge"), lease="1d", commitments=[{"name": "charged", "check": patient}])
    with hf.running():
        eventually(lambda: calls == ["charge 3"])
        eventually((tmp_path / "first").exists)
        replay(hf, first)
        hf.claim("gone", wait=PATIENCE)[0].dead_letter("gone")
        assert ledger_of(hf) == ["charged 3"]
        go_on.touch()
        assert ended(hf, "o").status == "compensated"
    assert ledger_of(hf) == ["charged 3", "refunded 3"]
    assert [call.split()[0] for call in calls] == ["charge", "refund"]


def test_an_id_that_is_used_again_is_another_saga(connect: Connect) -> None:
    """The receipts of commands may outlive the saga that they were written for."""
    hf = connect(clock=(clock := FakeClock()))
    calls = declare_shop(hf)
    hf.saga("order", steps=[Step("card", "Card.Charge")], keep="1m")
    with hf.running():
        for amount in (3, 4):
            hf.start_saga("order", {"amount": amount}, id="o")
            assert ended(hf, "o").data["card"] == {"charged": amount}
            clock.advance("2m")
            hf.sagas.advance()
            eventually(lambda: hf.sagas.get("o") is None)
    assert calls == ["charge 3", "charge 4"]


def test_whoever_has_the_command_runs_it(hf: Holdfast, connect: Connect) -> None:
    """The worker was there before anyone used its command, and knows nothing of the saga."""
    worker = connect(strict=True)
    calls = declare_shop(worker)
    with worker.running():
        hf.saga("order", steps=[Step("card", command_queue("Card.Charge"), input={"amount": 3})])
        hf.start_saga("order", id="o")
        assert ended(hf, "o").status == "completed"
    assert calls == ["charge 3"]


def test_a_consumer_of_the_commands_queue_goes_first(hf: Holdfast) -> None:
    calls, seen = declare_shop(hf), []
    hf.saga("order", steps=[Step("card", "Card.Charge", input={"amount": 3})])

    @hf.consumer(command_queue("Card.Charge"))
    def mine(message: Message) -> str:
        seen.append(message.body)
        return "by hand"

    with hf.running():
        hf.start_saga("order", id="o")
        assert ended(hf, "o").data == {"card": "by hand"}
    assert (calls, seen) == ([], [{"amount": 3}])


def test_run_returns_when_the_others_have_ended(hf: Holdfast) -> None:
    declare_shop(hf)
    hf.enqueue("q", 1)
    seen: list[Any] = []

    @hf.consumer("q", empty="terminate")
    def note(message: Message) -> None:
        seen.append(message.body)

    with hf.running() as runner:
        assert runner.wait(30)
    assert seen == [1]


def test_the_asyncio_client_runs_them_too(url: str) -> None:
    async def story() -> tuple[str, Any]:
        async with AsyncHoldfast(url) as hf:

            @hf.command("Mail.Send")
            async def send(to: str) -> str:
                await asyncio.sleep(0)
                return f"sent to {to}"

            with pytest.raises(UnknownCommand, match="did you mean"):
                await hf.saga("welcome", steps=[Step("mail", "Mail.Sent")])
            await hf.saga("welcome", steps=[Step("mail", "Mail.Send", input={"to": Expression('data.name + "@b.c"')})])
            async with hf.running():
                await hf.start_saga("welcome", {"name": "a"}, id="w")
                while True:
                    found = await hf.sagas.get("w")
                    assert found is not None
                    if found.ended_at_us is not None:
                        return found.status, found.data["mail"]
                    await asyncio.sleep(0.01)

    assert asyncio.run(story()) == ("completed", "sent to a@b.c")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda: Step("card", "Card.Chrage"), "did you mean 'Card.Charge'"),
        (lambda: Step("card", "q", undo="Card.Unknown"), "there is no command 'Card.Unknown'"),
        (lambda: Step("card", "Card.Charge", input={"amont": 1}), "Card.Charge has no parameter 'amont'"),
        (lambda: Step("card", "Card.Charge", input={}), "Card.Charge needs amount"),
        (lambda: Step("card", "q", undo="Card.Refund", undo_input={}), "undo_input of the step 'card'.*needs card"),
    ],
)
def test_what_no_command_can_do_is_refused_when_it_is_declared(
    one: Holdfast, step: Callable[[], Step], problem: str
) -> None:
    declare_shop(one)
    with pytest.raises(HoldfastError, match=problem) as caught:
        one.saga("order", steps=[step()])
    assert isinstance(caught.value, UnknownCommand | InvalidInput)
    with pytest.raises(HoldfastError, match="there is no saga 'order'"):
        one.start_saga("order")
