"""Names of topics and the patterns over them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidInput
from holdfast.topics.rules.routing import (
    MOST_PATTERNS,
    expression,
    is_wanted,
    matches,
    names_above,
    patterns_of,
    topic_name,
    wants_all,
)

pytestmark = pytest.mark.unit

LETTERS = "ab_%?+()[]{}|^$\\-#& ~é東🐙"
"""Few, so that names often fit; all that a regular expression or LIKE could misread is among them."""

segments = st.text(LETTERS, min_size=1, max_size=3).filter(lambda text: text == text.strip())
names = st.lists(segments, min_size=1, max_size=4).map(".".join)
patterns = st.tuples(st.lists(segments | st.just("*"), min_size=1, max_size=4), st.sampled_from([[], ["**"]])).map(
    lambda parts: ".".join([*parts[0], *parts[1]])
)


def by_hand(pattern: list[str], name: list[str]) -> bool:
    """The rule once more, one segment after the other."""
    if not pattern:
        return not name
    if pattern == ["**"]:
        return True
    return bool(name) and pattern[0] in ("*", name[0]) and by_hand(pattern[1:], name[1:])


@given(patterns, names)
def test_a_pattern_is_matched_segment_by_segment(pattern: str, name: str) -> None:
    assert matches(pattern, name) == by_hand(pattern.split("."), name.split("."))


@given(st.lists(patterns, min_size=1, max_size=4), names)
def test_the_expression_says_the_same(wanted: list[str], name: str) -> None:
    assert is_wanted(expression(wanted), name) == any(matches(one, name) for one in wanted)


@given(names, st.sampled_from(["", ".**"]))
def test_a_name_fits_itself_and_with_the_rest_left_open(name: str, rest: str) -> None:
    assert matches(name + rest, name)
    assert is_wanted(expression([name + rest]), name)


@given(names, names)
def test_a_name_fits_no_other_name(one: str, other: str) -> None:
    assert is_wanted(expression([one]), other) == (one == other)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("orders.*", "orders.created", True),
        ("orders.*", "orders", False),
        ("orders.*", "orders.eu.created", False),
        ("orders.**", "orders", True),
        ("orders.**", "orders.eu.created", True),
        ("orders.**", "orders2.created", False),
        ("orders.*.created", "orders.eu.created", True),
        ("orders.*.created", "orders.eu.north.created", False),
        ("orders.*.**", "orders", False),
        ("orders.*.**", "orders.eu.north", True),
        ("orders._u", "orders.eu", False),
        ("orders.%", "orders.eu", False),
        ("orders.e.", "orders.eu", False),
        ("orders.(eu|us)", "orders.eu", False),
        ("orders.Eu", "orders.eu", False),
    ],
)
def test_what_fits_what(pattern: str, name: str, fits: bool) -> None:
    assert (matches(pattern, name), is_wanted(expression([pattern]), name)) == (fits, fits)


def test_an_expression_holds_for_the_whole_name() -> None:
    assert not is_wanted(expression(["orders.eu"]), "new.orders.eu")
    assert not is_wanted(expression(["orders.eu", "orders.us"]), "orders.us.more")


@given(names)
def test_names_above_are_all_the_beginnings(name: str) -> None:
    above = names_above(name)
    assert len(above) == name.count(".")
    assert all(name.startswith(one + ".") for one in above)
    assert above == sorted(above, key=len)


@given(names)
def test_a_name_of_segments_is_a_name(name: str) -> None:
    assert topic_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a/b", " a", "a.*", "**", "a*", "x" * 201, None, 7])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match=r"^what "):
        topic_name(name, "what")  # type: ignore[arg-type]


def test_who_does_not_say_wants_everything() -> None:
    assert patterns_of("orders", None) == ("orders.**",)
    assert wants_all("orders", patterns_of("orders", None))
    assert wants_all("orders", ["orders.eu", "orders.**"])
    assert not wants_all("orders", ["orders.*", "orders.*.**"])


def test_patterns_are_kept_once_and_in_order() -> None:
    assert patterns_of("a", ["a.c", "a.b", "a.c"]) == ("a.c", "a.b")
    assert patterns_of("a", "a.b") == ("a.b",)
    assert patterns_of("a", (one for one in ["a", "a.*"])) == ("a", "a.*")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ([], "must be a list"),
        (7, "must be a list"),
        ([7], "must be a name"),
        ("b.*", "does not begin with 'a'"),
        ("ab", "does not begin with 'a'"),
        ("*", "does not begin with 'a'"),
        ("a.b*", "a whole segment"),
        ("a.***", "a whole segment"),
        ("a.**.b", "only be at the end"),
        ("a..b", "empty segment"),
        ("a.", "empty segment"),
        ("a/b", "slashes"),
        ([f"a.{n}" for n in range(MOST_PATTERNS + 1)], "100 patterns, not 101"),
    ],
)
def test_what_is_no_pattern_is_refused(wanted: object, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)):
        patterns_of("a", wanted)  # type: ignore[arg-type]
