"""Whatever a spec says: as text and as JSON it says the same, and no text is too strange to be read."""

import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.spec.check import check, check_reading
from holdfast.spec.model import Spec, from_json, to_json
from holdfast.spec.printer import format_reading
from holdfast.spec.reading import read_text
from holdfast.spec.shapes import Shape, read_shape
from holdfast.spec.writing import to_text
from tests.spec.golden import NAMES, text_of
from tests.spec.strategies import gibberish, shapes, specs

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=60, suppress_health_check=SLOW, deadline=None)
@given(specs)
def test_model_to_text_to_model(spec: Spec) -> None:
    text = to_text(spec)
    reading = read_text(text)
    assert reading.problems == [], text
    assert reading.spec == spec, text
    assert format_reading(reading) == text


@settings(max_examples=40, suppress_health_check=SLOW, deadline=None)
@given(specs)
def test_model_to_json_to_model(spec: Spec) -> None:
    assert from_json(to_json(spec)) == spec


@settings(max_examples=40, suppress_health_check=SLOW, deadline=None)
@given(specs)
def test_any_model_can_be_checked(spec: Spec) -> None:
    check(spec, environ={}, commands=[], consumers=[])


@given(shapes)
def test_type_to_text_to_type(shape: Shape) -> None:
    assert read_shape(str(shape)) == shape


def assert_readable(text: str) -> None:
    started = time.thread_time()
    reading = read_text(text)
    for finding in check_reading(reading, environ={}, commands=[]):
        reading.source.show(finding.problem())
    if reading.is_whole:
        formatted = format_reading(reading)
        again = read_text(formatted)
        assert again.is_whole
        assert again.spec == reading.spec
        assert format_reading(again) == formatted
        assert len(again.comments) == len(reading.comments)
    assert time.thread_time() - started < 10


@settings(max_examples=200, deadline=None)
@given(gibberish)
def test_gibberish_is_read_to_its_end(text: str) -> None:
    assert_readable(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NAMES).map(text_of), st.data())
def test_a_damaged_spec_is_read_to_its_end(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        until = min(len(text), at + data.draw(st.integers(0, 20)))
        text = text[:at] + data.draw(gibberish) + text[until:]
    assert_readable(text)


def test_deep_and_long_texts_are_read_in_time() -> None:
    for text in (
        "app A { queue q { message_type { a: " + "list<" * 5_000,
        "app A { schedule s { queue: q body: " + "[" * 10_000,
        "app A { schedule s { queue: q body: " + "{ a: " * 4_000,
        "app A { webhook w { filter: " + "(" * 10_000,
        "app A { webhook w { filter: " + "a && " * 10_000,
        "{" * 20_000,
        "}" * 20_000,
        "app A { " * 4_000,
        "app A {\n" + "queue q { ordering: fifo }\n" * 4_000 + "}",
        "app A {\n" + "".join(f"queue q{n} {{ map_to: command A.B {{ a: a }} }}\n" for n in range(1_000)) + "}",
        "x: \n" * 20_000,
    ):
        assert_readable(text)
