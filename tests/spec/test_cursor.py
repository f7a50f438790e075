"""One way through the tokens for all parsers: comments are passed over, problems kept, depth limited."""

from contextlib import ExitStack

import pytest

from holdfast.core.expressions.cursor import DEEPEST, Lost, TokenCursor
from holdfast.core.expressions.source import Source, Span


def test_tokens_come_one_by_one_without_comments() -> None:
    cursor = TokenCursor(Source("a // b\n: 1 # c"))
    assert [cursor.peek(ahead).text for ahead in range(5)] == ["a", ":", "1", "", ""]
    assert [cursor.next().text for _ in range(5)] == ["a", ":", "1", "", ""]
    assert [comment.text for comment in cursor.comments] == ["// b", "# c"]
    assert cursor.last == Span(9, 10)


def test_only_what_is_asked_for_is_taken() -> None:
    cursor = TokenCursor(Source("queue : x"))
    assert cursor.accept(":") is None
    assert cursor.accept_word("topic") is None
    assert cursor.at_word("topic", "queue")
    assert str(cursor.accept_word("queue")) == "'queue'"
    assert cursor.expect(":", "the name").text == ":"
    assert cursor.expect_name("a name").text == "x"
    assert cursor.problems == []


@pytest.mark.parametrize(
    ("text", "said", "span"),
    [("a b", "expected ':' after the name, found 'b'", (2, 3)), ("a ", "expected ':' after the name, found", (1, 2))],
)
def test_what_is_missing_is_noted_at_its_place(text: str, said: str, span: tuple[int, int]) -> None:
    cursor = TokenCursor(Source(text))
    cursor.next()
    with pytest.raises(Lost):
        cursor.expect(":", "the name", "write a colon")
    (problem,) = cursor.problems
    assert problem.message.startswith(said)
    assert (problem.span, problem.hint) == (Span(*span), "write a colon")


def test_problems_of_the_lexer_are_kept() -> None:
    assert [problem.message for problem in TokenCursor(Source("a $")).problems] == ["'$' has no meaning here"]


def test_depth_is_limited_and_given_back() -> None:
    cursor = TokenCursor(Source("a"))
    for _ in range(2):
        with ExitStack() as levels:
            for _ in range(DEEPEST):
                levels.enter_context(cursor.deeper())
            with pytest.raises(Lost):
                levels.enter_context(cursor.deeper())
