"""Every number over HTTP that is a time, a duration or a rate states its unit, in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

pytestmark = [pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True), pytest.mark.above_the_stores]

RATE, PER_MINUTE, MOMENT, LENGTH = (
    r"\bper second\b",
    r"\bper minute\b",
    r"^Seconds since 1970\b",
    r"^Seconds\b(?! since)",
)

UNITS = [
    (r"(^|_)rate$", RATE),
    (r"_per_minute$", PER_MINUTE),
    (r"(^|_)(at|since|before|until|seen|slot)$", MOMENT),
    (r"(^|_)(age|after|delay|every|lease|patience|retention|seconds|time|timeout|ttl|window)(_|$)|^avg_", LENGTH),
]
"""What the name of a field says, and what its description has to; the first that fits counts."""

COUNTS = {
    *("amplification", "attempt", "attempts", "behind", "blocked_keys", "code", "concurrency", "consumers", "count"),
    *("dead", "dead_letters", "depth", "failed", "handled", "id", "in_flight", "lag", "level", "lost", "matching", "n"),
    *("past", "pending", "pid", "priority", "repeats", "replays", "saturation", "spent", "tries", "undo_tries"),
    *("version", "waiting", "weight"),
}
"""Numbers that have nothing to do with time. One that is not among them has to state a unit, whatever its name."""

IDS = {("GET /admin/audit", "before")}
"""What sounds like a time and is the id of a line."""


def test_every_time_states_its_unit(app: FastAPI) -> None:
    found = list(numbers(app.openapi()))
    timed = [(where, name, unit, words) for where, name, words in found if (unit := wanted(where, name))]
    silent = [(where, name, words) for where, name, unit, words in timed if not re.search(unit, words)]
    assert not silent, "\n".join(
        f"{where}: {name} states no unit, or another: {words!r}" for where, name, words in silent
    )
    assert {unit for _, _, unit, _ in timed} >= {unit for _, unit in UNITS}
    assert {name for _, name, _ in found} >= COUNTS, "a name that is not in use any more could hide a time"
    assert {(where, name) for where, name, _ in found} >= IDS


def test_settings_and_events_state_theirs(app: FastAPI) -> None:
    """Their fields are not in the document one by one: it speaks for all of them."""
    document = app.openapi()
    settings = document["components"]["schemas"]["StoredSettings"]["properties"]["settings"]
    assert "durations in seconds" in settings["description"]
    events = document["paths"]["/admin/events"]["get"]["responses"]["200"]
    assert "`at` in seconds since 1970" in events["description"]


def wanted(where: str, name: str) -> str | None:
    """What has to be in the description of a number; nothing in that of a count."""
    if (where, name) in IDS:
        return None
    for told, unit in UNITS:
        if re.search(told, name):
            return unit
    return None if name in COUNTS else "|".join(unit for _, unit in UNITS)


def numbers(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every field and every parameter that is a number or can be one: where, its name, its own description."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method.upper()} {path}"
            for one in operation.get("parameters", []):
                if is_number(one["schema"]):
                    yield where, one["name"], one.get("description", "")
            yield from fields(where, operation)
    for name, schema in document["components"]["schemas"].items():
        yield from fields(name, schema)


def fields(where: str, part: Any) -> Iterator[tuple[str, str, str]]:
    """Those of the objects in a part of the document, however deep."""
    if isinstance(part, list):
        for one in part:
            yield from fields(where, one)
    if isinstance(part, dict):
        if isinstance(part.get("properties"), dict):
            for name, schema in part["properties"].items():
                if is_number(schema):
                    yield where, name, schema.get("description", "")
        for one in part.values():
            yield from fields(where, one)


def is_number(schema: dict[str, Any]) -> bool:
    if schema.get("type") in ("number", "integer"):
        return True
    parts = [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", []), schema.get("items")]
    return any(is_number(part) for part in [*parts, schema.get("additionalProperties")] if isinstance(part, dict))
