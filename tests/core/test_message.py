"""Messages: ids, lazy bodies, JSON."""

import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import InvalidInput, Message
from holdfast.core.message import encode_json, id_bytes, id_text

pytestmark = pytest.mark.unit

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def message(body: bytes = b"null", headers: bytes | None = None) -> Message:
    return Message(bytes(range(16)), 9, body, headers, "k", "c", "r", None, None, 5)


@given(st.binary(min_size=16, max_size=16))
def test_an_id_goes_to_text_and_back(raw: bytes) -> None:
    assert id_bytes(id_text(raw)) == raw
    assert id_text(raw) == str(uuid.UUID(bytes=raw))


def test_an_id_is_read_in_every_usual_form() -> None:
    raw = bytes(range(240, 256))
    assert id_bytes(id_text(raw).upper()) == raw
    assert id_bytes(raw.hex()) == raw


@pytest.mark.parametrize("refused", ["", "x", "01890a5d", "z" * 32, "0" * 31, "0" * 33, None, 5, b"0" * 32], ids=repr)
def test_what_is_no_id_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput, match="is not a message id"):
        id_bytes(refused)  # type: ignore[arg-type]


@settings(max_examples=50)
@given(JSON)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    assert message(encode_json(value)).body == value


def test_a_body_is_decoded_when_it_is_first_read() -> None:
    broken = message(b"{not json")
    assert broken.id == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    with pytest.raises(msgspec.DecodeError):
        _ = broken.body


def test_a_body_is_decoded_once() -> None:
    one = message(b'{"a": [1, 2]}', b'{"b": 3}')
    assert one.body is one.body
    assert one.headers is one.headers


def test_a_body_of_null_is_none() -> None:
    assert message(b"null").body is None


def test_no_headers_are_an_empty_dict() -> None:
    assert message().headers == {}
    assert message(headers=b'{"trace": "1"}').headers == {"trace": "1"}


def test_the_priority_is_that_of_the_lane() -> None:
    assert message().priority == 1


def test_a_message_shows_its_size_and_never_its_body() -> None:
    text = repr(message(b'{"password": "secret"}'))
    assert "secret" not in text
    assert "22 bytes" in text


@pytest.mark.parametrize(
    "refused",
    [object(), {"a": [1, object()]}, "\ud800", {"\udfff": 1}, {None: 1}, 1j],
    ids=["object", "object inside", "surrogate", "surrogate as key", "null as key", "complex"],
)
def test_what_json_cannot_say_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput, match="body cannot be written as JSON"):
        encode_json(refused)


@dataclass
class Measurement:
    value: float


@pytest.mark.parametrize(
    "refused", [float("nan"), float("inf"), [1.0, {"a": -float("inf")}], [Measurement(float("nan"))]], ids=repr
)
def test_a_number_that_json_lacks_is_refused_rather_than_turned_into_null(refused: object) -> None:
    with pytest.raises(InvalidInput):
        encode_json(refused)


def test_nesting_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="headers cannot be written as JSON"):
        encode_json(endless, "headers")


def test_deep_nesting_is_written_or_refused_and_nothing_else() -> None:
    for depth in range(100, 1100, 10):
        body: list[Any] = [None]
        for _ in range(depth):
            body = [body]
        try:
            raw = encode_json(body)
        except InvalidInput:
            continue
        assert raw == b"[" * (depth + 1) + b"null" + b"]" * (depth + 1)


def test_the_error_names_what_could_not_be_written() -> None:
    with pytest.raises(InvalidInput, match=r"^headers cannot"):
        encode_json(object(), "headers")
