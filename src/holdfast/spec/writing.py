"""From the model back to a text that says it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.spec.grammar import Grammar, GrammarWord, grammar_of
from holdfast.spec.model import (
    CommandCall,
    GroupDeclaration,
    Part,
    QueueDeclaration,
    RetryPolicy,
    SagaDeclaration,
    Spec,
    StepDeclaration,
    defaults_of,
)
from holdfast.spec.printer import format_reading, name_text
from holdfast.spec.reading import read_text
from holdfast.spec.shapes import quoted
from holdfast.spec.values import duration_text

_REFERENCE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*([./][A-Za-z_][A-Za-z0-9_]*)*")
_RATE = re.compile(r"\d+/(\d+(\.\d+)?)?(ms|[smhdw])")
_WORDS_WITH_MEANING = {"true", "false", "none", "null"}


def to_text(spec: Spec) -> str:
    """A spec in its canonical form. Reading it gives the same spec."""
    body = "\n".join(_settings(spec, grammar_of(Spec)))
    return format_reading(read_text(f"app {name_text(spec.app)} {{\n{body}\n}}\n"))


def _settings(part: Part, grammar: Grammar) -> Iterator[str]:
    words = {entry.field: word for word, entry in reversed(grammar.items())}
    usual = dict(defaults_of(type(part)))
    given = {field: getattr(part, field) for field in usual if field in words}
    if isinstance(part, RetryPolicy | StepDeclaration) and part.backoff_steps_ms:
        steps = ", ".join(duration_text(step / 1000) for step in part.backoff_steps_ms)
        yield f"backoff: [{steps}]"
        # A list has no jitter unless it is said.
        usual.update(jitter=0, initial_backoff_ms=part.initial_backoff_ms, max_backoff_ms=part.max_backoff_ms)
    for field, value in given.items():
        if value != usual[field]:
            yield from _setting(words[field], grammar[words[field]], value)
    if isinstance(part, QueueDeclaration | GroupDeclaration) and part.map_to_queue is not None:
        onward = part.map_to_queue
        inputs = (f"{name_text(name)}: {text}" for name, text in onward.input_map.items())
        yield from _block(f"map_to: queue {_value(onward.queue, 'name')}", inputs)


def _setting(word: str, entry: GrammarWord, value: Any) -> Iterator[str]:
    if entry.kind == "named":
        for name, one in value.items():
            yield from _block(f"{word} {name_text(name)}", _settings(one, entry.inside))
    elif entry.kind == "listed":
        for one in value:
            yield from _listed(word, entry, one)
    elif entry.kind == "block":
        yield from _block(word, _settings(value, entry.inside))
    elif entry.kind in ("fields", "map"):
        of = "type" if entry.kind == "fields" else entry.of or "json"
        yield from _block(word, (f"{name_text(name)}: {_value(one, of)}" for name, one in value.items()))
    elif isinstance(value, CommandCall):
        inputs = (f"{name_text(name)}: {text}" for name, text in value.input_map.items())
        yield from _block(f"{word}: command {value.name}", inputs)
    elif entry.kind == "list":
        yield f"{word}: [{', '.join(_value(one, entry.of or 'json') for one in value)}]"
    else:
        yield f"{word}: {_value(value, 'number' if word.endswith('_seconds') else entry.kind)}"


def _listed(word: str, entry: GrammarWord, one: Any) -> Iterator[str]:
    if isinstance(one, StepDeclaration) and one.parallel:
        together = grammar_of(SagaDeclaration)["parallel"]
        yield from _block(f"parallel {name_text(one.name)}", _settings(one, together.inside))
    else:
        yield from _block(f"{word} {name_text(one.name)}", _settings(one, entry.inside))


def _block(head: str, inside: Iterable[str]) -> Iterator[str]:
    yield head + " {"
    yield from inside
    yield "}"


def _value(value: Any, kind: str) -> str:
    if value is None:
        return "null" if kind == "json" else "none"
    if kind == "duration":
        return duration_text(value)
    if kind == "name":
        return value if _REFERENCE.fullmatch(value) and value not in _WORDS_WITH_MEANING else quoted(value)
    if kind in ("type", "expression", "word", "priority"):
        return str(value)
    if kind == "rate" and _RATE.fullmatch(value):
        return str(value)
    return msgspec.json.encode(value).decode()
