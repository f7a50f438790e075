"""I23: what a user may hand over by mistake. Each must be refused with an error of Holdfast's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import Holdfast

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(10_000):
        nested = [nested]
    return nested


BAD_INPUT: dict[str, Callable[[Holdfast], object]] = {
    "empty name": lambda hf: hf.enqueue("", 1),
    "name with a slash": lambda hf: hf.enqueue("a/b", 1),
    "name with a surrogate": lambda hf: hf.enqueue("\ud800", 1),
    "long name": lambda hf: hf.claim("x" * 201),
    "names as a list": lambda hf: hf.claim(["plain"]),  # type: ignore[arg-type]
    "name of another type": lambda hf: hf.stats(7),  # type: ignore[arg-type]
    "no queue": lambda hf: hf.claim(),
    "object as body": lambda hf: hf.enqueue("plain", object()),
    "one bad body of three": lambda hf: hf.enqueue_many("plain", [1, object(), 3]),
    "surrogate in a body": lambda hf: hf.enqueue("plain", "\ud800"),
    "NaN as body": lambda hf: hf.enqueue("plain", float("nan")),
    "infinity in a body": lambda hf: hf.enqueue("plain", [float("inf")]),
    "endless body": lambda hf: hf.enqueue("plain", _deep()),
    "headers as a list": lambda hf: hf.enqueue("plain", 1, headers=[1]),  # type: ignore[arg-type]
    "header without a name": lambda hf: hf.enqueue("plain", 1, headers={1: 1}),  # type: ignore[dict-item]
    "surrogate in a header": lambda hf: hf.enqueue("plain", 1, headers={"a": "\ud800"}),
    "number as key": lambda hf: hf.enqueue("keyed", 1, key=7),  # type: ignore[arg-type]
    "surrogate in a key": lambda hf: hf.enqueue("keyed", 1, key="\ud800"),
    "NUL in a key": lambda hf: hf.enqueue("keyed", 1, key="a\0b"),
    "surrogate in a correlation id": lambda hf: hf.enqueue("plain", 1, correlation_id="\ud800"),
    "NUL in a correlation id": lambda hf: hf.enqueue("plain", 1, correlation_id="a\0b"),
    "priority out of range": lambda hf: hf.enqueue("plain", 1, priority=4),
    "priority as a fraction": lambda hf: hf.enqueue("plain", 1, priority=1.0),  # type: ignore[arg-type]
    "unknown priority": lambda hf: hf.enqueue("plain", 1, priority="soon"),
    "negative delay": lambda hf: hf.enqueue("plain", 1, delay=-1),
    "delay that is no number": lambda hf: hf.enqueue("plain", 1, delay=float("nan")),
    "delay for ever": lambda hf: hf.enqueue("plain", 1, delay=1e300),
    "unreadable delay": lambda hf: hf.enqueue("plain", 1, delay="soon"),
    "claim of nothing": lambda hf: hf.claim("plain", n=0),
    "claim of a fraction": lambda hf: hf.claim("plain", n=1.5),  # type: ignore[arg-type]
    "claim of far too many": lambda hf: hf.claim("plain", n=10**9),
    "lease of no time": lambda hf: hf.claim("plain", lease=0),
    "queue with a lease below a microsecond": lambda hf: hf.queue("plain", lease=1e-9),
    "ack of an id": lambda hf: hf.ack(NOBODY),  # type: ignore[arg-type]
    "a queue as its own dead letters": lambda hf: hf.queue("plain", dead_letter="plain"),
    "no attempts": lambda hf: hf.queue("plain", max_attempts=0),
    "empty backoff": lambda hf: hf.queue("plain", backoff=[]),
    "backwards backoff": lambda hf: hf.queue("plain", backoff="9s..1s"),
    "unknown ordering": lambda hf: hf.queue("plain", ordering="random"),
    "no id": lambda hf: hf.status("m1"),
    "id of another type": lambda hf: hf.cancel(7),  # type: ignore[arg-type]
    "replay of nobody": lambda hf: hf.replay(NOBODY),
    "peek of a fraction": lambda hf: hf.peek("plain", 1.5),  # type: ignore[arg-type]
    "peek of text": lambda hf: hf.peek("plain", "x"),  # type: ignore[arg-type]
    "peek below nothing": lambda hf: hf.peek("plain", -1),
    "peek beyond numbers": lambda hf: hf.peek("plain", 2**70),
    "dead letters below nothing": lambda hf: hf.dead_letters("plain", n=-1),
    "dead letters by text": lambda hf: hf.dead_letters("plain", n="x"),  # type: ignore[arg-type]
    "dead letters beyond numbers": lambda hf: hf.dead_letters("plain", n=2**70),
    "dead letters after no id": lambda hf: hf.dead_letters("plain", after="m1"),
}
