"""What a dead letter keeps."""

import json

import pytest

from holdfast import Failure, InvalidInput, Message
from holdfast.core.dead_letter import (
    ERROR_LIMIT,
    HISTORY_LIMIT,
    ErrorText,
    add_to_history,
    envelope,
    read_history,
    trouble_of,
)

pytestmark = pytest.mark.unit


def history_of(*errors: str) -> bytes | None:
    raw = None
    for number, error in enumerate(errors, start=1):
        raw = add_to_history(raw, Failure(number, "w", error), number * 100)
    return raw


def test_no_history_is_an_empty_list() -> None:
    assert read_history(None) == []
    assert read_history(b"") == []


def test_a_line_has_attempt_worker_error_and_time() -> None:
    raw = add_to_history(None, Failure(3, "host:1", "boom"), 42)
    assert read_history(raw) == [Failure(3, "host:1", "boom", at_us=42)]


def test_lines_are_oldest_first() -> None:
    assert [line.error for line in read_history(history_of("a", "b", "c"))] == ["a", "b", "c"]


def test_only_the_last_twenty_are_kept() -> None:
    lines = read_history(history_of(*(f"error {number}" for number in range(1, 51))))
    assert HISTORY_LIMIT == 20
    assert [line.attempt for line in lines] == list(range(31, 51))


def test_a_long_error_is_cut_and_keeps_both_ends() -> None:
    [line] = read_history(history_of("start" + "x" * 100_000 + "the end"))
    assert line.error.startswith("start")
    assert " … " in line.error
    assert line.error.endswith("the end")
    assert len(line.error) == ERROR_LIMIT


def test_an_error_within_the_limit_is_kept_whole() -> None:
    [line] = read_history(history_of("x" * ERROR_LIMIT))
    assert line.error == "x" * ERROR_LIMIT


def test_an_error_that_is_no_utf8_is_kept_as_far_as_possible() -> None:
    [line] = read_history(history_of("file \udcff.txt is missing"))
    assert line.error == "file ?.txt is missing"


def test_the_envelope_has_the_promised_fields() -> None:
    message = Message(
        bytes(16), 9, b'{"to":"a@b.c","n":[1,2]}', b'{"trace":"t"}', "key", "corr", "answers", "orders.eu", None, 7
    )
    sent = json.loads(envelope("the-id", "emails", message, "boom", 5, 99))
    assert sent == {
        "original_message": {
            "id": "the-id",
            "queue": "emails",
            "body": {"to": "a@b.c", "n": [1, 2]},
            "headers": {"trace": "t"},
            "priority": 1,
            "key": "key",
            "correlation_id": "corr",
            "reply_to": "answers",
            "topic": "orders.eu",
            "enqueued_at": "1970-01-01T00:00:00.000007Z",
        },
        "failed_at": "1970-01-01T00:00:00.000099Z",
        "error": "boom",
        "attempts": 5,
    }


def test_an_envelope_can_carry_any_error_text() -> None:
    message = Message(bytes(16), 9, b"null", None, None, None, None, None, None, 0)
    sent = json.loads(envelope("the-id", "emails", message, "file \udcff.txt", 1, 0))
    assert sent["error"].startswith("file ")


def test_text_is_kept_as_it_is() -> None:
    assert trouble_of("it broke") == ErrorText("it broke")


def test_an_exception_is_kept_as_a_sentence_and_a_traceback() -> None:
    def handler() -> None:
        raise KeyError("order 7")

    with pytest.raises(KeyError) as caught:
        handler()
    found = trouble_of(caught.value)
    assert found.error == "KeyError: 'order 7'"
    assert found.traceback is not None
    assert found.traceback.startswith("Traceback")
    assert "in handler" in found.traceback
    assert found.traceback.endswith("KeyError: 'order 7'")
    assert trouble_of(f"{found.traceback}\n") == found, "as text it is the same"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not a word")


def _syntax_error() -> SyntaxError:
    with pytest.raises(SyntaxError) as caught:
        compile("a b", "spec.py", "exec")
    return caught.value


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (ValueError("no"), "ValueError: no"),
        (RuntimeError(), "RuntimeError"),
        (InvalidInput("7 is odd"), "holdfast.errors.InvalidInput: 7 is odd"),
        (ValueError("\n first\nsecond\n"), "ValueError: first\nsecond"),
        (_syntax_error(), "SyntaxError: invalid syntax (spec.py, line 1)"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
        (Mute(), "tests.core.test_dead_letter.Mute: <exception str() failed>"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_sentence_of_an_exception_comes_first(problem: BaseException, sentence: str) -> None:
    assert trouble_of(problem).error == sentence


def test_of_a_long_traceback_the_end_is_kept() -> None:
    found = trouble_of(ValueError("x" * 100_000 + "the end"))
    assert found.error.startswith("ValueError: xxx")
    assert found.traceback is not None
    assert found.traceback.endswith("the end")
    assert len(found.traceback) == ERROR_LIMIT + 1


@pytest.mark.parametrize("refused", [None, 5, b"bytes", ["list"], ValueError], ids=repr)
def test_what_is_no_error_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput, match="text or an exception"):
        trouble_of(refused)
