"""Durations as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidInput
from holdfast.core.duration import micros, seconds

pytestmark = pytest.mark.unit

CENTURY = 100 * 365 * 86400


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (5, 5.0),
        (0.25, 0.25),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1h 30m 5s", 5405.0),
        ("1d", 86400.0),
        ("2w", 1209600.0),
        (CENTURY, float(CENTURY)),
    ],
)
def test_a_duration_is_read_as_seconds(written: int | float | str, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)


def test_seconds_are_always_a_float() -> None:
    assert isinstance(seconds(5), float)


@pytest.mark.parametrize(
    "refused",
    [-1, -0.001, float("nan"), float("inf"), -float("inf"), CENTURY + 1, 10**400, "9" * 400 + "s"],
)
def test_a_number_that_is_negative_or_endless_is_refused(refused: int | float | str) -> None:
    with pytest.raises(InvalidInput, match="between 0 seconds and 100 years"):
        seconds(refused)


@pytest.mark.parametrize("refused", ["", " ", "5", "5 minutes", "m5", "-5s", "5x", "5s5", "1e3s", "PT5M", "5s,3m"])
def test_text_that_cannot_be_read_is_refused(refused: str) -> None:
    with pytest.raises(InvalidInput, match="is not a duration"):
        seconds(refused)


@pytest.mark.parametrize("refused", [None, True, False, [], {}, b"5s", object()])
def test_what_is_neither_number_nor_text_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput, match="must be seconds or text"):
        seconds(refused)  # type: ignore[arg-type]


def test_the_error_names_the_setting() -> None:
    with pytest.raises(InvalidInput, match=r"^lease must be"):
        seconds(-1, "lease")


def test_micros_keep_fractions_of_a_second() -> None:
    assert micros(0.000_001) == 1
    assert micros("1ms") == 1_000
    assert micros(1.25) == 1_250_000
    assert isinstance(micros(2), int)


@given(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "h"]))
def test_text_and_number_agree(count: int, unit: str) -> None:
    factor = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}[unit]
    try:
        read = micros(f"{count}{unit}")
    except InvalidInput:
        assert count * factor > CENTURY * 1_000_000
    else:
        assert read == count * factor
