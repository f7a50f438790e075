"""An old process keeps working while a newer release migrates the database under it; it cannot be started again.

docs/reference/versions.md promises this to users, docs/howto/change-the-tables.md asks it of migrations.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, SchemaTooNew
from holdfast.client.client import internals
from tests.steps import bodies
from tests.upgrades.releases import RELEASES, expected, make_newer, next_migration, unpack


@pytest.fixture
def url(empty_url: str, sqlite_path: Path) -> str:
    unpack(RELEASES[-1], empty_url, sqlite_path)
    return empty_url


@pytest.fixture
def behind(url: str) -> int:
    """How long ago the database was made, in microseconds: its clock goes on from there."""
    now: int = expected(RELEASES[-1], url)["now"]
    return time.time_ns() // 1_000 - now


class OldProcess:
    """A process of the release before, and what it answers."""

    def __init__(self, url: str, behind: int) -> None:
        command = [sys.executable, "-m", "tests.upgrades.old_process", url, str(behind)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.read() == "ready"

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def __call__(self, order: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self.read()


@pytest.fixture
def old(url: str, behind: int) -> Iterator[OldProcess]:
    old = OldProcess(url, behind)
    yield old
    old.process.kill()
    old.process.communicate()


@pytest.fixture
def newer(url: str, behind: int) -> Iterator[Holdfast]:
    """A client of the next release, which has not migrated yet."""
    with Holdfast(url, worker="newer", clock=lambda: time.time_ns() // 1_000 - behind) as hf:
        yield make_newer(hf, next_migration(hf))


def test_an_old_process_keeps_working_and_cannot_be_started_again(url: str, old: OldProcess, newer: Holdfast) -> None:
    with Holdfast(url) as before:
        before.enqueue("consumed", "before")
    assert old("handled 1") == ["before"]
    assert old("warm") == "warm"
    assert len(internals(newer).store.schema.migrate()) == 1

    newer.enqueue_many("consumed", range(20))
    assert sorted(old("handled 21")[1:]) == list(range(20))
    assert old("use") == "used"
    assert old("settle") is None
    assert newer.stats("held").queue_depth == newer.stats("held").processing == 0
    assert old("open").startswith("SchemaTooNew: the database is at schema")
    assert old("take plain")[0] == "high", "what is open goes on"
    with Holdfast(url) as late, pytest.raises(SchemaTooNew, match="upgrade this installation"):
        late.enqueue("plain", 1)


def test_both_releases_work_on_what_the_old_one_has_stored(old: OldProcess, newer: Holdfast) -> None:
    """Each message goes to one of them, in order; a saga goes on whoever does its steps."""
    internals(newer).store.schema.migrate()
    assert bodies(newer.claim("plain", n=4)) == ["high", "plain-2", "plain-3", "plain-4"]
    assert old("take plain") == ["plain-5", "plain-6", "plain-7", "low"]
    assert old("take orders/choosy") == [f"created-{number}" for number in range(4)]
    assert old("take orders/done") == []
    assert old("replay doomed")
    assert sorted(old("take doomed")) == ["doomed-1", "doomed-2", "twice"]
    assert old("take flight.book") == [{"who": "begun"}]
    [step] = [claim for claim in newer.claim("hotel.book", n=10) if claim.message.body["who"] == "begun"]
    step.ack()
    newer.signal("begun", "paid")
    assert [body["who"] for body in old("take car.book")] == ["begun"]
    found = newer.sagas.get("begun")
    assert found is not None
    assert found.status == "completed"
