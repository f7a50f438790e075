"""Commitments: what must be true before a message counts as done, checked by someone else than its worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.duration import seconds
from holdfast.core.message import clean_text
from holdfast.core.queue import NAME_LIMIT
from holdfast.core.times import Moment, WithTimes
from holdfast.errors import InvalidInput, shown

HEADER = "holdfast-commitments"
"""The header in which a message carries commitments of its own."""

MOST = 20
LONGEST_CHECK = 10_000
LONGEST_TIMEOUT = 3600.0
TIMEOUT = 30.0

OUTPUT_KEPT = 4_000
REASON_SHOWN = 1_000


class Commitment(msgspec.Struct, frozen=True):
    """A promise by name, the shell command that succeeds when it is kept, and the seconds that may take."""

    name: str
    check: str
    timeout: float = TIMEOUT


class CommitmentResult(WithTimes, msgspec.Struct, frozen=True):
    """How a check went. `code` is None where it did not finish, `output` is the end of what it printed.

    `checked_at` is the database's clock.
    """

    name: str
    passed: bool
    code: int | None
    output: str
    attempt: int = 0
    checked_at_us: int = 0

    checked_at = Moment()


def read_commitments(value: Any, what: str = "commitments") -> tuple[Commitment, ...]:
    """Checks a list of `{"name": …, "check": …, "timeout": …}`, whoever has written it."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f'{what} must be a list such as [{{"name": "…", "check": "…"}}], not {shown(value)}')
    if len(value) > MOST:
        raise InvalidInput(f"{what} are {len(value)}; at most {MOST} are allowed")
    return distinct([_commitment(one, what) for one in value], what)


def distinct(commitments: Sequence[Commitment], what: str = "commitments") -> tuple[Commitment, ...]:
    """Refuses too many of them, and two of one name: results are told apart by it."""
    names = [one.name for one in commitments]
    if len(names) > MOST:
        raise InvalidInput(f"{what} are {len(names)}; at most {MOST} are allowed")
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{what} have the name {shown(name)} twice")
    return tuple(commitments)


def failed_text(results: Sequence[CommitmentResult]) -> str:
    """Which promises were not kept, and what their checks said; empty if all were."""
    return "\n".join(_failure(one) for one in results if not one.passed)


def _failure(result: CommitmentResult) -> str:
    how = "did not finish" if result.code is None else f"ended with code {result.code}"
    said = result.output[-REASON_SHOWN:].strip()
    return f"commitment {result.name!r} failed: its check {how}" + (f": {said}" if said else ", without a word")


def _commitment(value: Any, what: str) -> Commitment:
    if isinstance(value, Commitment):
        value = msgspec.structs.asdict(value)
    if not isinstance(value, dict) or not {"name", "check"} <= value.keys() <= {"name", "check", "timeout"}:
        raise InvalidInput(f"{what}: each must have a name and a check, and may have a timeout, unlike {shown(value)}")
    name = _text(value["name"], f"{what}: a name", NAME_LIMIT)
    check = _text(value["check"], f"{what}: the check of {shown(name)}", LONGEST_CHECK)
    timeout = seconds(value.get("timeout", TIMEOUT), f"{what}: the timeout of {shown(name)}")
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise InvalidInput(f"{what}: the timeout of {shown(name)} must be above 0 and at most an hour")
    return Commitment(name, check, timeout)


def _text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str) or not value.strip() or clean_text(value) != value:
        raise InvalidInput(f"{what} must be text, and not empty, not {shown(value)}")
    if len(value) > limit:
        raise InvalidInput(f"{what} has {len(value)} characters; at most {limit} are allowed")
    return value
