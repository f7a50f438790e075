"""`holdfast doctor`: it sees what is wrong, says what to do, and changes nothing."""

import os
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import psycopg
import pytest

from holdfast import Holdfast, Step
from holdfast.client.client import internals
from holdfast.store import migrate
from holdfast.store.postgres import health as postgres_health
from tests.cli.commands import holdfast as run
from tests.cli.looking import Look, found, look_inside, not_ok, past
from tests.mounts import Mount


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
    return request.getfixturevalue("safe_url") if request.param == "postgres" else f"sqlite:///{sqlite_path}"


def test_a_saga_that_could_not_be_undone(db: str, look: Look) -> None:
    with Holdfast(db) as hf:
        hf.saga("trip", steps=[Step("a", "do", undo="undo"), Step("b", "then")])
        assert found(look(db)[1], "sagas") == [("ok", "none waits for someone to undo it")]
        hf.start_saga("trip", id="t1")
        hf.ack(hf.claim("do"))
        hf.dead_letter(hf.claim("then"), "no")
        hf.dead_letter(hf.claim("undo"), "never")
        code, findings = look(db)
        assert (code, found(findings, "sagas")) == (0, [("advice", "1 could not be undone")])
        hf.sagas.skip("t1", "a", "we pay")
        assert found(look(db)[1], "sagas") == [("ok", "none waits for someone to undo it")]


# --- nothing wrong ----------------------------------------------------------------------------------------------------


def test_a_healthy_database(db: str, look: Look, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.enqueue_many("emails", [1, 2, 3])
        hf.claim("emails")
        code, findings = look(db)
    assert (code, not_ok(findings)) == (0, {})
    assert all(finding.keys() == {"check", "state", "found", "advice"} for finding in findings)
    seen = {finding["check"] for finding in findings}
    assert {"versions", "durability", "clock", "schema", "WAL", "disk", "queues", "leases", "waiting"} <= seen
    assert ("file system" in seen) == db.startswith("sqlite")
    assert {"connections", "transactions"} <= seen or db.startswith("sqlite")
    assert found(findings, "leases") == [("ok", "emails: 1 open")]
    assert found(findings, "queues") == [("ok", "1")]


def test_people_get_a_list(db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.queues.pause("emails")
    answer = run("doctor", "--db", db, folder=tmp_path)
    lines = [line.rstrip() for line in answer.stdout.splitlines()]
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "advice  paused        emails" in lines
    assert any(line.strip() == "→ Nothing is handed out until `holdfast queues resume emails`." for line in lines)
    assert lines[-1] == "problems: 0, advice: 1"


def test_long_advice_is_not_cut_off(tmp_path: Path) -> None:
    answer = run("doctor", "--db", "sqlite:///work.db", folder=tmp_path)
    assert "A client or `holdfast migrate` creates it." in answer.stdout
    assert answer.stdout.splitlines()[-1] == "problems: 1, advice: 0"


# --- it changes nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["work.db", "no/such/folder/work.db"])
@pytest.mark.parametrize("engine", ["apsw", "stdlib"])
def test_a_missing_file_is_missing_and_stays_so(look: Look, tmp_path: Path, path: str, engine: str) -> None:
    code, findings = look(f"sqlite:///{path}?engine={engine}")
    assert code == 1
    assert found(findings, "file") == [("problem", f"{path} cannot be found: No such file or directory")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ["apsw", "stdlib"])
def test_an_empty_file_stays_empty(look: Look, sqlite_path: Path, engine: str) -> None:
    sqlite_path.touch()
    _, findings = look(f"sqlite:///{sqlite_path}?engine={engine}")
    assert found(findings, "schema") == [("advice", "there is nothing of Holdfast in this database")]
    assert contents(sqlite_path) == {"work.db": b""}


@pytest.mark.parametrize("engine", ["apsw", "stdlib"])
def test_a_closed_file_keeps_every_byte(look: Look, sqlite_path: Path, engine: str) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.enqueue("emails", 1)
    before = contents(sqlite_path)
    _, findings = look(f"sqlite:///{sqlite_path}?engine={engine}")
    assert found(findings, "queues") == [("ok", "1")]
    assert contents(sqlite_path) == before
    assert before.keys() == {"work.db"}


@pytest.mark.parametrize("engine", ["apsw", "stdlib"])
def test_what_a_crash_left_behind_stays(look: Look, sqlite_path: Path, engine: str) -> None:
    if os.fork() == 0:
        hf = Holdfast(f"sqlite:///{sqlite_path}")
        hf.enqueue("emails", 1)
        os._exit(0)
    os.wait()
    before = contents(sqlite_path)
    assert before["work.db-wal"]
    _, findings = look(f"sqlite:///{sqlite_path}?engine={engine}")
    assert found(findings, "queues") == [("ok", "1")]
    # The index of the log, -shm, is shared memory and belongs to whoever reads.
    assert {name: data for name, data in contents(sqlite_path).items() if name != "work.db-shm"} == {
        name: data for name, data in before.items() if name != "work.db-shm"
    }


def test_a_file_in_another_mode_stays_in_it(look: Look, sqlite_path: Path) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.enqueue("emails", 1)
    other = apsw.Connection(str(sqlite_path))
    other.execute("PRAGMA journal_mode = DELETE").fetchall()
    other.close()
    before = contents(sqlite_path)
    code, findings = look(f"sqlite:///{sqlite_path}")
    assert (code, not_ok(findings)) == (0, {"durability": "advice"})
    assert contents(sqlite_path) == before


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}


def test_an_empty_server_stays_empty(safe_url: str, look: Look) -> None:
    code, findings = look(safe_url)
    assert (code, not_ok(findings)) == (0, {"schema": "advice"})
    assert found(findings, "transactions") == [("ok", "no other is open")]
    with psycopg.connect(safe_url) as server:
        assert server.execute("SELECT to_regclass('holdfast_migration')").fetchone() == (None,)


# --- schema -----------------------------------------------------------------------------------------------------------


def test_an_old_schema_is_not_migrated(db: str, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        version = internals(hf).store.schema.version()
    load = migrate.load_migrations
    monkeypatch.setattr(
        migrate, "load_migrations", lambda database: [*load(database), (version + 1, "next", "CREATE TABLE x (y int);")]
    )
    code, findings = look_inside(db)
    assert (code, not_ok(findings)) == (0, {"schema": "advice"})
    assert found(findings, "schema") == [("advice", f"{version}, the newest is {version + 1}")]
    assert found(findings, "queues") == []
    monkeypatch.undo()
    assert found(look(db)[1], "schema") == [("ok", f"{version}, the newest")]


def test_a_newer_schema_is_a_problem(db: str, look: Look) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        internals(hf).store.database.write(
            lambda tx: tx.run("schema.record", number=99, name="from the future", digest="cafe")
        )  # type: ignore[attr-defined]
    code, findings = look(db)
    assert (code, not_ok(findings)) == (1, {"schema": "problem"})


def test_other_migrations_are_a_problem(db: str, look: Look) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        internals(hf).store.database.write(lambda tx: tx.execute("UPDATE holdfast_migration SET digest = 'cafe'"))  # type: ignore[attr-defined]
    code, findings = look(db)
    assert (code, not_ok(findings)) == (1, {"schema": "problem"})


def test_a_restored_dump_is_a_problem(safe_url: str, look: Look) -> None:
    with Holdfast(safe_url) as hf:
        hf.enqueue("emails", 1)
    with psycopg.connect(safe_url) as server:
        server.execute("UPDATE holdfast_message SET xid = '1000000000'")
    code, findings = look(safe_url)
    assert (code, not_ok(findings)) == (1, {"schema": "problem"})
    assert any("holdfast rebase" in str(finding["advice"]) for finding in findings)


# --- queues -----------------------------------------------------------------------------------------------------------


def test_leases_that_nobody_took_back(db: str, look: Look) -> None:
    with Holdfast(db, clock=past(60)) as hf:
        hf.enqueue_many("emails", [1, 2, 3])
        hf.enqueue("emails", "row", priority="high", delay=0.001)
        hf.claim("emails", lease=1)
        hf.claim("emails", lease=600)
        hf.settings.clock.advance(1)  # type: ignore[union-attr]
        hf.claim("emails", lease=1)
    code, findings = look(db)
    assert (code, not_ok(findings)) == (0, {"leases": "advice"})
    assert found(findings, "leases") == [("advice", "emails: 3 open, of which 2 ran out and were not taken back")]


def test_a_lease_that_ran_out_just_now_is_nothing_to_worry_about(db: str, look: Look) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        hf.claim("emails", lease=0.001)
    assert found(look(db)[1], "leases") == [("ok", "emails: 1 open")]


@pytest.mark.parametrize("options", [{}, {"delay": 1}, {"key": "k", "priority": "low"}])
def test_messages_that_nobody_claims(db: str, look: Look, options: dict[str, Any]) -> None:
    with Holdfast(db, clock=past(3 * 3600 + 60)) as hf:
        hf.queue("emails", ordering="per_key" if "key" in options else "unordered")
        hf.enqueue_many("emails", [1, 2], **options)
    code, findings = look(db)
    assert (code, not_ok(findings)) == (0, {"waiting": "advice"})
    [(_, text)] = found(findings, "waiting")
    assert text == "emails: the oldest message for 3 h"


def test_messages_that_were_claimed_or_are_not_due_do_not_wait(db: str, look: Look) -> None:
    with Holdfast(db, clock=past(3 * 3600 + 60)) as hf:
        hf.enqueue_many("emails", [1, 2])
        hf.enqueue("emails", 3, delay="1d")
        hf.claim("emails", n=2, lease="1d")
    assert not_ok(look(db)[1]) == {}


@pytest.mark.parametrize("options", [{}, {"delay": 1}, {"key": "k"}, {"ttl": "1h"}], ids=str)
def test_expired_messages_do_not_wait(db: str, look: Look, options: dict[str, Any]) -> None:
    clock = past(3 * 3600 + 60)
    with Holdfast(db, clock=clock) as hf:
        max_age = None if "ttl" in options else "2h"
        hf.queue("emails", ordering="per_key" if "key" in options else "unordered", max_age=max_age)
        hf.enqueue_many("emails", [1, 2], **options)
        assert not_ok(look(db)[1]) == {}
        clock.advance(2 * 3600)
        hf.enqueue("emails", 3, key=options.get("key"))
    assert found(look(db)[1], "waiting") == [("advice", "emails: the oldest message for 61 min")]


def test_what_is_left_of_a_half_claimed_batch_waits(db: str, look: Look) -> None:
    with Holdfast(db, clock=past(3 * 3600 + 60)) as hf:
        hf.enqueue_many("emails", [1, 2])
        hf.claim("emails", lease="1d")
    assert found(look(db)[1], "waiting") == [("advice", "emails: the oldest message for 3 h")]


def test_what_was_committed_late_waits_too(safe_url: str, look: Look) -> None:
    """Its transaction was still running when others, younger than it, had been claimed and done."""
    with Holdfast(safe_url) as hf, psycopg.connect(safe_url) as slow:
        hf.enqueue("emails", "first")
        slow.execute(
            "INSERT INTO holdfast_message (lane, id, body, enqueued_at)"
            " SELECT lane, gen_random_uuid(), body, enqueued_at - 10860000000 FROM holdfast_message"
        )
        hf.enqueue("emails", "second")
        hf.ack(hf.claim("emails", n=2))
        assert not_ok(look(safe_url)[1]) == {}
        slow.commit()
        assert found(look(safe_url)[1], "waiting") == [("advice", "emails: the oldest message for 3 h")]


def test_what_only_an_operator_can_decide(db: str, look: Look) -> None:
    with Holdfast(db, tenant="acme") as hf:
        hf.queue("orders", ordering="per_key", on_dead="block")
        hf.enqueue_many("orders", [1, 2], key="k")
        hf.dead_letter(hf.claim("orders"), "boom")
        hf.queues.pause("paused")
    code, findings = look(db)
    assert code == 0
    assert found(findings, "paused") == [("advice", "acme/paused")]
    assert found(findings, "blocked keys") == [("advice", "acme/orders: 1")]
    assert found(findings, "dead letters") == [("advice", "acme/orders: 1 not replayed")]
    assert found(findings, "waiting")[0][0] == "ok"
    with Holdfast(db, tenant="acme") as hf:
        hf.queues.resume("paused")
        hf.dead_letters.replay(hf.dead_letters.list("orders")[0].id)
    assert not_ok(look(db)[1]) == {}


# --- clock ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "code", "state"), [(30, 0, "advice"), (3600, 1, "problem")])
@pytest.mark.parametrize("act", ["enqueue", "delay", "ack", "dead_letter"])
def test_messages_from_the_future(db: str, look: Look, ahead: int, code: int, state: str, act: str) -> None:
    clock = past(0)
    with Holdfast(db, clock=clock) as hf:
        hf.queue("emails", history="1h" if act == "ack" else 0)
        if act in ("ack", "dead_letter"):
            hf.enqueue("emails", 1)
            claims = hf.claim("emails", lease="1d")
        clock.advance(ahead)
        if act == "enqueue":
            hf.enqueue("emails", 1)
        elif act == "delay":
            hf.enqueue("emails", 1, delay=1)
        elif act == "ack":
            hf.ack(claims)
        else:
            hf.dead_letter(claims, "boom")
    answer, findings = look(db)
    assert answer == code
    assert not_ok(findings)["clock"] == state


def test_a_server_whose_clock_differs(safe_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(time_ns=lambda: time.time_ns() - 90_000_000_000)
    monkeypatch.setattr(postgres_health, "time", wrong)
    _, findings = look_inside(safe_url)
    [told] = [text for state, text in found(findings, "clock") if state == "advice"]
    seconds = re.fullmatch(r"the server's is (\d+) s ahead of this machine's", told)
    assert seconds is not None, told
    assert 60 <= int(seconds[1]) <= 120, "asking takes time"


# --- SQLite -----------------------------------------------------------------------------------------------------------


def test_a_long_log(look: Look, sqlite_path: Path) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.enqueue("emails", 1)
    wal = sqlite_path.with_name("work.db-wal")
    wal.touch()
    os.truncate(wal, 150_000_000)
    code, findings = look(f"sqlite:///{sqlite_path}")
    assert (code, not_ok(findings)) == (0, {"WAL": "advice"})
    assert found(findings, "WAL") == [("advice", f"{wal}, 150 MB")]
    assert found(findings, "queues") == [("ok", "1")]


@pytest.mark.parametrize(("free", "code", "state"), [(10**8 - 1, 1, "problem"), (10**9 - 1, 0, "advice")])
def test_a_full_disk(sqlite_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, code: int, state: str) -> None:
    sqlite_path.touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    answer, findings = look_inside(f"sqlite:///{sqlite_path}")
    assert (answer, found(findings, "disk")[0][0]) == (code, state)


def test_a_network_file_system(sqlite_path: Path, mount: Mount) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.enqueue("emails", 1)
    before = contents(sqlite_path)
    mount("nfs4", sqlite_path.parent)
    code, findings = look_inside(f"sqlite:///{sqlite_path}")
    assert (code, not_ok(findings)) == (1, {"file system": "problem"})
    assert found(findings, "schema") == [], "the file was opened where it must not be"
    assert contents(sqlite_path).items() >= before.items()


def test_a_file_that_is_no_database(look: Look, sqlite_path: Path) -> None:
    sqlite_path.write_text("dear diary, " * 1000)
    code, findings = look(f"sqlite:///{sqlite_path}")
    assert (code, not_ok(findings)) == (1, {"database": "problem"})


def test_a_path_with_odd_characters(look: Look, tmp_path: Path) -> None:
    folder = tmp_path / "50% of a#b c"
    folder.mkdir()
    for engine in ("apsw", "stdlib"):
        url = f"sqlite:///{tmp_path}/50%25%20of%20a%23b%20c/{engine}.db?engine={engine}"
        with Holdfast(url) as hf:
            hf.enqueue("emails", 1)
        assert found(look(url)[1], "queues") == [("ok", "1")]
