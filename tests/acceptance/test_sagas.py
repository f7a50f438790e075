"""G1-G6: sagas with real processes, killed at every write and by chance: all done or all undone."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, Step, Wait
from holdfast.client.client import internals
from holdfast.sagas.steps import instances as sagas
from holdfast.store.ids import new_id
from tests.acceptance.children import ROOT
from tests.acceptance.saga_workers import STEPS, Ledger, declare
from tests.acceptance.test_sqlite_crash import run
from tests.long import only_long, size
from tests.waiting import spend

SAGAS = size(150, 1000, "HOLDFAST_SAGAS")
WORKERS = 3
GUARD = 100.0 + SAGAS
ENDS = ("completed", "compensated", "failed", "canceled")


@pytest.mark.parametrize("way", [pytest.param("forwards", marks=only_long), "backwards"])
@pytest.mark.parametrize("db", ["sqlite", pytest.param("postgres", marks=only_long)], indirect=True)
def test_killed_at_any_write_a_saga_goes_on_where_it_was(db: str, tmp_path: Path, way: str) -> None:
    outcome = run("-m", "tests.acceptance.saga_crashes", db, str(tmp_path), way)
    assert outcome["faults"] == []
    assert outcome["left"] == {}
    turns = 6 if way == "forwards" else 10
    assert len(outcome["points"]) == turns
    assert min(outcome["points"]) > 5, "every turn has a transaction or two"
    assert outcome["again"] > turns, "some were killed between what they did and their ack"


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_whatever_happens_to_workers_all_is_done_or_all_undone(db: str) -> None:
    with Holdfast(db) as hf, closing(Ledger(db)) as ledger:
        declare(hf)
        with ThreadPoolExecutor(20) as starters:
            list(starters.map(lambda number: hf.start_saga("s", {"n": number}, id=f"s{number}"), range(SAGAS)))
        deaths = work_until_all_ended(hf, db)
        sagas = [saga for status in ENDS for saga in hf.sagas.list(status, n=1000)]
        assert len(sagas) == SAGAS
        found = ledger.lines()
    for saga in sagas:
        done = {step for step in STEPS if f"{saga.id}/{step}" in found}
        assert done == (set(STEPS) if saga.status == "completed" else set()), (saga.status, saga.id, done)
    assert {saga.status for saga in sagas} >= {"completed", "compensated"}
    assert deaths > 0, "no worker died, so the test has shown less than it could"


def work_until_all_ended(hf: Holdfast, url: str) -> int:
    """Keeps workers at work, and is the operator who retries what could not be undone; how many workers died."""
    command = [sys.executable, "-m", "tests.acceptance.saga_workers", url]
    seeds = iter(range(1000))
    start = lambda: subprocess.Popen([*command, str(next(seeds))], cwd=ROOT, stdin=subprocess.PIPE)  # noqa: E731
    workers, deaths, deadline = [start() for _ in range(WORKERS)], 0, time.monotonic() + GUARD
    try:
        while sum(len(hf.sagas.list(status, n=1000)) for status in ENDS) < SAGAS:
            assert time.monotonic() < deadline, [
                (saga.id, saga.status) for saga in hf.sagas.list() if saga.status not in ENDS
            ]
            for saga in hf.sagas.list("compensation_failed"):
                for step in saga.steps:
                    hf.sagas.retry(saga.id, step.name)
            for place, worker in enumerate(workers):
                if worker.poll() is not None:
                    assert worker.returncode == 9
                    deaths += 1
                    workers[place] = start()
            spend(0.5)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
            if worker.stdin is not None:
                worker.stdin.close()
    return deaths


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_a_timeout_and_a_success_at_once_have_one_winner(db: str) -> None:
    moment = [time.time_ns() // 1000]
    with Holdfast(db, clock=lambda: moment[0]) as hf, Holdfast(db, clock=lambda: moment[0]) as other:
        hf.saga("s", steps=[Step("a", "a", undo="una", timeout=5)])
        for number in range(15):
            saga_id = f"s{number}"
            hf.start_saga("s", id=saga_id)
            [claim] = hf.claim("a")
            moment[0] += 6_000_000
            at_once(claim.ack, other.sagas.advance)
            for undo in hf.claim("una"):
                undo.ack()
            saga = hf.sagas.get(saga_id)
            assert saga is not None
            what = [line.what for line in saga.timeline]
            assert (saga.status, what.count("completed_late")) in (("completed", 0), ("compensated", 1)), what


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_answers_of_many_drivers_at_once_are_one_transition_each(db: str) -> None:
    names = [f"p{number}" for number in range(4)]
    with ExitStack() as clients:  # What one of them is told at once, it does at once.
        hf, *drivers = [clients.enter_context(Holdfast(db)) for _ in range(5)]
        hf.saga("s", steps=[[Step(name, name) for name in names], Step("last", "last")])
        for number in range(10):
            hf.start_saga("s", id=f"s{number}")
            claims = [driver.claim(name)[0] for driver, name in zip(drivers, names, strict=True)]
            at_once(*(claim.ack for claim in claims))
            assert hf.stats("last").pending == number + 1, "the last step is sent once"
            saga = hf.sagas.get(f"s{number}")
            assert saga is not None
            assert [step.status for step in saga.steps] == ["completed"] * 4 + ["running"]


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_the_same_id_from_many_starters_is_one_saga(db: str) -> None:
    with ExitStack() as clients:
        starters = [clients.enter_context(Holdfast(db)) for _ in range(6)]
        starters[0].saga("s", steps=[Step("a", "a")])
        at_once(*(partial(hf.start_saga, "s", {"n": 1}, id="x") for hf in starters))
        assert starters[0].stats("a").pending == 1


def test_who_moves_a_saga_and_who_ends_a_step_in_an_ordered_queue_take_turns(postgres_url: str) -> None:
    """Two who lock the same things in another order would stand still for a second, until the server ends one."""
    with Holdfast(postgres_url) as hf, Holdfast(postgres_url) as other:
        hf.queue("x", ordering="fifo")
        hf.queue("y", ordering="fifo")
        hf.saga("round", steps=[[Step("a", "x"), Step("c", "x"), Step("b", "z")]])
        hf.saga("there", steps=[Step("a", "x"), Step("b", "y")])
        hf.saga("back", steps=[Step("a", "y"), Step("b", "x")])
        before = deadlocks(postgres_url)
        for number in range(15):
            turns_round(hf, other, f"round{number}")
            there_and_back(hf, other, number)
            withdrawn_behind_another(hf, other, number)
    assert deadlocks(postgres_url) == before


def turns_round(hf: Holdfast, other: Holdfast, saga_id: str) -> None:
    """One step ends while the end of another withdraws what waits behind it."""
    hf.start_saga("round", id=saga_id)
    [first], [second] = hf.claim("x"), other.claim("z")
    at_once(first.ack, lambda: other.dead_letter(second, "no"))
    assert hf.claim("x") == []


def there_and_back(hf: Holdfast, other: Holdfast, number: int) -> None:
    """The next step of each goes to the queue that the other's step was in."""
    hf.start_saga("there", id=f"there{number}")
    hf.start_saga("back", id=f"back{number}")
    at_once(hf.claim("x")[0].ack, other.claim("y")[0].ack)
    hf.ack([*hf.claim("x"), *hf.claim("y")])


def withdrawn_behind_another(hf: Holdfast, other: Holdfast, number: int) -> None:
    """What waits is withdrawn at the moment in which it would be its turn."""
    hf.start_saga("there", id=f"first{number}")
    hf.start_saga("there", id=f"second{number}")
    [claim] = hf.claim("x")
    at_once(claim.ack, lambda: other.sagas.cancel(f"second{number}"))
    assert hf.claim("x") == []
    hf.ack(hf.claim("y"))


def deadlocks(url: str) -> int:
    """How many the server has broken so far; it counts what a session has seen when that session ends."""
    with psycopg.connect(url, autocommit=True) as connection:
        [(found,)] = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(found)


def test_a_signal_whose_answer_was_lost_counts_once(postgres_url: str) -> None:
    with Holdfast(postgres_url) as hf:
        hf.saga("s", steps=[Wait("a", signal="other"), Wait("b", signal="go")])
        hf.start_saga("s", id="x")
        call, about = new_id(), ("default", "x", "go", b"1", "anna")

        def again(tx: Any) -> bool:
            tx.again = True
            return sagas.signal(tx, call, *about)

        database: Any = internals(hf).store
        assert database.database.write(lambda tx: sagas.signal(tx, call, *about))
        assert database.database.write(again)
        found = hf.sagas.get("x")
        assert found is not None
        assert [line.what for line in found.timeline] == ["started", "signal"]


def test_texts_go_in_the_encoding_of_the_callers_connection(postgres_url: str) -> None:
    with Holdfast(postgres_url) as hf, psycopg.connect(postgres_url, client_encoding="latin1") as connection:
        hf.saga("s", steps=[[Step("a", "a"), Step("b", "b")]])
        hf.start_saga("s", id="zürich", conn=connection)
        connection.commit()
        assert [claim.message.correlation_id for claim in hf.claim("a", "b", n=2)] == ["zürich"] * 2


def at_once(*calls: Any) -> None:
    """Calls that begin at the same moment, each in a thread; the first error of any is raised."""
    gate, faults = threading.Barrier(len(calls)), list[BaseException]()

    def go(call: Any) -> None:
        gate.wait()
        try:
            call()
        except BaseException as problem:
            faults.append(problem)

    threads = [threading.Thread(target=go, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
