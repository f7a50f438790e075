"""Clients for the runtime: real time, on every store."""

from collections.abc import Iterator

import pytest

from holdfast import Holdfast


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client
