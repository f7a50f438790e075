"""What is said of the specs in `golden/`, to the letter."""

import pytest

from holdfast.spec.check import check_reading
from holdfast.spec.printer import format_reading
from holdfast.spec.reading import read_text
from tests.spec.golden import GOLDEN, NAMES, diagnostics, model, text_of, vocabulary

SOUND = ("everything", "seed")


@pytest.mark.parametrize("name", NAMES)
def test_diagnostics_are_as_expected(name: str) -> None:
    assert diagnostics(name) == (GOLDEN / f"{name}.expected").read_text()


@pytest.mark.parametrize("name", SOUND)
def test_the_model_is_as_expected(name: str) -> None:
    assert model(name) == (GOLDEN / f"{name}.json").read_text()


@pytest.mark.parametrize("name", SOUND)
def test_sound_ones_have_no_error(name: str) -> None:
    assert [one for one in check_reading(read_text(text_of(name))) if one.severity == "error"] == []


@pytest.mark.parametrize("name", SOUND)
def test_formatting_changes_no_meaning_and_nothing_the_second_time(name: str) -> None:
    reading = read_text(text_of(name))
    formatted = format_reading(reading)
    again = read_text(formatted)
    assert again.spec == reading.spec
    assert format_reading(again) == formatted
    assert [comment.text for comment in again.comments] == [comment.text for comment in reading.comments]


def test_everything_is_in_its_canonical_form() -> None:
    assert format_reading(read_text(text_of("everything"))) == text_of("everything")


def test_everything_has_every_word_of_the_language() -> None:
    written = set(text_of("everything").replace(":", " ").split())
    assert sorted(vocabulary() - written) == sorted(OTHER_NAMES)


OTHER_NAMES = {"max_age_seconds", "dead_letter_queue", "secret_env"}
"""Words that the seed's file has."""
