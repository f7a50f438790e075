"""Fixtures for pytest, found by themselves once Holdfast is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.testing import FakeClock


@pytest.fixture
def holdfast_clock() -> FakeClock:
    """The clock of the `holdfast` fixture; it stands still until you move it."""
    from holdfast.testing import FakeClock

    return FakeClock()


@pytest.fixture
def holdfast(tmp_path: Path, holdfast_clock: FakeClock) -> Iterator[Holdfast]:
    """A client on a new SQLite file, with a clock that stands still."""
    from holdfast.client.client import Holdfast

    with Holdfast(f"sqlite:///{tmp_path}/holdfast.db", clock=holdfast_clock, sweep_every=0) as hf:
        yield hf
