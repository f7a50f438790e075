"""SQLite: processes that are killed, forked, crowded or out of disk lose nothing and give nothing out twice."""

import gc
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import EngineConflict, Holdfast, StoreFull
from holdfast.client.client import internals
from tests.acceptance.children import GUARD, ROOT, Child, Family
from tests.acceptance.crowds import assert_each_gets_its_own
from tests.acceptance.history import faults, lines
from tests.long import is_long_run, only_long, size
from tests.waiting import eventually

Connect = Callable[..., Holdfast]

ENGINES = ["apsw", "stdlib"]


@pytest.fixture(params=ENGINES)
def file_url(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
    return f"sqlite:///{sqlite_path}?engine={request.param}"


@pytest.fixture
def apsw_url(sqlite_path: Path) -> str:
    return f"sqlite:///{sqlite_path}"


def run(*command: str) -> Any:
    """What a program printed as JSON."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, timeout=2 * GUARD, check=True)
    return json.loads(done.stdout)


def is_sound(path: Path) -> bool:
    """Asked in another process: this one may have the file open through the other library."""
    look = "list(apsw.Connection(sys.argv[1]).execute('PRAGMA integrity_check'))"
    program = f"import apsw, json, sys; print(json.dumps({look}))"
    return bool(run("-c", program, str(path)) == [["ok"]])


# --- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [1, pytest.param(2, marks=only_long)])
def test_killed_at_any_write_it_holds_exactly_what_a_whole_transaction_left(tmp_path: Path, part: int) -> None:
    """S1: migrate, enqueue, claim, ack, nack, dead-letter, expire, replay, clean up; killed at each write and sync.

    A long run kills at all of them, half in each test. The default run takes every twentieth, each time other ones.
    """
    parts = size(20, 2)
    first = part if is_long_run() else random.randint(1, parts)
    outcome = run("-m", "tests.acceptance.crashpoints", str(tmp_path), str(first), str(parts))

    assert outcome["faults"] == []
    assert outcome["points"] > 200 // parts


def test_clients_that_look_and_come_and_go_do_not_endanger_the_file(
    family: Family, file_url: str, sqlite_path: Path
) -> None:
    """S7: stats, peek, status, dead letters, opening and closing in the process that is then killed."""
    with Holdfast(file_url) as hf:
        hf.queue("q", lease=0.5, history=0)
    for round in range(2):
        killed = family.start("onlooker", url=file_url, queue="q")
        for visit in range(2):
            family.wait_for_events(30_000, "onlooker")
            family.start("produce", url=file_url, queue="q", name=f"{round}-{visit}", count=20).finish()
        family.wait_for_events(30_000, "onlooker")
        eventually(lambda killed=killed: looks(killed) > 5, "it has looked around")
        killed.kill()
    assert is_sound(sqlite_path)

    family.start("consume", url=file_url, queue="q", n=20).finish()

    history = family.history()
    assert faults(history) == []
    assert sum(event["op"] == "look" for event in history.events) > 10


def looks(child: Child) -> int:
    return sum(event["op"] == "look" for event in lines(child.log))


# --- forked -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
@pytest.mark.parametrize("way", ["os", "multiprocessing"])
def test_parent_and_children_of_a_fork_both_use_the_client(
    family: Family, file_url: str, way: str, busy: bool, sqlite_path: Path
) -> None:
    """S8: a fork with an open client, also while another thread is in the middle of an enqueue."""
    with Holdfast(file_url) as hf:
        hf.queue("q", history=0)

    family.start("forker", url=file_url, queue="q", count=10_000, way=way, busy=busy).finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.sent) >= 30_000
    assert is_sound(sqlite_path)


def test_a_fork_during_the_first_use_leaves_the_child_able_to_open(family: Family, file_url: str) -> None:
    """S8: the thread that was migrating exists in the parent only."""
    family.start("fork_while_opening", url=file_url, queue="q").finish()

    assert sorted(family.history().sent.values()) == ["child", "parent"]


def test_threads_may_fork_at_the_same_time(family: Family, file_url: str) -> None:
    """S8: two forks that overlap must not leave a lock behind."""
    family.start("fork_in_threads", url=file_url, queue="q", threads=3, forks=40).finish()

    history = family.history()
    assert history.errors() == []
    assert sum(str(value).startswith("forked") for value in history.sent.values()) == 120


# --- crowded ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consumers", "engine", "each"),
    [(8, "apsw", 25_000), (2, "apsw", 25_000), (8, "stdlib", 5_000)],
    ids=["S9", "S10", "S9-stdlib"],
)
def test_a_crowd_of_processes_gets_each_message_once(
    family: Family, apsw_url: str, connect: Connect, consumers: int, engine: str, each: int
) -> None:
    """S9, S10: 10^5 messages; nobody ever hears of a lock, and every (id, attempt) is given out once."""
    url = f"{apsw_url}?engine={engine}"
    connect(url).queue("q", lease=300, history=0)
    workers = [{"n": 40, "fused": bool(number % 2)} for number in range(consumers)]
    assert_each_gets_its_own(family, url, workers, senders=4, each=each, batch=250)


def test_a_read_waits_while_another_process_recovers_the_file(
    family: Family, file_url: str, connect: Connect, sqlite_path: Path
) -> None:
    """S9: after a crash in the middle of a commit, whoever comes first rebuilds the index of the WAL under a lock."""
    hf = connect(file_url)
    hf.enqueue("q", 1)
    hf.stats("q")
    recovering = subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.recovery", str(sqlite_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert recovering.stdout is not None
    with recovering.stdout:
        recovering.stdout.readline()

        assert hf.stats("q").pending == 1

    assert recovering.wait(GUARD) == 0


# --- out of disk ------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_whole_messages_and_needs_no_restart(sqlite_path: Path) -> None:
    """S13: full at the first write of an enqueue, at the second, …; the file stays sound, and room is all it needs."""
    outcome = run("-m", "tests.acceptance.fullfiles", str(sqlite_path))

    assert outcome["others"] == []
    assert len(outcome["refused"]) > 10
    assert outcome["exact"], "what was accepted is there in order, and nothing of what was refused"
    assert outcome["sound"] == "ok"


def test_a_database_at_its_limit_can_still_be_emptied(file_url: str, connect: Connect, sqlite_path: Path) -> None:
    """S13: claims and acks of what is there go on, and what they free is room for new messages."""
    hf = connect(file_url)
    hf.queue("q", history=0)
    for number in range(100):
        hf.enqueue("q", [number, "x" * 2000])
    limit_pages(hf, 1)
    with pytest.raises(StoreFull):
        fill(hf, 100)
    accepted = hf.stats("q").pending

    claims = hf.claim("q", n=50)
    assert [claim.message.body[0] for claim in claims] == list(range(50))
    hf.ack(claims)
    hf.enqueue("q", "room again")
    hf.nack(hf.claim("q"), "not now", delay=0)

    rest = hf.claim("q", n=1)
    rest += hf.claim("q", n=1000)
    hf.ack(rest)
    assert len(rest) == accepted - 50 + 1
    assert is_sound(sqlite_path)


def test_more_room_is_used_at_once(file_url: str, connect: Connect) -> None:
    """S13: recovers without a restart."""
    hf = connect(file_url)
    hf.queue("q")
    limit_pages(hf, 1)
    with pytest.raises(StoreFull):
        fill(hf, 100)
    accepted = hf.stats("q").pending

    limit_pages(hf, 100_000)
    fill(hf, 10)

    assert hf.stats("q").pending == accepted + 10


def limit_pages(hf: Holdfast, pages: int) -> None:
    """The file may not grow beyond this; SQLite raises a lower number to the present size."""
    internals(hf).store.database.write(lambda tx: tx.execute(f"PRAGMA max_page_count = {pages}"))  # type: ignore[attr-defined]


def fill(hf: Holdfast, count: int) -> None:
    for number in range(count):
        hf.enqueue("q", [number, "y" * 2000])


# --- never twice ------------------------------------------------------------------------------------------------------


def test_numbers_are_never_given_out_again(file_url: str, connect: Connect, sqlite_path: Path) -> None:
    """S14: positions, row numbers and tokens go on after all is consumed, after VACUUM and after reopening."""
    hf = connect(file_url)
    hf.queue("q", history=0)
    seen: list[tuple[int, int, int]] = []
    ids: set[str] = set()
    for _ in range(4):
        plain, delayed = hf.enqueue("q", "plain"), hf.enqueue("q", "delayed", delay=0.001)
        ids |= {plain.id, delayed.id}
        position, row = last_position(hf), last_row(hf)
        claims = [claim for _ in range(2) for claim in hf.claim("q", n=1, wait=5)]
        assert len(claims) == 2
        hf.ack(claims)
        assert (last_position(hf), last_row(hf)) == (0, 0), "all is consumed"
        seen.append((position, row, max(claim.lease.token for claim in claims)))
        hf.close()
        run("-c", "import apsw, sys; apsw.Connection(sys.argv[1]).execute('VACUUM'); print(0)", str(sqlite_path))

    assert len(ids) == 8
    for numbers in zip(*seen, strict=True):
        assert list(numbers) == sorted(set(numbers)), f"given out again: {seen}"


def last_position(hf: Holdfast) -> int:
    return int(ask(hf, "SELECT coalesce(max(position), 0) FROM holdfast_message"))


def last_row(hf: Holdfast) -> int:
    return int(ask(hf, "SELECT coalesce(max(seq), 0) FROM holdfast_row"))


def ask(hf: Holdfast, sql: str) -> Any:
    """Through the product's own connection: a second library on the file would break its locks."""
    found = internals(hf).store.database.read(lambda tx: tx._connection.rows(sql)[0][0])  # type: ignore[attr-defined]
    return found


# --- two libraries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ENGINES)
def test_two_libraries_on_one_file_in_one_process_are_refused(sqlite_path: Path, connect: Connect, first: str) -> None:
    """S7: each would drop the other's locks."""
    second = next(engine for engine in ENGINES if engine != first)
    hf = connect(f"sqlite:///{sqlite_path}?engine={first}")
    hf.enqueue("q", 1)
    link = sqlite_path.with_name("other.db")
    link.symlink_to(sqlite_path)

    for path in (sqlite_path, link):
        with pytest.raises(EngineConflict, match=f"{first}.*{second}"):
            connect(f"sqlite:///{path}?engine={second}").enqueue("q", 2)

    assert hf.stats("q").pending == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_library_that_deletes_the_log_is_noticed_before_anything_is_confirmed(
    tmp_path: Path, connect: Connect, engine: str
) -> None:
    """The application opens the same file itself, and closes it: its library deletes the log that we write to."""
    command = [sys.executable, "-m", "tests.acceptance.second_library", str(tmp_path), engine]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=GUARD, check=False)

    for outcome in json.loads(done.stdout):
        assert [said.split(":")[0] for said in outcome["said"]] == ["EngineConflict"] * 3, outcome
        assert all("engine=stdlib" in said and "Restart" in said for said in outcome["said"]), "it says what to do"
        hf = connect(f"sqlite:///{outcome['path']}?engine={engine}")
        assert [claim.message.id for claim in hf.claim("q", n=100)] == outcome["confirmed"], outcome["call"]
        assert ask(hf, "PRAGMA integrity_check") == "ok"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_that_nobody_closed_is_no_second_library(sqlite_path: Path, engine: str) -> None:
    """Its connections end with it, and SQLite deletes the log then."""
    url = f"sqlite:///{sqlite_path}?engine={engine}"
    for number in range(3):
        Holdfast(url).enqueue("q", number)
        gc.collect()
        assert Holdfast(url).stats("q").pending == number + 1
        gc.collect()
    other = next(one for one in ENGINES if one != engine)
    assert Holdfast(f"sqlite:///{sqlite_path}?engine={other}").stats("q").pending == 3


def test_a_log_of_the_second_library_is_not_overwritten(sqlite_path: Path) -> None:
    """When the application writes on, by a log of its own, nothing of ours may get in between."""
    program = (
        "import sqlite3, sys; from holdfast import EngineConflict, Holdfast\n"
        "path = sys.argv[1]; hf = Holdfast(f'sqlite:///{path}'); hf.enqueue('q', 1)\n"
        "first = sqlite3.connect(path); first.execute('CREATE TABLE app (x)'); first.close()\n"
        "second = sqlite3.connect(path)\n"
        "for number in range(1000): second.execute('INSERT INTO app VALUES (?)', (number,))\n"
        "second.commit()\n"
        "try: hf.enqueue_many('q', ['x' * 1000] * 1000)\n"
        "except EngineConflict: hf.close()\n"
        "print(second.execute('SELECT count(*) FROM app').fetchone()[0]); second.close()"
    )
    assert run("-c", program, str(sqlite_path)) == 1000
    assert is_sound(sqlite_path)
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        assert [claim.message.body for claim in hf.claim("q", n=10)] == [1]


def test_two_libraries_on_one_file_in_two_processes_share_it(
    family: Family, apsw_url: str, connect: Connect, sqlite_path: Path
) -> None:
    """Locks work between processes, whichever library each one uses."""
    connect(apsw_url).queue("q", history=0)
    for engine in ENGINES * 2:
        family.start("consume", url=f"{apsw_url}?engine={engine}", queue="q", n=5)
    senders = [
        family.start("produce", url=f"{apsw_url}?engine={e}", queue="q", name=e, count=1000, batch=5) for e in ENGINES
    ]
    for sender in senders:
        sender.finish()
    family.finish()

    assert faults(family.history()) == []
    assert len(family.history().acked) == 2000
    assert is_sound(sqlite_path)


def test_a_new_file_may_use_the_other_library_than_a_deleted_one(tmp_path: Path) -> None:
    """A deleted file's number is soon given to another file."""
    for number in range(20):
        path = tmp_path / f"{number}.db"
        with Holdfast(f"sqlite:///{path}?engine={ENGINES[number % 2]}") as hf:
            hf.enqueue("q", number)
            assert [claim.message.body for claim in hf.claim("q", n=10)] == [number]
        for file in tmp_path.glob(f"{number}.db*"):
            file.unlink() if file.is_file() else file.rmdir()
