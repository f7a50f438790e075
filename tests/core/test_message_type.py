"""A message type in its stored form accepts exactly what the Python type accepts, without the Python type."""

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.message_type import MessageForm, decoder_of, form_of, misfit
from holdfast.errors import InvalidInput

pytestmark = pytest.mark.unit


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag="dog", forbid_unknown_fields=True):
    name: str


class Renamed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_name: str
    is_new: bool = False


class Row(TypedDict):
    id: int
    note: NotRequired[str | None]


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)
    parent: "Tree | None" = None


@dataclass
class Order:
    id: Annotated[int, msgspec.Meta(ge=1, le=9)]
    code: Annotated[str, msgspec.Meta(pattern="^[a-c]+$", max_length=3)] = "a"
    at: Annotated[datetime, msgspec.Meta(tz=True)] | int | None = None
    colours: list[Colour] = field(default_factory=list)
    levels: dict[Level, Point] = field(default_factory=dict)
    pet: Cat | Dog | None = None


TYPES = [
    *(Any, None | int, bool, int, float, str, bytes, datetime, date, time, timedelta, UUID, Decimal),
    *(list[int], set[str], tuple[int, str], tuple[int, ...], dict[str, float], dict[int, Any]),
    *(Literal["a", "b"], Literal[1, "a", None], Colour, Level, Point, Cat | Dog, Renamed, Row, Tree, Order),
    Annotated[list[Annotated[int, msgspec.Meta(multiple_of=2)]], msgspec.Meta(min_length=1)],
]

VALUES = [
    *(None, True, 0, 2, 10, 1.5, "", "a", "b", "red", "1", "YWJj", [], [1], [2], [1, "a"], [1, 2.5], [1, 2, 3], ["a"]),
    *("2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02", "03:04:05", "PT5S"),
    *("6f1ac34f-9a3c-4c37-9d2b-1a8b4bb5cf0e", {}, {"a": 1.5}, {"1": "x"}, {"x": 1}, {"id": 1}, {"id": "1"}),
    *({"id": 1, "note": None}, {"id": 1, "note": 2}, {"id": 10}, {"id": 1, "code": "abca"}, {"id": 1, "code": "x"}),
    *({"id": 1, "at": 5}, {"id": 1, "at": "2026-01-02T03:04:05"}, {"id": 1, "at": "2026-01-02T03:04:05+01:00"}),
    *({"id": 1, "colours": ["red"]}, {"id": 1, "colours": ["green"]}, {"id": 1, "levels": {"1": [1, 2.5]}}),
    *({"id": 1, "levels": {"3": [1]}}, {"id": 1, "pet": {"type": "Cat"}}),
    *({"type": "Cat", "lives": 9}, {"type": "Cat", "lives": 9, "more": 1}, {"type": "dog", "name": "x", "more": 1}),
    *(
        {"type": "dog", "name": "x"},
        {"type": "cow"},
        {"firstName": "x"},
        {"first_name": "x"},
        {"firstName": "x", "z": 1},
    ),
    *({"value": 1}, {"value": 1, "children": [{"value": 2, "children": [{"value": "three"}]}]}),
    *({"value": 1, "parent": {"value": 2, "parent": None}}, {"value": 1, "parent": {"value": 2, "parent": {}}}),
]


def where(problem: str | None) -> str | None:
    """The path of a misfit; the words differ a little for tuples."""
    return None if problem is None else problem.partition(" - at ")[2] or "$"


def said(decoder: msgspec.json.Decoder[Any], body: bytes) -> str | None:
    try:
        decoder.decode(body)
    except msgspec.ValidationError as problem:
        return str(problem)
    return None


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_the_form_accepts_and_refuses_at_the_same_path_as_the_type(kind: Any) -> None:
    form = form_of(kind)
    assert form is not None
    stored = msgspec.json.decode(msgspec.json.encode(form), type=MessageForm)
    assert stored == form
    for value in VALUES:
        body = msgspec.json.encode(value)
        assert where(misfit(stored, body)) == where(said(msgspec.json.Decoder(kind), body)), (kind, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.floats(allow_nan=False) | st.text("abc1", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "code", "value", "children", "parent", "pet", "levels"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_the_body_is(value: Any) -> None:
    body = msgspec.json.encode(value)
    for kind in (Order, Tree, Row):
        form = form_of(kind)
        assert form is not None
        assert where(misfit(form, body)) == where(said(msgspec.json.Decoder(kind), body))


def test_a_form_is_compiled_once() -> None:
    one, other = form_of(Order), form_of(Order)
    assert one is not None
    assert other is not None
    assert one is not other
    assert decoder_of(one) is decoder_of(other)


def test_validators_are_not_part_of_the_form() -> None:
    class Even(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("odd")

    form = form_of(Even)
    assert form is not None
    assert misfit(form, b'{"n": 1}') is None
    assert misfit(form, b'{"n": "1"}') == "Expected `int`, got `str` - at `$.n`"


def test_a_kind_that_only_a_newer_holdfast_knows_is_any_json() -> None:
    assert misfit(MessageForm({"kind": "colour"}), b"[1]") is None


def test_an_enum_with_code_of_its_own_decides_for_itself() -> None:
    class Lenient(enum.Enum):
        A = "a"

        @classmethod
        def _missing_(cls, value: object) -> "Lenient":
            return cls.A

    form = form_of(Lenient)
    assert form is not None
    assert misfit(form, b'"other"') is None


@pytest.mark.parametrize("kind", [dict[int, int] | dict[str, int], "NoSuchType"])
def test_what_json_does_not_have_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="message_type"):
        form_of(kind)
