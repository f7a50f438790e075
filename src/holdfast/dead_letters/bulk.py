"""Bulk acts on dead letters: chosen by what they have in common, done page by page, at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast.core import times
from holdfast.core.dead_letter import Selection
from holdfast.core.message import MessageId, plain_text
from holdfast.errors import InvalidInput, shown
from holdfast.store.verb_groups import Letters
from holdfast.topics.rules.declaration import reader_name

PAGE = 100
"""How many letters one transaction deals with."""

SLOWEST, FASTEST = 0.001, 1_000_000
"""Letters per second: below, a pause would last longer than anyone waits; above, there is no pause."""

Moment = datetime | float
Progress = Callable[[int, int], object]
"""Told after every page: how many were dealt with, and how many there were at the start."""


def selection(
    queue: str | None, error: str | None, key: str | None, since: Moment | None, before: Moment | None, fresh: bool
) -> Selection:
    """Checks what a user asked for."""
    return Selection(
        queue=None if queue is None else reader_name(queue, "queue"),
        error=plain_text(error, "error"),
        key=plain_text(key, "key"),
        since=_moment(since, "since"),
        before=_moment(before, "before"),
        fresh=fresh,
    )


def _moment(value: Moment | None, what: str) -> int | None:
    return None if value is None else times.given(value, what)


def just_before(dead_id: MessageId) -> MessageId | None:
    """The id before this one. Letters are listed by id: the first one after it is this one, if it is there."""
    number = int.from_bytes(dead_id)
    return MessageId((number - 1).to_bytes(16)) if number else None


def act_on_many(
    letters: Letters,
    tenant: str,
    actor: str,
    act: str,
    chosen: Selection,
    rate: float | None,
    progress: Progress | None,
) -> int:
    """Replays or deletes all that are chosen now; how many. What dies while it runs is not meant."""
    pause, size = _pace(rate)
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function of two numbers, done and total, not {shown(progress)}")
    total, last = letters.matching(tenant, chosen)
    if last is None:
        return 0
    audit_id = letters.begin(tenant, actor, act, chosen)
    done, after = 0, None
    while ids := letters.page(tenant, chosen, size, after, last):
        if done and pause:
            time.sleep(pause)
        done += letters.act_on(tenant, actor, act, ids, audit_id)
        after = ids[-1]
        if progress is not None:
            progress(done, total)
    return done


def _pace(rate: Any) -> tuple[float, int]:
    """The pause between pages, and their size: ten pages a second, or one letter at a time below that."""
    if rate is None:
        return 0.0, PAGE
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not SLOWEST <= rate <= FASTEST:
        raise InvalidInput(f"rate must be messages per second, from {SLOWEST} to {FASTEST}, not {shown(rate)}")
    size = max(1, min(PAGE, round(rate / 10)))
    return size / rate, size
