"""Mutants of SQL: of named queries, and of the functions in PostgreSQL's migrations.

A scanner splits the text into tokens and knows how deep in brackets each stands. That is enough to tell a comparison
from an assignment, and where a condition ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from tests.mutants.sites import Mutant

TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<word>:?[A-Za-z_][A-Za-z_0-9.]*)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<sign>->>|->|\|\||::|:=|<=|>=|<>|!=|=>|@>|<@|\$\$|[-+*/%<>=(),;\[\]])""",
    re.VERBOSE,
)
NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)\(.*?\$\$(.*?)\$\$", re.MULTILINE | re.DOTALL)

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "=", "!=": "="}
WORDS = {
    "AND": ("OR", "and/or"),
    "OR": ("AND", "and/or"),
    "ASC": ("DESC", "order"),
    "DESC": ("ASC", "order"),
    "MIN": ("max", "min/max"),
    "MAX": ("min", "min/max"),
    "LEAST": ("greatest", "min/max"),
    "GREATEST": ("least", "min/max"),
    "TRUE": ("false", "boolean"),
    "FALSE": ("true", "boolean"),
}
CONDITIONS = {"WHERE", "ON", "HAVING", "AND"}
AFTER_A_CONDITION = {
    *("AND", "OR", "ORDER", "GROUP", "LIMIT", "RETURNING", "UNION", "THEN", "FOR", "HAVING", "WINDOW", "ON", "LOOP"),
    *("JOIN", "LEFT", "CROSS", "INNER", "WHERE", "WHEN", "ELSE", "END", "AS", "SET", "DO", "INTO", ",", ";"),
}
NO_OPERANDS = {
    *("(", ",", "=", "<", ">", "<=", ">=", "<>", "+", "-", "*", "/", "||", "[", ":=", "SELECT", "THEN", "ELSE", "WHEN"),
    *("RETURN", "AND", "OR", "NOT", "BETWEEN", "LIMIT", "WHERE", "BY", "SET", "DEFAULT", "VALUES"),
}
"""After these, a plus or minus is a sign of a number."""


@dataclass(frozen=True)
class Token:
    start: int
    end: int
    text: str
    depth: int

    @property
    def word(self) -> str:
        return self.text.upper()


Change = tuple[int, int, str, str]
"""Start, end, new text, name of the operator."""


def mutants(content: bytes, path: str) -> Iterator[Mutant]:
    text = content.decode()
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    for unit, start, end in units(text):
        first, last = (text.count("\n", 0, place) + 1 for place in (start, end))
        for here, there, new, operator in changes(tokens(text, start, end)):
            line = text.count("\n", 0, here) + 1
            place = offsets[here], offsets[there]
            yield Mutant(path, line, *place, text[here:there], new, operator, first, last, unit)


def units(text: str) -> Iterator[tuple[str, int, int]]:
    """The named queries of a file of queries; otherwise the bodies of functions."""
    names = list(NAME.finditer(text))
    for name, following in zip_longest(names, names[1:]):
        yield name[1], name.end(), following.start() if following else len(text)
    if not names:
        for function in FUNCTION.finditer(text):
            yield f"{function[1]}()", function.start(2), function.end(2)


def tokens(text: str, start: int, end: int) -> list[Token]:
    found, depth = [], 0
    for match in TOKEN.finditer(text, start, end):
        if match.lastgroup == "comment":
            continue
        depth -= match[0] in ")]"
        found.append(Token(*match.span(), match[0], depth))
        depth += match[0] in "(["
    return found


def changes(found: list[Token]) -> Iterator[Change]:
    for index, token in enumerate(found):
        before = found[index - 1] if index else None
        after = found[index + 1] if index + 1 < len(found) else None
        if token.word in {"AND", "OR"} and is_of_between(found, index):
            continue
        yield from replaced(token, before, after)
        if token.text == "=" and not is_assignment(found, index):
            yield token.start, token.end, "<>", "comparison"
        if token.word == "LIMIT" and after is not None:
            yield after.end, after.end, " + 1", "limit"
        if token.word in CONDITIONS:
            yield from dropped(found, index)
        if token.word == "BY" and before is not None and before.word == "ORDER":
            yield from descending(found, index + 1)


def replaced(token: Token, before: Token | None, after: Token | None) -> Iterator[Change]:
    if token.text in SWAPS:
        yield token.start, token.end, SWAPS[token.text], "comparison"
    elif token.text in {"+", "-"} and before is not None and before.word not in NO_OPERANDS:
        yield token.start, token.end, "-" if token.text == "+" else "+", "arithmetic"
    elif token.word in {"MIN", "MAX", "LEAST", "GREATEST"} and (after is None or after.text != "("):
        return
    elif token.word in WORDS:
        new, operator = WORDS[token.word]
        yield token.start, token.end, new, operator
    elif token.word == "IS" and after is not None and after.word == "NULL":
        yield token.end, token.end, " NOT", "not"
    elif token.word == "NOT" and (after is None or after.word not in {"NULL", "MATERIALIZED"} or is_null_test(before)):
        yield token.start, token.end, "", "not"


def is_null_test(before: Token | None) -> bool:
    return before is not None and before.word == "IS"


def is_of_between(found: list[Token], index: int) -> bool:
    """Whether this AND joins the bounds of a BETWEEN."""
    for token in reversed(found[:index]):
        if token.depth < found[index].depth:
            return False
        if token.depth == found[index].depth and token.word in {"AND", "OR", "WHERE", "ON", "BETWEEN"}:
            return token.word == "BETWEEN"
    return False


def is_assignment(found: list[Token], index: int) -> bool:
    """Whether this equals sign stands in `SET a = 1, (b, c) = (2, 3)`."""
    depth, place = found[index].depth, index - 1
    if place >= 0 and found[place].text == ")":
        while place >= 0 and not (found[place].text == "(" and found[place].depth == depth):
            place -= 1
    return place > 0 and found[place - 1].word in {"SET", ","} and found[place - 1].depth == depth


def dropped(found: list[Token], index: int) -> Iterator[Change]:
    """`AND condition` or, at the beginning, `condition AND`."""
    token, end = found[index], index + 1
    pending = 0
    while end < len(found) and found[end].depth >= token.depth:
        here = found[end]
        if here.depth == token.depth:
            if here.word == "BETWEEN":
                pending += 1
            elif here.word == "CASE":
                end = end_of_case(found, end)
            elif here.word == "AND" and pending:
                pending -= 1
            elif here.word in AFTER_A_CONDITION:
                break
        end += 1
    if end == index + 1:
        return
    if token.word == "AND":
        yield token.start, found[end - 1].end, "", "condition dropped"
    elif end < len(found) and found[end].word == "AND" and found[end].depth == token.depth:
        yield found[index + 1].start, found[end].end, "", "condition dropped"


def end_of_case(found: list[Token], start: int) -> int:
    nested = 0
    for index in range(start, len(found)):
        nested += {"CASE": 1, "END": -1}.get(found[index].word, 0)
        if nested == 0:
            return index
    return len(found) - 1


def descending(found: list[Token], index: int) -> Iterator[Change]:
    """A plain column that orders ascending, which nothing says."""
    if index >= len(found) or not found[index].text.replace(".", "").replace("_", "").isalnum():
        return
    after = found[index + 1] if index + 1 < len(found) else None
    if after is None or after.word in {",", "LIMIT", ")", "FOR", ";"}:
        yield found[index].end, found[index].end, " DESC", "order"
