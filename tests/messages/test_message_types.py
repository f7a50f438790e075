"""What a message carries: sizes, types, and where to reply."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import msgspec
import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidBody, InvalidInput, Step, TooLarge
from holdfast.client.client import internals
from holdfast.core.message_type import form_of
from tests.client.test_conn import of_the_driver, roll_back
from tests.clock import FakeClock
from tests.steps import OpenClient, claim_one, kill

pytestmark = pytest.mark.of_queues


@dataclass
class Order:
    id: int
    note: str = ""


class Ticket(msgspec.Struct):
    id: int


class Row(TypedDict):
    id: int


class OriginalOrder(TypedDict):
    body: Row


class OfOrders(TypedDict):
    original_message: OriginalOrder


class Copy(TypedDict):
    original_message: dict[str, Any]
    error: str
    attempts: int


class Even(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


@pytest.mark.parametrize(("kind", "body"), [(Order, Order(7)), (Ticket, Ticket(7)), (Row, {"id": 7}), (int, 7)])
def test_a_typed_queue_gives_bodies_of_its_type(hf: Holdfast, kind: type, body: object) -> None:
    hf.queue("q", message_type=kind)
    hf.enqueue("q", body)
    assert hf.queues.peek("q")[0].body == body
    assert claim_one(hf).message.body == body


def test_a_dict_that_fits_is_as_good(hf: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    hf.enqueue("q", {"id": 7})
    assert claim_one(hf).message.body == Order(7, "")


def test_a_body_that_does_not_fit_is_refused_with_the_reason(hf: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    with pytest.raises(InvalidInput, match=r"does not fit the message type of 'q'.*`\$\.id`"):
        hf.enqueue_many("q", [{"id": 7}, {"id": "seven"}])
    assert hf.stats("q").pending == 0


def test_other_clients_read_plain_json_and_none_forgets_the_type(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    hf.enqueue("q", Order(7))
    assert rival.queues.peek("q")[0].body == {"id": 7, "note": ""}
    hf.queue("q", message_type=None)
    assert claim_one(hf).message.body == {"id": 7, "note": ""}
    hf.enqueue("q", "anything")


# --- every producer ---------------------------------------------------------------------------------------------------

WRONG = {"id": "seven"}
MISFIT = r"does not fit the message type of 'q': Expected `int`, got `str` - at `\$\.id`"


@pytest.mark.parametrize("options", [{}, {"delay": 60}, {"key": "k", "headers": {"h": 1}}], ids=str)
def test_a_client_without_the_python_type_enforces_it(hf: Holdfast, rival: Holdfast, options: dict[str, Any]) -> None:
    hf.queue("q", message_type=Order, ordering="per_key")
    for put in (
        lambda: rival.enqueue("q", WRONG, **options),
        lambda: rival.enqueue_many("q", [{"id": 1}, WRONG], **options),
        lambda: rival.acting_as("anna").enqueue("q", WRONG, **options),
    ):
        with pytest.raises(InvalidInput, match=MISFIT):
            put()
    rival.enqueue("q", {"id": 7}, **options)
    stats = hf.stats("q")
    assert stats.pending + stats.waiting == 1


def test_producers_of_every_kind_enforce_it(hf: Holdfast, rival: Holdfast, url: str) -> None:
    hf.topic("q", mode="queue", message_type=Order)
    with pytest.raises(InvalidInput, match=MISFIT):
        rival.publish("q.eu", WRONG)
    with pytest.raises(InvalidInput, match=MISFIT):
        rival.ask("q", WRONG)
    with pytest.raises(InvalidInput, match=MISFIT):
        rival.schedule("nightly", queue="q", body=WRONG, every="1d")
    with of_the_driver(url) as conn:
        with pytest.raises(InvalidInput, match=MISFIT):
            rival.enqueue("q", WRONG, conn=conn)
        roll_back(conn)
    assert (hf.stats("q").pending, hf.schedules.list()) == (0, [])


def test_asyncio_enforces_it(hf: Holdfast, url: str) -> None:
    hf.queue("q", message_type=Order)

    async def main() -> None:
        async with AsyncHoldfast(url) as other:
            with pytest.raises(InvalidInput, match=MISFIT):
                await other.enqueue("q", WRONG)

    asyncio.run(main())
    assert hf.stats("q").pending == 0


def test_a_replay_with_another_body_enforces_it(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    dead = kill(hf, body={"id": 7})
    for client in (rival, hf):
        with pytest.raises(InvalidInput, match=MISFIT):
            client.dead_letters.replay(dead, body=WRONG)
    rival.dead_letters.replay(dead, body={"id": 8})
    assert claim_one(hf).message.body == Order(8)


def test_a_change_elsewhere_is_enforced_when_settings_are_looked_at_again(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings are trusted for a second; then every client looks."""
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 0.0)
    hf.queue("q", message_type=Order)
    rival.enqueue("q", {"id": 1})
    rival.queue("q", message_type=Ticket | int)
    hf.enqueue("q", 5)
    with pytest.raises(InvalidInput, match="does not fit"):
        hf.enqueue("q", "five")
    rival.queue("q", message_type=None)
    hf.enqueue("q", "five")
    assert hf.stats("q").pending == 3


def test_validators_run_where_the_python_type_is_declared(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Even)
    with pytest.raises(InvalidInput, match=r"does not fit the message type of 'q': 7 is odd"):
        hf.enqueue("q", {"n": 7})
    rival.enqueue("q", {"n": 7})
    assert hf.claim("q") == []
    [letter] = hf.dead_letters.list("q")
    assert "7 is odd" in letter.error
    with pytest.raises(InvalidInput, match="9 is odd"):
        hf.dead_letters.replay(letter.id, body={"n": 9})
    rival.enqueue("q", {"n": 7})
    assert claim_one(rival).message.body == {"n": 7}


def test_the_type_is_a_setting_that_is_stored_with_the_queue(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    found = internals(rival).store.channels.find("default", "q")
    assert found is not None
    assert found.spec.message_type == form_of(Order)


# --- what waits already -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 1], ids=["lane", "row"])
def test_waiting_messages_that_do_not_fit_die_when_they_are_claimed(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, delay: int
) -> None:
    for body in ({"id": 1}, WRONG, {"id": 2}, "text", {"id": 3}):
        hf.enqueue("q", body, delay=delay)
    clock.advance(delay)
    hf.queue("q", message_type=Order, owner="mia")
    assert hf.stats("q").pending == 5
    assert sorted(claim.message.body["id"] for claim in rival.claim("q", n=10)) == [1, 2, 3]
    letters = {str(letter.message.body): letter for letter in rival.dead_letters.list("q")}
    assert "Expected `int`, got `str` - at `$.id`" in letters.pop(str(WRONG)).error
    assert "Expected `object`, got `str`" in letters.pop("text").error
    assert letters == {}
    assert len(rival.notices.list(owner="mia")) == 2


def test_only_misfits_in_front_do_not_end_the_look(hf: Holdfast) -> None:
    hf.enqueue_many("q", [WRONG] * 5)
    hf.enqueue("q", {"id": 7})
    hf.queue("q", message_type=Order)
    assert [claim.message.body for claim in hf.claim("q")] == [Order(7)]
    assert hf.dead_letters.count("q") == 5


def test_a_client_with_an_older_python_type_says_so_when_it_reads(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 0.0)
    hf.queue("q", message_type=Order)
    rival.queue("q", message_type=Row | str)
    rival.enqueue("q", "text")
    claim = claim_one(hf)
    with pytest.raises(InvalidBody, match="permanent=True"):
        _ = claim.message.body


# --- what Holdfast writes itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["queue", "group", "target"])
def test_a_dead_letter_queue_that_no_copy_fits_is_refused_when_it_is_declared(hf: Holdfast, first: str) -> None:
    hf.topic("t")
    if first != "target":
        hf.queue("dead", message_type=Order)
        declare = partial(hf.queue, "q") if first == "queue" else partial(hf.subscribe, "t", "a")
        with pytest.raises(InvalidInput, match=r"cannot be copied to 'dead', .*required field `id`"):
            declare(dead_letter="dead")
        assert hf.queues.list() == ["dead"]
        assert hf.groups.list("t") == []
        return
    hf.queue("q", dead_letter="dead")
    with pytest.raises(InvalidInput, match=r"dead letters of 'q' cannot be copied to 'dead'"):
        hf.queue("dead", message_type=Order)
    assert hf.queues.list() == ["q"]


def test_a_copy_that_fits_its_queue_is_told_as_ever(hf: Holdfast) -> None:
    hf.queue("dead", message_type=Copy)
    hf.queue("q", dead_letter="dead")
    kill(hf)
    assert claim_one(hf, "dead").message.body["attempts"] == 1
    assert [notice.kind for notice in hf.notices.list()] == ["dead_letter"]


def test_a_copy_that_does_not_fit_is_written_with_a_notice(hf: Holdfast, rival: Holdfast) -> None:
    """What stands in the original message differs from one to the next, so it cannot be checked before."""
    hf.queue("dead", message_type=OfOrders)
    hf.queue("q", dead_letter="dead")
    kill(hf, body={"id": 7})
    assert claim_one(rival, "dead").message.body["original_message"]["body"] == {"id": 7}
    kill(hf, body="text")
    assert hf.dead_letters.count("q") == 2
    assert hf.stats("dead").pending == 1
    [notice] = [one for one in hf.notices.list() if one.kind == "unfit_copy"]
    assert notice.queue == "q"
    assert "$.original_message.body" in notice.error
    assert rival.claim("dead") == []
    [letter] = hf.dead_letters.list("dead")
    assert "$.original_message.body" in letter.error


def test_a_step_of_a_saga_that_does_not_fit_fails_and_the_saga_is_undone(hf: Holdfast) -> None:
    hf.queue("pay", message_type=Order)
    hf.saga("buy", steps=[Step("reserve", "reserve", undo="free"), Step("pay", "pay")])
    hf.start_saga("buy", {"what": "shoes"})
    claim_one(hf, "reserve").ack({"ok": True})
    assert hf.claim("pay") == []
    assert len(hf.dead_letters.list("pay")) == 1
    assert len(hf.claim("free")) == 1


def test_a_type_that_json_does_not_have_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="message_type"):
        hf.queue("q", message_type=dict[int, int] | dict[str, int])


def test_a_message_may_have_a_megabyte_and_not_a_byte_more(hf: Holdfast) -> None:
    hf.enqueue("q", "x" * (1_048_576 - 2))
    with pytest.raises(TooLarge, match="a message of 1048577 bytes"):
        hf.enqueue("q", "x" * (1_048_576 - 1))
    assert hf.stats("q").pending == 1


def test_headers_count_and_a_batch_is_refused_whole(hf: Holdfast) -> None:
    hf.queue("q", max_size=20)
    hf.enqueue("q", "1234567890", headers={"a": 1})
    with pytest.raises(TooLarge, match=r"hf\.queue\('q', max_size=…\)"):
        hf.enqueue_many("q", ["fits", "12345678901234567"], headers={"a": 1})
    assert hf.stats("q").pending == 1


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "1MB", 2**40])
def test_a_size_that_makes_no_sense_is_refused(hf: Holdfast, size: object) -> None:
    with pytest.raises(InvalidInput, match="max_size"):
        hf.queue("q", max_size=size)


@pytest.mark.parametrize("delay", [0, 1])
def test_reply_to_is_carried_along(hf: Holdfast, delay: int, client: OpenClient) -> None:
    hf.queue("q", dead_letter="dead")
    kill(hf, reply_to="answers", correlation_id="c-1")
    [letter] = hf.dead_letters.list("q")
    assert (letter.message.reply_to, letter.message.correlation_id) == ("answers", "c-1")
    assert claim_one(hf, "dead").message.body["original_message"]["reply_to"] == "answers"
    hf.dead_letters.replay(letter.id)
    assert claim_one(hf).message.reply_to == "answers"


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", 7, "x" * 501])
def test_a_reply_to_that_cannot_be_kept_is_refused(hf: Holdfast, bad: object) -> None:
    with pytest.raises(InvalidInput, match="reply_to"):
        hf.enqueue("q", "work", reply_to=bad)


def test_types_and_ttl_are_there_for_asyncio_too(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            await hf.queue("q", message_type=Order, max_age="1h", max_size=100)
            await hf.enqueue("q", Order(7), ttl=60, reply_to="answers")
            [claim] = await hf.claim("q")
            assert (claim.message.body, claim.message.reply_to) == (Order(7), "answers")
            with pytest.raises(InvalidInput):
                await hf.enqueue("q", {"id": "x"})

    asyncio.run(main())
