"""SQLite: sleepers hear what is rung for them, all of it, once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.api import Waiter, Wakeup
from tests.waiting import eventually

LONG, SHORT = 30.0, 0.05


@pytest.fixture
def wakeup(sqlite_path: Path) -> Iterator[Wakeup]:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.enqueue("q", 1)
        yield internals(hf).store.wakeup


@pytest.fixture
def bell(wakeup: Wakeup) -> Iterator[Waiter]:
    found = wakeup.bell()
    found.wait([0], SHORT)  # Its first look at the file compares with nothing.
    yield found
    found.close()


def test_a_ring_for_others_does_not_hide_one_for_oneself(wakeup: Wakeup, bell: Waiter) -> None:
    wakeup.ring([1])
    wakeup.ring([2])
    assert bell.wait([2], LONG)


def test_what_was_rung_before_a_look_wakes_once(wakeup: Wakeup, bell: Waiter) -> None:
    for _ in range(3):
        wakeup.ring([2])
    assert bell.wait([2], LONG)
    assert not bell.wait([2], SHORT)


@pytest.mark.parametrize("count", [1, 100, 5_000])
def test_however_many_are_rung_for_the_last_one_hears(wakeup: Wakeup, bell: Waiter, count: int) -> None:
    wakeup.ring(range(count))
    assert bell.wait([count - 1], LONG)


def test_nobody_hears_what_is_for_others(wakeup: Wakeup, bell: Waiter) -> None:
    wakeup.ring([1, 12])
    assert not bell.wait([2], SHORT)
    assert not bell.wait([121], SHORT)


@pytest.mark.parametrize("depth", [1, 20])
def test_a_client_that_was_closed_rings_again(tmp_path: Path, depth: int) -> None:
    """Also where the path is so long that a socket is reached through its folder, which is opened anew."""
    folder = tmp_path.joinpath(*(["deeper"] * depth))
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder}/work.db"
    with Holdfast(url) as sleeper, Holdfast(url) as hf:
        sleeper.enqueue("q", 0)
        bell = internals(sleeper).store.wakeup.bell()
        wakeup: Any = internals(hf).store.wakeup
        eventually(lambda: wakeup.ring([8]) or (bell.wait([8], LONG) and wakeup._listing[1]), "it knows who sleeps")
        hf.close()
        wakeup.ring([7])
        assert bell.wait([7], LONG / 10)
        bell.close()
