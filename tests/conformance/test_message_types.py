"""What a message carries: sizes, types, and where to reply."""

import asyncio
from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidBody, InvalidInput, TooLarge
from tests.conformance.steps import OpenClient, claim_one, kill


@dataclass
class Order:
    id: int
    note: str = ""


class Ticket(msgspec.Struct):
    id: int


class Row(TypedDict):
    id: int


@pytest.mark.parametrize(("kind", "body"), [(Order, Order(7)), (Ticket, Ticket(7)), (Row, {"id": 7}), (int, 7)])
def test_a_typed_queue_gives_bodies_of_its_type(hf: Holdfast, kind: type, body: object) -> None:
    hf.queue("q", message_type=kind)
    hf.enqueue("q", body)
    assert hf.peek("q")[0].body == body
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


def test_what_another_program_sent_is_refused_when_it_is_read(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    rival.enqueue("q", {"id": "seven"})
    claim = claim_one(hf)
    with pytest.raises(InvalidBody, match="permanent=True"):
        _ = claim.message.body
    claim.nack("cannot read it", permanent=True)
    assert hf.dead_letters("q")[0].message.body == {"id": "seven"}


def test_other_clients_read_plain_json_and_none_forgets_the_type(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_type=Order)
    hf.enqueue("q", Order(7))
    assert rival.peek("q")[0].body == {"id": 7, "note": ""}
    hf.queue("q")
    assert claim_one(hf).message.body == {"id": 7, "note": ""}


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
    [letter] = hf.dead_letters("q")
    assert (letter.message.reply_to, letter.message.correlation_id) == ("answers", "c-1")
    assert claim_one(hf, "dead").message.body["original_message"]["reply_to"] == "answers"
    hf.replay(letter.id)
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
