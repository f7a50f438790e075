"""Letters become tokens; what is no token is said, and never the end of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.expressions.lexer import tokens
from holdfast.core.expressions.source import Source, SourceProblem, Span, did_you_mean


def read(text: str) -> list[tuple[str, object]]:
    found, problems = tokens(Source(text))
    assert problems == []
    return [(token.kind, token.text if token.value is None else token.value) for token in found[:-1]]


def test_tokens_of_each_kind() -> None:
    assert read(
        """queue Mails { lease: 30s // half a minute\n rate: 1.5e3 n: 7 s: "a\\n\\u00e9" t: 'b' # c\n x != y }"""
    ) == [
        *(("name", "queue"), ("name", "Mails"), ("mark", "{"), ("name", "lease"), ("mark", ":"), ("duration", "30s")),
        *(("comment", "// half a minute"), ("name", "rate"), ("mark", ":"), ("float", 1500.0), ("name", "n")),
        *(("mark", ":"), ("int", 7), ("name", "s"), ("mark", ":"), ("string", "a\né"), ("name", "t"), ("mark", ":")),
        *(("string", "b"), ("comment", "# c"), ("name", "x"), ("mark", "!="), ("name", "y"), ("mark", "}")),
    ]


def test_every_token_knows_where_it_is() -> None:
    source = Source("a\n  bc: 1")
    found, _ = tokens(source)
    assert [source.text[token.span.start : token.span.end] for token in found] == ["a", "bc", ":", "1", ""]
    assert [source.place(token.span.start) for token in found] == [(1, 1), (2, 3), (2, 5), (2, 7), (2, 8)]


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("a $ b", "'$' has no meaning here", 2),
        ('a "b\nc', "this text has no end", 2),
        (r'"\q"', r"'\\q' is no letter that can be written", 1),
        (r'"\ud800"', r"'\\ud800' is no letter that can be written", 1),
        ("9" * 5000, "this number is too large", 0),
        ("9223372036854775808", "this number is too large", 0),
        ("1e999", "this number is too large", 0),
        ("x" * 1_000_001, "a spec has at most 1,000,000 characters", 0),
    ],
)
def test_what_cannot_be_read(text: str, said: str, at: int) -> None:
    _, [problem] = tokens(Source(text))
    assert (problem.message, problem.span.start) == (said, at)


@given(st.text())
def test_any_text_has_an_end(text: str) -> None:
    found, _ = tokens(Source(text))
    assert found[-1].kind == "end"


def test_a_problem_is_shown_with_its_line() -> None:
    source = Source("app X {\n\tqueu Mails {}\n}", "app.holdfast")
    problem = SourceProblem("nothing is called 'queu'", Span(9, 13), did_you_mean("queu", ["queue", "topic"]))
    assert source.show(problem) == (
        "app.holdfast:2:2: error: nothing is called 'queu'\n  \tqueu Mails {}\n  \t^^^^\n  did you mean 'queue'?"
    )


def test_a_word_that_is_like_nothing() -> None:
    assert did_you_mean("zzz", ["queue", "topic"]) is None


def test_durations_of_several_units_are_one_token() -> None:
    assert read("1h30m 250ms 1.5d") == [("duration", "1h30m"), ("duration", "250ms"), ("duration", "1.5d")]
