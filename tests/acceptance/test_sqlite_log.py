"""SQLite: a log that is lengthened ahead of its writers holds what was committed, and nothing else."""

import json
import multiprocessing
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import Holdfast
from holdfast.store.sqlite.wal import STEP, WalFile
from tests.acceptance.children import GUARD, ROOT
from tests.acceptance.test_sqlite_crash import is_sound

ENGINES = ["apsw", "stdlib"]


@pytest.fixture(params=ENGINES)
def hf(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{sqlite_path}?engine={request.param}") as client:
        yield client


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def length(path: Path) -> int:
    return log_of(path).stat().st_size


def waiting(url: str) -> list[int]:
    with Holdfast(url) as hf:
        return [claim.message.body for claim in hf.claim("q", n=10_000)]


def test_commits_write_over_zeros(hf: Holdfast, sqlite_path: Path) -> None:
    """By a step at a time, long before the log is full again."""
    lengths = []
    for number in range(400):
        hf.enqueue("q", number)
        lengths.append(length(sqlite_path))
    changes = [after for before, after in pairwise(lengths) if after != before]
    assert any(after % STEP == 0 for after in changes)
    assert len(changes) < 40, "of 400 commits hardly any made it longer"


def test_what_a_crash_leaves_is_read_up_to_the_zeros(hf: Holdfast, sqlite_path: Path, tmp_path: Path) -> None:
    """The files as they lie there, while they are in use, are what a power cut leaves."""
    for number in range(60):
        hf.enqueue("q", number)
        if number % 20 == 19:
            assert length(sqlite_path) % STEP == 0, "otherwise there is nothing to see here"
            left = tmp_path / f"left-{number}.db"
            shutil.copy(sqlite_path, left)
            shutil.copy(log_of(sqlite_path), log_of(left))
            with log_of(left).open("ab") as log:
                log.write(bytes(number * 100))  # Killed in the middle of lengthening it once more.
            assert waiting(f"sqlite:///{left}") == list(range(number + 1))
            assert is_sound(left)


def test_others_read_it_too(hf: Holdfast, sqlite_path: Path, tmp_path: Path) -> None:
    """A program that knows nothing of this, and checkpoints, which starts the log anew."""
    for number in range(30):
        hf.enqueue("q", number)
    hf.close()
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "print(c.execute('SELECT count(*) FROM holdfast_message').fetchone()[0]); c.execute('PRAGMA wal_checkpoint')"
    )
    hf.enqueue("q", 30)
    done = subprocess.run([sys.executable, "-c", program, str(sqlite_path)], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout) == 31
    hf.enqueue("q", 31)
    assert [claim.message.body for claim in hf.claim("q", n=100)] == list(range(32))


@pytest.mark.parametrize("options", [{}, {"delay": 60}], ids=["one statement", "several"])
def test_only_who_holds_the_write_lock_lengthens_it(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Otherwise zeros could be written over what another process has just committed."""
    lengthen, found = WalFile.lengthen, list[str]()

    def watched(log: WalFile) -> None:
        rival = apsw.Connection(str(sqlite_path))
        try:
            rival.execute("BEGIN IMMEDIATE")
            found.append("free")
        except apsw.BusyError:
            found.append("taken")
        finally:
            rival.close()
        lengthen(log)

    monkeypatch.setattr(WalFile, "lengthen", watched)
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        for number in range(100):
            hf.enqueue("q", number, **options)
    assert set(found) == {"taken"}


def enqueue_some(path: str, start: int, count: int) -> None:
    with Holdfast(f"sqlite:///{path}") as hf:
        for number in range(start, start + count):
            hf.enqueue("q", number)
            if number % 50 == 0:
                hf.enqueue("q", number, delay=1_000_000)


def test_processes_that_lengthen_it_do_not_write_over_each_other(sqlite_path: Path) -> None:
    Holdfast(f"sqlite:///{sqlite_path}").close()
    context = multiprocessing.get_context("spawn")
    crowd = [context.Process(target=enqueue_some, args=(str(sqlite_path), 1_000 * one, 300)) for one in range(4)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(GUARD)
    assert [process.exitcode for process in crowd] == [0] * 4
    assert sorted(waiting(f"sqlite:///{sqlite_path}")) == [1_000 * one + n for one in range(4) for n in range(300)]
    assert is_sound(sqlite_path)


def grow_no_more(path: str) -> None:
    """In a process whose files may become only a little longer: zeros do not fit, commits still do."""
    with Holdfast(f"sqlite:///{path}") as hf:
        for number in range(3):
            hf.enqueue("q", number)
        most = max(length(Path(path)), STEP) + 50_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        stored = 3
        while length(Path(path)) <= most - 20_000 and stored < 1_000:
            hf.enqueue("q", stored)
            stored += 1
        print(json.dumps([stored, length(Path(path)) % STEP]))


def test_where_there_is_no_room_for_zeros_it_goes_on_without(sqlite_path: Path) -> None:
    program = f"from {__name__} import grow_no_more; grow_no_more({str(sqlite_path)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, timeout=GUARD, check=True)
    stored, rest = json.loads(done.stdout)
    assert rest > 0, "it was used up, and could not be lengthened by a whole step"
    assert waiting(f"sqlite:///{sqlite_path}") == list(range(stored))


@pytest.mark.parametrize("size", [1, 32, STEP // 2, STEP - 1, STEP + 1, 3 * STEP - 4_120])
def test_the_next_step_leaves_room_for_many_commits(tmp_path: Path, size: int) -> None:
    path = tmp_path / "some.db"
    log_of(path).write_bytes(b"x" * size)
    log = WalFile(str(path))
    log.hold(log_of(path).stat().st_ino)
    log.check()
    assert log.is_short
    log.lengthen()
    content = log_of(path).read_bytes()
    assert content[:size] == b"x" * size
    assert not content[size:].strip(b"\0")
    assert len(content) % STEP == 0
    assert STEP // 2 <= len(content) - size <= STEP + STEP // 2
    log.lengthen()
    assert length(path) == len(content), "once is enough"
    log.check()
    assert not log.is_short


def test_a_link_to_the_database_leads_to_its_log(sqlite_path: Path, tmp_path: Path) -> None:
    sqlite3.connect(sqlite_path).close()
    link = tmp_path / "link.db"
    link.symlink_to(sqlite_path)
    with Holdfast(f"sqlite:///{link}") as hf:
        for number in range(20):
            hf.enqueue("q", number)
        assert length(sqlite_path) % STEP == 0


def test_no_log_is_nothing_to_lengthen(tmp_path: Path) -> None:
    log = WalFile(str(tmp_path / "none.db"))
    log.check()
    log.lengthen()
    assert list(tmp_path.iterdir()) == []
