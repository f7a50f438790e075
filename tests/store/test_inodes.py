"""What a path leads to, however it is found out."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.store.sqlite import inodes

pytestmark = pytest.mark.unit


def refused(*arguments: object) -> int:
    """`statx` in a sandbox that does not know it."""
    return -1


WAYS = {
    "best": inodes.look,
    "stat": inodes._by_stat,
    "statx refused": inodes._by_statx(ctypes.CFUNCTYPE(ctypes.c_int)(refused)),
}


@pytest.mark.parametrize("look", WAYS.values(), ids=WAYS)
def test_a_path_leads_to_a_file_or_to_none(look: Callable[[bytes], inodes.Found | None], tmp_path: Path) -> None:
    path = tmp_path / "ä b"
    assert look(os.fsencode(path)) is None
    path.write_bytes(b"x" * 70_001)
    assert look(os.fsencode(path)) == (path.stat().st_ino, 70_001)
    other = tmp_path / "other"
    other.write_bytes(b"")
    other.rename(path)
    assert look(os.fsencode(path)) == (path.stat().st_ino, 0)
    path.unlink()
    assert look(os.fsencode(path)) is None
