"""From tokens to a tree, by binding strength (a Pratt parser), with limits on length, nodes and depth."""

from __future__ import annotations

from typing import get_args

from holdfast.core.expressions.cursor import DEEPEST, Lost, TokenCursor
from holdfast.core.expressions.functions import misuse
from holdfast.core.expressions.lexer import LexerToken
from holdfast.core.expressions.source import Source, SourceProblem, Span
from holdfast.core.expressions.tree import (
    Binary,
    Bool,
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
    N,
    Name,
    Node,
    Null,
    Sign,
    Text,
    Unary,
    placed,
    walk,
)

LONGEST_TEXT = 4_000
"""Letters of an expression."""
MOST_NODES = 1_000
RESERVED = frozenset({"true", "false", "null", "in"})

CHOICE, OR, AND, RELATION, SUM, PRODUCT, UNARY, POSTFIX = range(1, 9)
STRENGTH: dict[str, int] = {
    "||": OR,
    "&&": AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), RELATION),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
}
assert set(STRENGTH) == set(get_args(Sign))


def parse(cursor: TokenCursor) -> Node:
    """The expression that begins here; it ends before the first token that cannot go on with it.

    What is wrong is noted in the cursor; if no tree can be made of it, `Lost` is raised.
    """
    node = _Parser(cursor).expression(CHOICE)
    if max(depth for _, depth in walk(node)) > DEEPEST:
        cursor.fail(
            f"this expression is nested more than {DEEPEST} levels deep",
            node.span,
            "each operator of a chain is a level; for many values write `x in [a, b, …]`",
        )
    if node.span.end - node.span.start > LONGEST_TEXT:
        cursor.fail(f"an expression has at most {LONGEST_TEXT:,} characters", node.span)
    return node


def parse_text(text: str) -> tuple[Node | None, list[SourceProblem]]:
    """The expression that a whole text is, or None and what is wrong with it."""
    if len(text) > LONGEST_TEXT:
        return None, [SourceProblem(f"an expression has at most {LONGEST_TEXT:,} characters", Span(0, 1))]
    cursor = TokenCursor(Source(text, "<expression>"))
    try:
        node = parse(cursor)
        if cursor.peek().kind != "end":
            cursor.wanted("an operator or the end", _hint(cursor.peek()))
    except Lost:
        return None, cursor.problems
    return (None if cursor.problems else node), cursor.problems


def _hint(token: LexerToken) -> str | None:
    return {"=": "to compare, write ==", "@": None}.get(token.text) if token.kind == "mark" else None


class _Parser:
    """One expression in the making."""

    def __init__(self, cursor: TokenCursor) -> None:
        self._cursor = cursor
        self._nodes = 0

    def expression(self, weakest: int) -> Node:
        """What operators of at least this strength hold together."""
        with self._cursor.deeper():
            node = self._unary()
            while (sign := self._operator()) and STRENGTH[sign] >= weakest:
                self._cursor.next()
                right = self.expression(STRENGTH[sign] + 1)
                node = self._made(Binary(sign, node, right), node.span)  # type: ignore[arg-type]
            return self._choice(node) if weakest == CHOICE else node

    def _operator(self) -> str | None:
        token = self._cursor.peek()
        if token.kind == "name":
            # `in:` is the next setting of a block, not an operator.
            return "in" if token.text == "in" and not self._cursor.peek(1).is_mark(":") else None
        return token.text if token.kind == "mark" and token.text in STRENGTH else None

    def _choice(self, condition: Node) -> Node:
        if not self._cursor.accept("?"):
            return condition
        then = self.expression(CHOICE)
        self._cursor.expect(":", "the first half of ? :")
        return self._made(Choice(condition, then, self.expression(CHOICE)), condition.span)

    def _unary(self) -> Node:
        sign = self._cursor.accept("!", "-")
        if not sign:
            return self._postfix(self._primary())
        if sign.text == "-" and self._cursor.peek().kind in ("int", "float"):
            return self._postfix(self._number(self._cursor.next(), sign))
        with self._cursor.deeper():
            return self._made(Unary(sign.text, self._unary()), sign.span)  # type: ignore[arg-type]

    def _postfix(self, node: Node) -> Node:
        while mark := self._cursor.accept(".", "["):
            if mark.text == "[":
                index = self.expression(CHOICE)
                self._cursor.expect("]", "the index")
                node = self._made(Index(node, index), node.span)
                continue
            name = self._cursor.expect_name("the name of a field", 'for other keys write ["the key"]')
            if self._cursor.accept("("):
                node = self._called(Method(node, name.text, self._several(")")), node.span, name)
            else:
                node = self._made(Field(node, name.text), node.span)
        return node

    def _primary(self) -> Node:
        token = self._cursor.peek()
        match token.kind:
            case "int" | "float":
                return self._number(self._cursor.next(), None)
            case "string":
                self._cursor.next()
                return self._made(Text(str(token.value)), token.span)
            case "name":
                return self._word(self._cursor.next())
            case "mark" if token.text in ("(", "[", "{"):
                return self._bracket(self._cursor.next())
            case "duration":
                self._cursor.fail("an expression has no durations", token.span, "write a number of seconds")
            case _:
                self._cursor.wanted("a value")

    def _number(self, token: LexerToken, minus: LexerToken | None) -> Node:
        start, factor = (minus.span, -1) if minus else (token.span, 1)
        if isinstance(token.value, float):
            return self._made(Double(factor * token.value), start)
        assert isinstance(token.value, int)
        return self._made(Int(factor * token.value), start)

    def _word(self, token: LexerToken) -> Node:
        match token.text:
            case "null":
                return self._made(Null(), token.span)
            case "true" | "false":
                return self._made(Bool(token.text == "true"), token.span)
            case "in":
                self._cursor.fail("'in' wants a value on its left", token.span)
        if self._cursor.accept("("):
            return self._called(FunctionCall(token.text, self._several(")")), token.span, token)
        return self._made(Name(token.text), token.span)

    def _bracket(self, opening: LexerToken) -> Node:
        match opening.text:
            case "(":
                node = self.expression(CHOICE)
                self._cursor.expect(")", "what is in brackets")
                return node
            case "[":
                return self._made(Items(self._several("]")), opening.span)
            case _:
                return self._made(MapExpression(self._entries()), opening.span)

    def _several(self, closing: str) -> tuple[Node, ...]:
        """Expressions with commas between them, up to a closing bracket; a comma may also come last."""
        found: list[Node] = []
        while not self._cursor.accept(closing):
            found.append(self.expression(CHOICE))
            if not self._cursor.accept(","):
                self._cursor.expect(closing, "the last of these")
                break
        return tuple(found)

    def _entries(self) -> tuple[MapEntry, ...]:
        found: dict[str, MapEntry] = {}
        while not self._cursor.accept("}"):
            key = self._key()
            if key.value in found:
                self._cursor.note(f"the key {key} is here twice", key.span)
            self._cursor.expect(":", "the key")
            found[str(key.value)] = MapEntry(str(key.value), self.expression(CHOICE))
            if not self._cursor.accept(","):
                self._cursor.expect("}", "the last of these")
                break
        return tuple(found.values())

    def _key(self) -> LexerToken:
        token = self._cursor.peek()
        if token.kind != "string":
            hint = f'write it in quotes: "{token.text[:40]}"' if token.kind == "name" else None
            self._cursor.wanted("a key, which is a text", hint)
        return self._cursor.next()

    def _called(self, call: FunctionCall | Method, start: Span, name: LexerToken) -> Node:
        if wrong := misuse(call):
            message, hint = wrong
            self._cursor.note(message, name.span, hint)
        return self._made(call, start)

    def _made(self, node: N, start: Span) -> N:
        self._nodes += 1
        span = start.to(self._cursor.last)
        if self._nodes > MOST_NODES:
            self._cursor.fail(f"an expression has at most {MOST_NODES:,} parts", span)
        return placed(node, span)
