"""A client on SQLite, of a test's own or shared by a module; every store where that matters is `url`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast


@pytest.fixture
def hf(sqlite_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{sqlite_path}") as client:
        yield client


@pytest.fixture(scope="module")
def shared_hf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path_factory.mktemp('shared')}/work.db") as client:
        yield client
