"""What SQS gets to see of a message, and what it is called there."""

import pytest

from holdfast.core.message import MessageId
from holdfast.errors import InvalidInput
from holdfast.sqs.rules.names import LONGEST, is_fifo, made_name, sqs_name, sqs_prefix
from holdfast.sqs.rules.pointer import Pointer, read_pointer

pytestmark = pytest.mark.unit

ID = MessageId(bytes(range(16)))


def test_a_pointer_is_an_id_and_a_generation_in_ascii() -> None:
    text = Pointer(ID, 12).text()
    assert text == "00010203-0405-0607-0809-0a0b0c0d0e0f.12"
    assert text.isascii()
    assert read_pointer(text) == Pointer(ID, 12)


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", "{}", "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f."),
        *("00010203-0405-0607-0809-0a0b0c0d0e0f.0", "00010203-0405-0607-0809-0a0b0c0d0e0f.-1"),
        *("00010203-0405-0607-0809-0a0b0c0d0e0f.1\n", " 00010203-0405-0607-0809-0a0b0c0d0e0f.1"),
        *("00010203040506070809-0a0b0c0d0e0f.1", "00010203-0405-0607-0809-0A0B0C0D0E0F.1"),
        *("00010203-0405-0607-0809-0a0b0c0d0e0f.1٣", "00010203-0405-0607-0809-0a0b0c0d0e0f." + "9" * 19, None, 7),
    ],
)
def test_nothing_else_is_a_pointer(text: object) -> None:
    assert read_pointer(text) is None


def test_plain_names_stay_as_they_are() -> None:
    assert made_name("holdfast-", "default", "emails") == "holdfast-emails"
    assert made_name("", "default", "a_B-9") == "a_B-9"


@pytest.mark.parametrize(
    ("tenant", "queue"),
    [
        *[("default", "a.b"), ("default", "a b"), ("default", "ä"), ("acme", "emails"), ("a", "b_c"), ("a_b", "c")],
        *[("default", "x" * 200), ("t" * 200, "x" * 200), ("default", "a-b.fifo")],
    ],
)
def test_every_name_can_be_one_of_sqs(tenant: str, queue: str) -> None:
    name = made_name("holdfast-", tenant, queue)
    assert sqs_name("sqs_queue", name) == name
    assert len(name) <= LONGEST
    assert not is_fifo(name)


def test_alike_names_are_told_apart() -> None:
    names = [("default", "a.b"), ("default", "a b"), ("default", "a-b"), ("a", "b_c"), ("a_b", "c"), ("b", "c")]
    assert len({made_name("", tenant, queue) for tenant, queue in names}) == len(names)


@pytest.mark.parametrize(
    "name", ["emails", "emails.fifo", "a_B-9", "https://sqs.eu-central-1.amazonaws.com/123456789012/emails.fifo"]
)
def test_names_and_urls_of_sqs_are_taken(name: str) -> None:
    assert sqs_name("sqs_queue", name) == name


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a.b", ".fifo", "x" * 81, "ftp://a/b", "http://", "https://user:secret@host/1/q", "a\n", None, 7, "ä"],
)
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="sqs_queue must be the name of an SQS queue"):
        sqs_name("sqs_queue", name)


@pytest.mark.parametrize("prefix", ["a.b", "x" * 31, None, 7])
def test_a_prefix_is_part_of_a_name(prefix: object) -> None:
    with pytest.raises(InvalidInput, match="sqs_prefix"):
        sqs_prefix(prefix)
