"""Every PostgreSQL of this machine: those of the wheel, and what `tests.servers.installations` finds besides."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.long import only_long
from tests.packaging.environments import SMOKE, must
from tests.servers import INSTALLATIONS, PostgresServer, installations

FOUND = sorted(installations())


@only_long
@pytest.mark.parametrize("version", FOUND)
def test_a_server_of_this_version_can_be_used(version: str, start_postgres: Callable[..., PostgresServer]) -> None:
    url = start_postgres(version=version).url()
    with Holdfast(url) as hf:
        hf.queues.list()
    assert must(sys.executable, SMOKE, url) == "all of it works"


def test_those_of_the_wheel_are_among_them() -> None:
    assert set(INSTALLATIONS) <= set(FOUND)
    assert all(int(version) >= 14 for version in FOUND)


def test_a_listed_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "own" / "bin" / "postgres"
    server.parent.mkdir(parents=True)
    server.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 17.2 (Debian 17.2-1)'\n")
    server.chmod(0o755)
    monkeypatch.setenv("HOLDFAST_TEST_PG_FOLDERS", f"{tmp_path / 'own'}")
    assert installations()["17"] == tmp_path / "own"
