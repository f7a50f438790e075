"""Nothing of the real world gets in: time, chance and ids all come from the seed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

from holdfast.client import catalog, claim_loop, group_commit, last_seen, settlements, upkeep
from holdfast.dead_letters import bulk
from holdfast.store import ids, patience
from holdfast.store.postgres import connection as postgres
from holdfast.store.sqlite import connection as sqlite
from tests.clock import FakeClock

TIMED = (catalog, claim_loop, group_commit, bulk, upkeep, patience, last_seen, sqlite, postgres)
"""Modules that look at the process's own clock, or sleep."""

RANDOM = (settlements, sqlite)
"""Modules that ask for chance."""


@contextmanager
def virtual(clock: FakeClock, chance: Random, sleep: Callable[[float], None]) -> Iterator[None]:
    """As long as this lasts."""

    def monotonic() -> float:
        clock.now += 1_000  # Whoever waits for time to pass must not wait for ever.
        return clock.now / 1_000_000

    time = SimpleNamespace(monotonic=monotonic, sleep=sleep)
    luck = SimpleNamespace(random=chance.random)
    new_ids = _ids(clock)
    changes: list[tuple[ModuleType, str, Any]] = [(module, "time", time) for module in TIMED]
    changes += [(module, "random", luck) for module in RANDOM]
    changes.append((ids, "uuid7", lambda: next(new_ids)))
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for change in changes:
            setattr(*change)
        yield
    finally:
        for change in before:
            setattr(*change)


def _ids(clock: FakeClock) -> Iterator[uuid.UUID]:
    """UUIDs of version 7 that count up."""
    number = 0
    while True:
        number += 1
        yield uuid.UUID(int=(clock.now // 1000) << 80 | 7 << 76 | 2 << 62 | number)
