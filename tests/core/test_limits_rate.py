"""Reading how many per time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import MOST, Rate, rate
from holdfast.errors import InvalidInput

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (100, Rate(100, 1.0)),
        ("100/s", Rate(100, 1.0)),
        ("5/m", Rate(5, 60.0)),
        ("7/h", Rate(7, 3600.0)),
        ("10/30s", Rate(10, 30.0)),
        (" 10 / 30s ", Rate(10, 30.0)),
        ("1/1ms", Rate(1, 0.001)),
        (Rate(3, 2.0), Rate(3, 2.0)),
        (MOST, Rate(MOST, 1.0)),
    ],
    ids=str,
)
def test_rates_are_read(text: Any, read: Rate) -> None:
    assert rate(text) == read


@pytest.mark.parametrize(
    "refused",
    [
        *(0, -1, MOST + 1, 1.5, True, None, [], {}, b"5/m"),
        *("", "5", "5/", "/m", "/", "0/s", "-5/m", "1.5/m", "5/0s", "5/-1s", "5/x", "5/m/s", "5 per minute", "٥x/m"),
        *("9" * 13 + "/s", f"{MOST + 1}/s", "1e3/s"),
    ],
    ids=repr,
)
def test_anything_else_is_refused(refused: Any) -> None:
    with pytest.raises(InvalidInput, match="max_rate"):
        rate(refused, "max_rate")


@given(st.text(max_size=12) | st.from_regex(r"\A[0-9]{1,4}/[0-9]{0,3}[a-z]{0,2}\Z"))
def test_any_text_is_a_rate_or_refused(text: str) -> None:
    try:
        read = rate(text)
    except InvalidInput:
        return
    assert 1 <= read.count <= MOST
    assert read.per >= 0.001
