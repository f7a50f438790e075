"""What consumers are, and what queues require of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.labels import LONGEST, MOST_LABELS, labels, missing
from holdfast.errors import InvalidInput

pytestmark = pytest.mark.unit

texts = st.text("abc=", min_size=1, max_size=3)
some = st.dictionaries(texts, texts, max_size=4)


def test_texts_are_labels() -> None:
    given_ones = {"tier": "haiku", "GPU": "ja", "x" * LONGEST: "ü" * LONGEST}
    assert labels(given_ones) == given_ones
    assert labels({}) == {}


@pytest.mark.parametrize(
    "refused",
    [
        None,
        [],
        "tier=haiku",
        {"tier": ""},
        {"": "haiku"},
        {"tier": 1},
        {1: "haiku"},
        {"tier": None},
        {"tier": "a\nb"},
        {"tier": "a\x00"},
        {"tier": "x" * (LONGEST + 1)},
        {str(number): "x" for number in range(MOST_LABELS + 1)},
    ],
    ids=repr,
)
def test_anything_else_is_refused(refused: Any) -> None:
    with pytest.raises(InvalidInput, match="requires must"):
        labels(refused, "requires")


def test_what_is_missing_is_named() -> None:
    required = {"tier": "opus", "gpu": "yes"}
    assert missing({"tier": "haiku", "gpu": "yes"}, required) == {"tier": "opus"}
    assert missing({}, required) == required
    assert missing({"tier": "opus", "gpu": "yes", "more": "x"}, required) == {}


@given(has=some, requires=some)
def test_nothing_is_missing_when_all_of_it_is_there(has: dict[str, str], requires: dict[str, str]) -> None:
    assert (missing(has, requires) == {}) == (requires.items() <= has.items())
    assert missing({**has, **requires}, requires) == {}
