"""The database's structure: made once, by whoever comes first, and never by an older Holdfast."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, SchemaMismatch, SchemaTooNew, StoreError
from holdfast.client.client import internals
from holdfast.store.open import migration_script
from holdfast.store.sql import statements
from tests.steps import OpenClient, drain
from tests.stores import NO_QUEUE

pytestmark = [pytest.mark.both_engines, pytest.mark.not_through_sqs(NO_QUEUE)]

START = """
import sys
from holdfast import Holdfast
hf = Holdfast(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(hf.enqueue("q", sys.argv[2]).id, flush=True)
hf.close()
"""


@pytest.fixture
def url(empty_url: str) -> str:
    return empty_url


@pytest.fixture
def start() -> Iterator[Callable[[str, str], "subprocess.Popen[str]"]]:
    """Starts a process that opens the database and enqueues when it reads a line."""
    processes: list[subprocess.Popen[str]] = []

    def start_process(url: str, body: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", START, url, body]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return processes[-1]

    yield start_process
    for process in processes:
        process.kill()
        process.communicate()


def migrate_by_a_newer_holdfast(hf: Holdfast) -> None:
    hf.queue("q")
    schema = internals(hf).store.schema
    assert schema._database.apply(schema.newest + 1, "999_from_the_future", "")


def test_an_empty_database_is_made_ready_on_first_use(hf: Holdfast) -> None:
    assert internals(hf).store.schema.version() == 0
    hf.enqueue("q", 1)
    assert internals(hf).store.schema.version() == internals(hf).store.schema.newest > 0


def test_opening_alone_touches_nothing(client: OpenClient) -> None:
    client()
    assert internals(client()).store.schema.version() == 0


@pytest.mark.parametrize("use", ["queues", "dead_letters"])
def test_reading_makes_an_empty_database_ready_too(hf: Holdfast, use: str) -> None:
    assert getattr(hf, use).list() == []
    assert internals(hf).store.schema.version() == internals(hf).store.schema.newest


def test_migrating_twice_changes_nothing(hf: Holdfast, rival: Holdfast) -> None:
    hf.enqueue("q", "kept")
    assert internals(rival).store.schema.migrate() == []
    assert drain(rival) == ["kept"]


def test_a_fresh_database_runs_every_migration_in_order(hf: Holdfast) -> None:
    ran = internals(hf).store.schema.migrate()
    assert len(ran) == internals(hf).store.schema.newest
    assert ran == sorted(ran)


def test_processes_that_start_at_once_all_succeed(
    url: str, start: Callable[[str, str], "subprocess.Popen[str]"], hf: Holdfast
) -> None:
    processes = [start(url, str(number)) for number in range(4)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 4
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert errors == [""] * 4
    assert sorted(drain(hf)) == ["0", "1", "2", "3"]


def test_clients_of_one_process_that_start_at_once_all_succeed(client: OpenClient) -> None:
    clients = [client() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda hf: hf.enqueue("q", 1), clients))
    assert len(clients[0].claim("q", n=100)) == 6


@pytest.mark.parametrize("migrate", [True, False])
def test_a_database_of_a_newer_holdfast_is_refused(hf: Holdfast, client: OpenClient, migrate: bool) -> None:
    migrate_by_a_newer_holdfast(hf)
    older = client(migrate=migrate)
    for use in (lambda: older.enqueue("q", 1), older.queues.list, lambda: older.claim("q")):
        with pytest.raises(SchemaTooNew, match="upgrade"):
            use()


OTHERWISE = {
    "a changed text": ("UPDATE holdfast_migration SET digest = 'cafe' WHERE number = 1", "another text"),
    "a missing one": ("DELETE FROM holdfast_migration WHERE number = 1", "has not seen migration 001"),
    "an unknown one": (
        "UPDATE holdfast_migration SET name = '001_theirs' WHERE number = 1",
        "001_theirs.*does not know",
    ),
    "from before digests": ("ALTER TABLE holdfast_migration DROP COLUMN digest", "from before 0.1"),
}


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize("how", OTHERWISE)
def test_a_database_of_other_migrations_is_refused_and_left_alone(
    hf: Holdfast, client: OpenClient, how: str, migrate: bool
) -> None:
    statement, reason = OTHERWISE[how]
    hf.enqueue("q", "kept")
    internals(hf).store.schema._database._database.write(lambda tx: tx.execute(statement))
    stranger = client(migrate=migrate)
    for use in (
        lambda: stranger.enqueue("q", 1),
        stranger.queues.list,
        lambda: stranger.claim("q"),
        internals(stranger).store.schema.migrate,
    ):
        with pytest.raises(SchemaMismatch, match=f"{reason}.*restore a backup"):
            use()
    assert [message.body for message in hf.queues.peek("q", 10)] == ["kept"]


def test_what_was_run_by_hand_is_known_by_its_text(url: str, hf: Holdfast) -> None:
    script = migration_script(url)
    internals(hf).store.schema._database._database.write(lambda tx: [tx.execute(one) for one in statements(script)])
    assert internals(hf).store.schema.verify() == internals(hf).store.schema.newest
    assert internals(hf).store.schema.migrate() == []


def test_without_leave_to_migrate_an_empty_database_is_refused_with_advice(client: OpenClient) -> None:
    cautious = client(migrate=False)
    with pytest.raises(StoreError, match="migrate"):
        cautious.enqueue("q", 1)
    assert internals(cautious).store.schema.version() == 0


def test_without_leave_to_migrate_a_ready_database_works(hf: Holdfast, client: OpenClient) -> None:
    hf.queue("q")
    cautious = client(migrate=False)
    cautious.enqueue("q", "fine")
    assert drain(cautious) == ["fine"]


def test_a_client_that_was_refused_works_once_the_database_is_ready(hf: Holdfast, client: OpenClient) -> None:
    cautious = client(migrate=False)
    with pytest.raises(StoreError):
        cautious.queues.list()
    hf.queue("q")
    assert cautious.queues.list() == ["q"]


# --- in pieces, and several at once -----------------------------------------------------------------------------------


KILLED = """
import os, signal, sys
from holdfast import Holdfast
from holdfast.client.client import internals
hf, where = Holdfast(sys.argv[1]), sys.argv[2]

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

schema = internals(hf).store.schema._database
apply = schema.apply

def apply_and_die(number, name, script):
    if where == "inside the second" and number == 2:
        kind = {"sqlite": "holdfast.store.sqlite.connection", "postgresql": "holdfast.store.postgres.connection"}
        module = __import__(kind[sys.argv[1].partition(":")[0]], fromlist=["x"])
        transaction = getattr(module, "SqliteTransaction", None) or module.PostgresTransaction
        run = transaction.run
        def run_or_die(tx, query, **parameters):
            if query == "schema.record":
                kill()
            return run(tx, query, **parameters)
        transaction.run = run_or_die
    apply(number, name, script)
    if where == "after the first":
        kill()

schema.apply = apply_and_die
hf.queues.list()
"""


@pytest.mark.parametrize("where", ["after the first", "inside the second"])
def test_migrations_go_on_where_a_killed_process_has_left_them(url: str, hf: Holdfast, where: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, url, where], check=False)
    assert killed.returncode == -signal.SIGKILL
    schema = internals(hf).store.schema
    assert schema.version() == 1
    ran = schema.migrate()
    assert (len(ran), schema.version()) == (schema.newest - 1, schema.newest)
    hf.enqueue("q", "works")
    assert drain(hf) == ["works"]


def test_a_process_with_other_migrations_that_was_faster_is_noticed(hf: Holdfast, rival: Holdfast) -> None:
    """It has run its own between our look at the database and our first migration."""
    number, name, text = internals(rival).store.schema.known.all[0]
    internals(rival).store.schema.known.all[0] = (number, name, f"{text}-- theirs\n")
    ours = internals(hf).store.schema
    apply = ours._database.apply

    def apply_late(*migration: object) -> bool:
        internals(rival).store.schema.migrate()
        return apply(*migration)

    ours._database.apply = apply_late
    with pytest.raises(SchemaMismatch, match="another text"):
        hf.enqueue("q", 1)
