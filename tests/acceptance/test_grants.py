"""The documented GRANTs, word by word, for a role that owns nothing: with them it can do everything."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast import CommitmentResult, Context, Holdfast, Message, NoAnswer, QueueFull, Step, StoreError, Wait
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.events import RuntimeEvent
from tests.docs.pages import ROOT, blocks
from tests.servers import PostgresServer
from tests.steps import beat, drain
from tests.waiting import eventually

PAGE = ROOT / "docs/howto/move-to-postgresql.md"
USUAL, GUARDED = [block.text for block in blocks(PAGE.read_text()) if block.language == "sql"]
"""What every server needs, and what one needs besides that lets nobody run functions."""
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
ASK = "SELECT has_table_privilege('app', %s, %s)"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Roles belong to a whole server, so it is one of its own."""
    with PostgresServer() as server:
        with psycopg.connect(server.url(), autocommit=True) as owner:
            owner.execute("CREATE ROLE app LOGIN")
        yield server


@pytest.fixture
def owner(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """The one who migrates; everything is new for every test."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        yield connection
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC")


def migrate(server: PostgresServer) -> None:
    with Holdfast(server.url()) as hf:
        hf.queues.list()


class Watched:
    """A client that notes which of its methods were called."""

    def __init__(self, hf: Holdfast) -> None:
        self.hf = hf
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self.hf, name)


@pytest.fixture
def app(server: PostgresServer, owner: psycopg.Connection[Any]) -> Iterator[Watched]:
    with Holdfast(server.url().replace("postgres@", "app@"), migrate=False, sweep_every=0) as hf:
        yield Watched(hf)


def use_everything(hf: Watched, url: str) -> set[str]:
    """Which public methods were left out."""
    put_everything(hf, url)
    end_everything(hf)
    check_everything(hf)
    operate(hf)
    ask(hf, url)
    public = {name for name, _ in inspect.getmembers(Holdfast, inspect.isfunction) if not name.startswith("_")}
    return public - hf.called


def put_everything(hf: Watched, url: str) -> None:
    """Every kind of message: in a lane, as a row, in order, once only, within a limit, in a caller's transaction."""
    hf.owner("boss")
    hf.owner("mia", owner="boss", escalate_after=0, inbox="inbox")
    hf.owner("dora", notify="digest", digest_every=0)
    hf.queue("q", max_attempts=2, backoff=None, owner="mia", dead_letter="graves", dead_retention="1h")
    hf.queue("ordered", ordering="per_key", on_dead="block", owner="dora")
    hf.queue("small", max_depth=2, history=0)
    hf.enqueue("q", "urgent", priority="urgent", headers={"a": 1}, correlation_id="c", reply_to="r")
    hf.enqueue_many("q", range(20))
    hf.enqueue("q", "later", delay=0.001, ttl=3600)
    hf.enqueue_many("ordered", ["a1", "a2", "b1"], key=lambda body: body[0])
    once = hf.enqueue("q", "once", idempotency_key="k")
    assert hf.enqueue("q", "once", idempotency_key="k").id == once.id
    hf.enqueue_many("small", [1, 2])
    with pytest.raises(QueueFull):
        hf.enqueue("small", 3)
    hf.queue("small", max_depth=2, max_age=1e-6, history=0)
    hf.enqueue("small", 3)
    assert hf.queues.settings("small")
    assert hf.claim("small") == []
    assert drain(hf, "small") == []
    tell_everyone(hf)
    with psycopg.connect(url) as conn:
        hf.enqueue("joined", "work", conn=conn)
        hf.enqueue("q", "work", delay=0.001, idempotency_key="joined", conn=conn)


def tell_everyone(hf: Watched) -> None:
    """A topic, in both forms; groups that read it, fail, look and leave."""
    hf.topic("t", no_subscribers="refuse")
    hf.topic("jobs", mode="queue")
    assert hf.topics.list() == ["jobs", "t"]
    hf.subscribe("t", "all", backoff=None)
    hf.subscribe("t", "some", patterns="t.x", start=0)
    told = hf.publish("t.x", 1)
    hf.publish_many("t.y", [2, 3])
    hf.subscribe("t", "since", start=told.id)
    hf.subscribe("t", "history", start="earliest")
    hf.nack(hf.claim("t", group="all", n=3), "no")
    assert [hf.stats(f"t/{group}").pending for group in ("all", "some", "since", "history")] == [3, 1, 3, 3]
    assert len(hf.queues.peek("t/some")) == len(hf.claim("t", group="some", n=5)) == 1
    assert hf.queues.purge("t/since") == 3
    hf.subscribe("t", "history", ordering="per_key")
    hf.groups.seek("history", "earliest")
    assert hf.groups.skip("t", "history", told.id)
    hf.claim("t", group="history", n=10)
    assert hf.groups.cancel("t", "history")
    assert hf.groups.remove("t", "history")
    hf.groups.heartbeat("t", "some")
    assert hf.groups.accept_loss("t", "some") == 0
    assert [one.group for one in hf.groups.list("t")] == ["all", "since", "some"]
    hf.subscriber("t.x", group="some", name="some", empty="terminate")(lambda message: None)


def end_everything(hf: Watched) -> None:
    """Every way for a claim to end, of runs and of rows."""
    first, second, third, fourth, fifth, *others = hf.claim("q", n=10)
    hf.extend([first, second])
    spend_reports.begin(internals(hf.hf), [first, second])
    spend_reports.spend(internals(hf.hf), first, 5)
    spend_reports.act(internals(hf.hf), second, "look")
    hf.release(second)
    hf.snooze(third, 0)
    hf.nack(fourth, "no")
    hf.dead_letter(fifth, "hopeless")
    hf.ack(first, {"result": 1})
    hf.ack(hf.claim("q", n=1, ack=others))
    while claims := hf.claim("q", n=3):
        hf.nack(claims, "no")
    for body in ("silent", "waiting"):
        hf.enqueue("q", body)
    hf.claim("q", lease=0.001)
    assert hf.claim("q", n=5, wait=1)
    hf.dead_letter(hf.claim("ordered"), "boom")
    assert hf.status(first.message.id).result == {"result": 1}


def check_everything(hf: Watched) -> None:
    """Results of checks, kept and swept away: of one that is over, and of one that is not."""
    hf.queue("checked", history=0, backoff=[3600])
    hf.enqueue_many("checked", [1, 2])
    done, failed = hf.claim("checked", n=2)
    for claim in (done, failed):
        results = [CommitmentResult("tidy", True, 0, "fine")]
        internals(hf).store.commitments.keep(settlements.acked([claim])[0], results)
    failed.nack("no")
    done.ack()
    hf.queues.sweep("checked")
    assert [len(hf.messages.commitments(claim.message.id)) for claim in (done, failed)] == [0, 1]


def operate(hf: Watched) -> None:
    """What an operator does."""
    told: list[Any] = []
    hf.on_notice(told.extend)
    assert hf.notices.escalate() > 0
    assert told
    assert hf.notices.report("crash_loop", "pool", "boom", owner="mia") == hf.notices.report(
        "crash_loop", "pool", "boom"
    )
    assert hf.notices.list()
    hf.notices.acknowledge(hf.notices.list()[0].id, remark="on it")
    assert {"boss", "mia"} <= set(hf.notices.owners())
    internals(hf).store.crew.beat("default", beat("w1", saturation=1))
    hf.consumers.attach("mailer", "q", weight=2)
    hf.consumers.detach("mailer", "q")
    assert (len(hf.consumers.list()), hf.consumers.amplification(), len(hf.consumers.attachments())) == (1, 1, 1)
    internals(hf).store.crew.leave("default", "w1")
    assert hf.queues.blocked("ordered")
    assert hf.queues.unblock("ordered", "a")
    assert hf.stats("q").dead == hf.dead_letters.count("q") > 2
    letters = hf.dead_letters.list("q")
    hf.dead_letters.replay(letters[0].id, body="mended")
    assert hf.dead_letters.replay_many("q", key=None, error="no")
    assert hf.cancel(hf.enqueue("q", "cancel me").id)
    assert hf.dead_letters.get(letters[-1].id) is not None
    assert hf.dead_letters.delete(letters[-1].id)
    assert hf.dead_letters.delete_many("q")
    assert hf.acting_as("anna").stats("q").dead == 0
    assert {record.act for record in hf.audit.list()} >= {"replay", "delete", "acknowledge"}
    assert hf.queues.budget("q") == hf.queues.reset_budget("q") == 5
    hf.queues.pause("q")
    assert hf.queues.is_paused("q")
    hf.queues.resume("q")
    assert hf.queues.peek("q")
    assert hf.queues.purge("q") > 0
    assert hf.messages.search(correlation_id="c")
    schedule(hf)
    command(hf)
    undertake(hf)
    consume(hf)
    for queue in hf.queues.list():
        hf.queues.sweep(queue)
    hf.maintain()
    seat = internals(hf).store.seats.take("default", "pool", "anna", 1, 60_000_000)
    assert internals(hf).store.seats.keep("default", "pool", seat, 60_000_000)
    assert internals(hf).store.seats.leave("default", "pool", seat)
    assert internals(hf).store.leaders.lead("default", "duty", "anna", 60_000_000)
    internals(hf).store.leaders.step_down("default", "duty", "anna")
    assert {finding.check: finding.state for finding in internals(hf).store.health.look()}["schema"] == "ok"


def ask(hf: Watched, url: str) -> None:
    """Somebody asks, and is gone for two hours."""
    with pytest.raises(NoAnswer):
        hf.ask("nobody", 1, timeout=0.01)
    for _ in range(2):
        with psycopg.connect(url) as conn:
            conn.execute("UPDATE holdfast_channel SET declared_at = 0 WHERE name LIKE 'holdfast.replies.%'")
        assert internals(hf).store.replies.forget("default", 10) == 1


def consume(hf: Watched) -> None:
    """Consumers at work, with everything that they write down about themselves and their messages."""
    events: list[Any] = []
    hf.on(RuntimeEvent, events.append)
    hf.around_execute(lambda context, proceed: proceed())
    hf.around_enqueue(lambda outgoing, proceed: proceed())

    @hf.consumer("worked", empty="terminate")
    def work(message: Message, context: Context) -> str:
        context.session = "s1"
        context.spend(1)
        context.enqueue("follows", 1)
        return context.session or ""

    pool = hf.pool(work, members="thread", min=1)
    sent = hf.enqueue("worked", 1)
    with hf.running():
        eventually(lambda: hf.status(sent.id).result == "s1", "it is done")
        eventually(lambda: internals(hf).store.seats.taken("default", pool.name), "it has a seat")
    internals(hf.hf).consumers.pools.clear()
    hf.enqueue("worked", 2)
    hf.run()
    hf.stop()
    assert hf.stats("follows").pending == 2
    assert events


def schedule(hf: Watched) -> None:
    """What is sent by the clock."""
    hf.schedule("s", queue="q", every=1)
    hf.schedule("s", queue="q", body="changed", cron="* * * * * *")
    hf.schedules.pause("s")
    hf.schedules.resume("s")
    eventually(hf.schedules.fire, "a second has passed")
    assert internals(hf).store.schedules.next_due("default") is not None
    hf.schedules.run("s")
    assert [one.name for one in hf.schedules.list()] == ["s"]
    assert hf.schedules.remove("s")


def command(hf: Watched) -> None:
    """Commands, with their transaction and without."""
    hf.command("Thing.Write")(lambda conn: 1)
    hf.command("Thing.Do")(lambda: 2)
    assert [one.name for one in hf.commands.list()] == ["Thing.Do", "Thing.Write"]
    assert [hf.commands.run(one.name, {}, idempotency_key="k") for one in hf.commands.list() * 2] == [2, 1, 2, 1]
    assert internals(hf).store.commands.forget("default", 10) == 0


def undertake(hf: Watched) -> None:
    """Sagas, forwards and backwards."""
    hf.saga("trip", steps=[Step("a", "does", undo="undoes", timeout=0.01), Wait("b", signal="go"), Step("c", "does")])
    hf.start_saga("trip", id="late")
    eventually(hf.sagas.advance, "the first step has timed out")
    for saga_id in ("one", "two"):
        hf.start_saga("trip", id=saga_id)
        hf.sagas.mark_done(saga_id, "a")
    assert hf.signal("one", "go")
    assert hf.sagas.skip("one", "c", "why not")
    assert hf.sagas.cancel("two")
    [undo] = hf.claim("undoes")
    undo.dead_letter("no")
    assert hf.sagas.retry("two", "a")
    hf.ack(hf.claim("undoes"))
    assert [saga.status for saga in hf.sagas.list()] == ["failed", "completed", "canceled"]
    assert hf.sagas.get("two").timeline


def test_with_the_documented_grants_a_role_can_do_everything(
    server: PostgresServer, owner: psycopg.Connection[Any], app: Watched
) -> None:
    migrate(server)
    owner.execute(USUAL.encode())
    assert use_everything(app, app.settings.url) == {"close"}


def test_a_server_that_lets_nobody_run_functions_needs_one_more(
    server: PostgresServer, owner: psycopg.Connection[Any], app: Watched
) -> None:
    owner.execute("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
    migrate(server)
    owner.execute(USUAL.encode())
    with pytest.raises(StoreError, match="permission denied for function"):
        app.enqueue("q", 1)
    owner.execute(GUARDED.encode())
    assert use_everything(app, app.settings.url) == {"close"}


def test_the_list_is_complete_and_no_longer_than_needed(server: PostgresServer, owner: psycopg.Connection[Any]) -> None:
    migrate(server)
    owner.execute(USUAL.encode())
    found = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
    rights = {
        table: {right for right in RIGHTS if owner.execute(ASK, (table, right)).fetchone() == (True,)}
        for (table,) in found
    }
    assert rights.pop("holdfast_migration") == {"SELECT"}
    assert rights == {table: {"SELECT", "INSERT", "UPDATE", "DELETE"} for table in rights}


def test_without_them_a_role_can_do_nothing(
    server: PostgresServer, owner: psycopg.Connection[Any], app: Watched
) -> None:
    migrate(server)
    with pytest.raises(StoreError, match="run `holdfast migrate`"):
        app.enqueue("q", 1)  # It cannot see that there is anything.
    owner.execute("GRANT USAGE ON SCHEMA public TO app; GRANT SELECT ON holdfast_migration TO app")
    with pytest.raises(StoreError, match="permission denied for table"):
        app.enqueue("q", 1)
