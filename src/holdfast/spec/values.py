"""What a written value means for a setting of some kind, by the same rules as the arguments of the client."""

from __future__ import annotations

from typing import Any

from holdfast.core import priority as priorities
from holdfast.core import retry
from holdfast.core.duration import seconds
from holdfast.core.expressions.source import Span, did_you_mean
from holdfast.core.limits import Rate, rate
from holdfast.errors import InvalidInput
from holdfast.spec.document import Listing, Literal, MapSyntax, Value
from holdfast.spec.grammar import GrammarWord

_EXAMPLES = {
    "name": "a name, such as mails or mails.dead",
    "text": 'a text in quotes, such as "like this"',
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "duration": "a duration, such as 30s, 5m, 24h, or seconds",
    "milliseconds": "a number of milliseconds",
    "rate": "a rate, such as 100/s, 5/m, 10/30s",
    "priority": "urgent, high, normal or low",
    "word": "a word",
    "backoff": "a range such as 1s..60s, a duration, a list of durations, or none",
}


class ValueRefused(Exception):
    """A value is not what its setting can be."""

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.hint = hint


def read(value: Value, entry: GrammarWord) -> Any:
    """The value of a setting."""
    if isinstance(value, Literal) and value.form == "fixed" and value.value is None and entry.may_be_none:
        return None
    if entry.kind == "json":
        return _json(value)
    if entry.kind not in ("word", "priority") and not isinstance(value, Literal):
        raise _unlike(entry.kind)
    return _READERS[entry.kind](value, entry)


def _name(value: Any, entry: GrammarWord) -> str:
    if value.form not in ("word", "text"):
        raise _unlike(entry.kind)
    return str(value.value)


def _text(value: Any, entry: GrammarWord) -> str:
    if value.form == "word":
        raise ValueRefused(f"{entry.field} is a text: put it in quotes", hint=f'write "{value.value}"')
    if value.form != "text":
        raise _unlike(entry.kind)
    return str(value.value)


def _int(value: Any, entry: GrammarWord) -> int:
    if value.form != "number" or isinstance(value.value, float):
        raise _unlike(entry.kind)
    return int(value.value)


def _number(value: Any, entry: GrammarWord) -> int | float:
    if value.form != "number":
        raise _unlike(entry.kind)
    return tidy(value.value)


def _bool(value: Any, entry: GrammarWord) -> bool:
    if not isinstance(value.value, bool):
        raise _unlike(entry.kind)
    return value.value


def _duration(value: Any, entry: GrammarWord) -> int | float:
    if value.form not in ("number", "duration", "text"):
        raise _unlike(entry.kind)
    return whole_micros(_by_the_rules(lambda: seconds(value.value, entry.field)))


def _milliseconds(value: Any, entry: GrammarWord) -> int | float:
    if value.form == "number":
        return tidy(value.value)
    return _as_milliseconds(_duration(value, entry))


def _rate(value: Any, entry: GrammarWord) -> str:
    if value.form not in ("number", "rate", "text"):
        raise _unlike(entry.kind)
    return rate_text(_by_the_rules(lambda: rate(value.value, entry.field)))


def _word(value: Any, entry: GrammarWord) -> str:
    if not isinstance(value, Literal) or value.form not in ("word", "text"):
        raise ValueRefused(f"{entry.field} is one of {', '.join(entry.words)}")
    if value.value not in entry.words:
        hint = did_you_mean(str(value.value), entry.words)
        raise ValueRefused(f"{entry.field} is one of {', '.join(entry.words)}, not {value.value!r}", hint=hint)
    return str(value.value)


def _priority(value: Any, entry: GrammarWord) -> str:
    if isinstance(value, Literal) and value.form == "number":
        number = _by_the_rules(lambda: priorities.priority(value.value))  # type: ignore[arg-type]
        return next(name for name, known in priorities.NAMES.items() if known == number)
    return _word(value, entry)


def backoff(value: Value) -> dict[str, Any]:
    """What `backoff: …` sets."""
    written: Any = [_plain_duration(one) for one in value.values] if isinstance(value, Listing) else None
    if isinstance(value, Literal):
        if value.form not in ("range", "duration", "number", "text") and value.value is not None:
            raise _unlike("backoff")
        written = value.value
    elif not isinstance(value, Listing):
        raise _unlike("backoff")
    found = _by_the_rules(lambda: retry.backoff(written))
    if found.steps:
        return {"backoff_steps_ms": [_as_milliseconds(step) for step in found.steps], "jitter": tidy(found.jitter)}
    return {
        "initial_backoff_ms": _as_milliseconds(found.initial),
        "max_backoff_ms": _as_milliseconds(found.longest),
        "jitter": tidy(found.jitter),
    }


def _plain_duration(value: Value) -> Any:
    if not isinstance(value, Literal) or value.form not in ("number", "duration", "text"):
        raise ValueRefused(f"expected {_EXAMPLES['duration']}", value.span)
    return value.value


def _json(value: Value) -> Any:
    if isinstance(value, Listing):
        return [_json(one) for one in value.values]
    if isinstance(value, MapSyntax):
        return {setting.key.text: _json(setting.value) for setting in value.settings}
    assert isinstance(value, Literal), "nothing else is parsed here"
    if value.form not in ("text", "number", "fixed"):
        raise ValueRefused(f"{value.value} is no JSON: put it in quotes", value.span, f'write "{value.value}"')
    return value.value


def tidy(number: float, digits: int | None = None) -> int | float:
    """A number without a point where it needs none: it is compared, and shown to people."""
    rounded = number if digits is None else round(number, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def whole_micros(length: float) -> int | float:
    """Seconds, to the microsecond: no time in Holdfast is finer."""
    return tidy(length, 6)


def _as_milliseconds(length: float) -> int | float:
    return tidy(length * 1000, 3)


def rate_text(found: Rate) -> str:
    """A rate as the model has it."""
    units = {1.0: "s", 60.0: "m", 3600.0: "h", 86400.0: "d"}
    return f"{found.count}/{units.get(found.per) or duration_text(found.per)}"


def duration_text(length: float) -> str:
    """A duration as people write it."""
    number = whole_micros(length)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if isinstance(number, int) and number >= size and number % size == 0:
            return f"{number // size}{unit}"
    milliseconds = _as_milliseconds(number)
    return (
        f"{milliseconds}ms"
        if number and isinstance(milliseconds, int)
        else f"{number:.6f}".rstrip("0").rstrip(".") + "s"
    )


def _by_the_rules(read: Any) -> Any:
    try:
        return read()
    except InvalidInput as problem:
        raise ValueRefused(str(problem)) from None


def _unlike(kind: str) -> ValueRefused:
    return ValueRefused(f"expected {_EXAMPLES[kind]}")


_READERS = {
    "name": _name,
    "text": _text,
    "int": _int,
    "number": _number,
    "bool": _bool,
    "duration": _duration,
    "milliseconds": _milliseconds,
    "rate": _rate,
    "word": _word,
    "priority": _priority,
}
