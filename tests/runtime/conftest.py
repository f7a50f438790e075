"""Clients for the runtime: real time, on every store; and processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Family


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., Holdfast]]:
    """More clients of the same store."""
    with ExitStack() as clients:

        def connect(**settings: Any) -> Holdfast:
            return clients.enter_context(Holdfast(url, **settings))

        yield connect


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """Processes of `tests.acceptance.workers`; none outlives the test."""
    family = Family(tmp_path / "logs")
    yield family
    family.end()
