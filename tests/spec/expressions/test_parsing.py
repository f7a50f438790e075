"""Texts become trees, trees become texts, and what is no expression is said with its place."""

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import InvalidInput
from holdfast.core.expressions import Node, compile, parse, parse_text, to_text, verify
from holdfast.core.expressions.cursor import DEEPEST, Lost, TokenCursor
from holdfast.core.expressions.parser import LONGEST_TEXT, MOST_NODES
from holdfast.core.expressions.source import Source
from holdfast.core.expressions.tree import (
    Binary,
    Choice,
    Double,
    Field,
    FunctionCall,
    Index,
    Int,
    Items,
    MapEntry,
    MapExpression,
    Method,
    Name,
    Null,
    Text,
    Unary,
    walk,
)
from tests.spec.expressions.trees import EXPRESSIONS

a, b, c = Name("a"), Name("b"), Name("c")


def read(text: str) -> Node:
    node, problems = parse_text(text)
    assert problems == []
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("null", Null()),
        ("-7", Int(-7)),
        ("-(7)", Unary("-", Int(7))),
        ("1.5e3", Double(1500.0)),
        ("'a\\n'", Text("a\n")),
        ("a.b[0]", Index(Field(a, "b"), Int(0))),
        ("a.in.null", Field(Field(a, "in"), "null")),
        ("-5[0]", Index(Int(-5), Int(0))),
        ("a - b - c", Binary("-", Binary("-", a, b), c)),
        ("a - (b - c)", Binary("-", a, Binary("-", b, c))),
        ("a + b * c", Binary("+", a, Binary("*", b, c))),
        ("a || b && c", Binary("||", a, Binary("&&", b, c))),
        ("!a == b", Binary("==", Unary("!", a), b)),
        ("a in [b, c,]", Binary("in", a, Items((b, c)))),
        ("a ? b : c ? a : b", Choice(a, b, Choice(c, a, b))),
        ("a ? b ? a : b : c", Choice(a, Choice(b, a, b), c)),
        ("a < b == c", Binary("==", Binary("<", a, b), c)),
        ('{"k": a, }', MapExpression((MapEntry("k", a),))),
        ("has(a.b)", FunctionCall("has", (Field(a, "b"),))),
        ("a.split(',', 2)", Method(a, "split", (Text(","), Int(2)))),
        ("a // not part of it\n + b", Binary("+", a, b)),
    ],
)
def test_a_text_has_one_tree(text: str, tree: Node) -> None:
    assert read(text) == tree


@given(EXPRESSIONS)
@settings(max_examples=400, deadline=None)
def test_what_is_written_is_read_as_the_same(tree: Node) -> None:
    text = to_text(tree)
    assert read(text) == tree
    assert to_text(read(text)) == text


@given(EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_a_tree_goes_through_json(tree: Node) -> None:
    encoded = msgspec.json.encode(tree)
    assert b"span" not in encoded
    assert msgspec.json.decode(encoded, type=Node) == tree


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))", "a"),
        ("(a*b)+c", "a * b + c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("!(a&&b)", "!(a && b)"),
        ("(a?b:c)?a:(b?c:a)", "(a ? b : c) ? a : b ? c : a"),
        ("'it\\'s'", '"it\'s"'),
        ("'\\u0000\\u00e9\"'", '"\\u0000é\\""'),
        ("[1 ,2.0,]", "[1, 2.0]"),
        ("(a).b [ 1 ]", "a.b[1]"),
        ("-(-(1))", "--(1)"),
        ("!(-a)", "!(-a)"),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert to_text(read(text)) == canonical


def test_a_number_is_not_a_bool_nor_another_kind_of_number() -> None:
    assert len({read("1"), read("1.0"), read("true"), read("'1'")}) == 4


def test_spans_cover_what_was_written() -> None:
    text = "a.b + has(c.d) ? [x] : -y.trim()"
    spans = {to_text(node): text[node.span.start : node.span.end] for node, _ in walk(read(text))}
    assert all(written == shown for written, shown in spans.items())
    assert len(spans) == 12


@pytest.mark.parametrize(
    ("text", "said", "at", "hint"),
    [
        ("", "expected a value, found the end", 0, None),
        ("a +", "expected a value, found the end", 3, None),
        ("a b", "expected an operator or the end, found 'b'", 2, None),
        ("a = b", "expected an operator or the end, found '='", 2, "to compare, write =="),
        ("(a", "expected ')' after what is in brackets", 2, None),
        ("[a b]", "expected ']' after the last of these, found 'b'", 3, None),
        ("a ? b", "expected ':' after the first half of ? :", 5, None),
        ("a.'b'", "expected the name of a field, found \"'b'\"", 2, 'for other keys write ["the key"]'),
        ("{k: 1}", "expected a key, which is a text, found 'k'", 1, 'write it in quotes: "k"'),
        ("{'k': 1, 'k': 2}", "the key \"'k'\" is here twice", 9, None),
        ("in a", "'in' wants a value on its left", 0, None),
        ("5m", "an expression has no durations", 0, "write a number of seconds"),
        ("siz(a)", "there is no function 'siz'", 0, "did you mean 'size'?"),
        ("trim(a)", "there is no function 'trim'", 0, "write it behind a dot: text.trim(…)"),
        ("a.int()", "there is no method 'int'", 2, "write it in front: int(…)"),
        ("a.startswith(b)", "there is no method 'startswith'", 2, "did you mean 'startsWith'?"),
        ("a.matches('x')", "there is no method 'matches'", 2, "regular expressions are left out"),
        ("a.filter(x, x > 1)", "there is no method 'filter'", 2, "there are no loops"),
        ("size()", "size takes 1 argument, not 0", 0, None),
        ("a.replace(b)", "replace takes 2 to 3 arguments, not 1", 2, None),
        ("coalesce()", "coalesce takes 1 or more arguments, not 0", 0, None),
        ("has(a)", "has() asks for a field", 0, "write has(a.b)"),
        ("9223372036854775808", "this number is too large", 0, None),
    ],
)
def test_what_is_no_expression_is_said(text: str, said: str, at: int, hint: str | None) -> None:
    node, problems = parse_text(text)
    assert node is None
    assert problems[0].message.startswith(said)
    assert problems[0].span.start == at
    assert (problems[0].hint or "").startswith(hint or "")
    assert Source(text).show(problems[0])


def test_an_expression_ends_where_the_rest_of_a_file_begins() -> None:
    cursor = TokenCursor(Source("title: a.b ? 'x' : 'y'\n in: c { }"))
    cursor.next()
    cursor.expect(":")
    assert parse(cursor) == Choice(Field(a, "b"), Text("x"), Text("y"))
    assert cursor.next().text == "in"
    cursor.expect(":")
    assert parse(cursor) == c
    assert cursor.peek().text == "{"
    assert cursor.problems == []


def test_whoever_reads_a_file_can_go_on_after_a_broken_expression() -> None:
    cursor = TokenCursor(Source("a + ; b"))
    with pytest.raises(Lost):
        parse(cursor)
    cursor.expect(";")
    assert parse(cursor) == b
    assert [problem.message for problem in cursor.problems] == ["expected a value, found ';'"]


def seconds(text: str) -> float:
    begun = time.thread_time()
    parse_text(text)
    return time.thread_time() - begun


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(" * 4_000, "nested more than"),
        ("[" * 3_900 + "]", "nested more than"),
        ("!" * 3_999 + "a", "nested more than"),
        ("-" * 3_999 + "1", "nested more than"),
        ("a?" * 2_000, "nested more than"),
        ("a[" * 2_000, "nested more than"),
        ("size(" * 800, "nested more than"),
        ("a" + "+a" * 100, "nested more than"),
        ("a" + ".a" * 100, "nested more than"),
        ("a" + "+a" * 1_999, "at most 1,000 parts"),
        ("[" + "1," * 1_999 + "]", "at most 1,000 parts"),
        ("a" * (LONGEST_TEXT + 1), "at most 4,000 characters"),
        ("9" * 3_999, "too large"),
        ("9**9**9", "expected a value, found '*'"),
        ('"x"*10**10', "expected a value, found '*'"),
        ("1<<10**7", "expected a value, found '<'"),
        ('a.matches("(a+)+$")', "there is no method 'matches'"),
        ("().__class__.__bases__[0].__subclasses__()", "expected a value, found ')'"),
        ("__import__('os').system('id')", "there is no function '__import__'"),
        ("(x for x in a).gi_frame", "expected ')'"),
        ("a.__class__.mro()", "there is no method 'mro'"),
        ("'{0.__class__}'.format(a)", "there is no method 'format'"),
        ("f'{a}'", "expected an operator or the end"),
        ("lambda: 0", "expected an operator or the end"),
        ("[x for x in [1]]", "expected ']'"),
        ("a := 1", "expected an operator or the end"),
        ("eval('1')", "there is no function 'eval'"),
        ("getattr(a, 'b')", "there is no function 'getattr'"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_the_hostile_is_refused_at_once(text: str, said: str) -> None:
    node, problems = parse_text(text)
    assert min(seconds(text) for _ in range(3)) < 1, "it takes a few milliseconds; twice as much text, twice as long"
    assert node is None
    assert any(said in problem.message for problem in problems)


@given(st.text(max_size=200) | st.text(alphabet="ab1.\"'()[]{}?:!&|=<>+-*/%, \n", max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    node, problems = parse_text(text)
    assert (node is None) == bool(problems)
    if node is not None:
        assert read(to_text(node)) == node
        compile(node)({"a": {"b": "a"}})


PIECES = ["a", "b.c", "1", "2.5", '"t"', "(", ")", "[", "]", "{", "}", "?", ":", ",", "in", "!", "-", "+", "&&", "=="]


@given(st.lists(st.sampled_from([*PIECES, "has(", ".trim()", "size(", "coalesce(", "null"]), max_size=40).map(" ".join))
@settings(max_examples=500, deadline=None)
def test_any_row_of_pieces_is_read_or_refused(text: str) -> None:
    node, problems = parse_text(text)
    assert (node is None) == bool(problems)
    if node is not None:
        assert read(to_text(node)) == node


def deep(levels: int) -> Node:
    node: Node = a
    for _ in range(levels - 1):
        node = Unary("!", node)
    return node


@pytest.mark.parametrize(
    "tree",
    [
        deep(DEEPEST + 1),
        deep(100_000),
        Items((a,) * MOST_NODES),
        Int(2**63),
        Double(float("inf")),
        Double(float("nan")),
        Text("\ud800"),
        Name("a b"),
        Name("in"),
        Field(a, "b c"),
        MapExpression((MapEntry("k", a), MapEntry("k", b))),
        FunctionCall("eval", (a,)),
        FunctionCall("has", (a,)),
        Method(a, "__class__"),
        Method(a, "trim", (b,)),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_a_tree_that_no_text_could_say_is_refused(tree: Node) -> None:
    with pytest.raises(InvalidInput):
        verify(tree)
    with pytest.raises(InvalidInput):
        compile(tree)


def test_the_largest_tree_is_accepted() -> None:
    verify(deep(DEEPEST))
    verify(Items((a,) * (MOST_NODES - 1)))
    assert read("a" + "+a" * (DEEPEST - 1))
