"""Commands: typed input, receipts, and effects in the same database that happen once, whoever runs at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from holdfast import AsyncHoldfast, CommandParameter, Holdfast, InvalidInput, QueueFull, UnknownCommand
from holdfast.client.async_client import async_internals
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, drain, together

pytestmark = pytest.mark.of_queues

DAY = 24 * 3600


class Effects:
    """A table of the user's own, written and counted through the connections that commands get."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        hf.queue("q")
        with internals(hf).store.lend() as conn:
            conn.execute("CREATE TABLE effect (what TEXT)")

    def all(self) -> list[str]:
        with internals(self._hf).store.lend() as conn:
            return [what for (what,) in conn.execute("SELECT what FROM effect ORDER BY what").fetchall()]


@pytest.fixture
def effects(hf: Holdfast) -> Effects:
    return Effects(hf)


def declare_writer(hf: Holdfast) -> list[str]:
    """A command with an effect in the database, `def` and `async def`; what they were called with."""
    calls: list[str] = []

    @hf.command("Thing.Write")
    def write(what: str, fail: bool = False, *, conn: Any) -> str:
        calls.append(what)
        conn.execute(f"INSERT INTO effect VALUES ('{what}')")
        if fail:
            raise RuntimeError("boom")
        return f"wrote {what}"

    @hf.command("Thing.WriteLater")
    async def write_later(what: str, fail: bool = False, *, conn: Any) -> str:
        calls.append(what)
        await execute(conn, f"INSERT INTO effect VALUES ('{what}')")
        if fail:
            raise RuntimeError("boom")
        return f"wrote {what}"

    return calls


async def execute(conn: Any, sql: str) -> None:
    """psycopg's asyncio connection has to be awaited, those to SQLite cannot be."""
    found = conn.execute(sql)
    if asyncio.iscoroutine(found):
        await found


WRITERS = pytest.mark.parametrize("writer", ["Thing.Write", "Thing.WriteLater"])


# --- input ----------------------------------------------------------------------------------------------------------


def test_input_is_converted_by_the_annotations(hf: Holdfast) -> None:
    @hf.command("Incident.Create")
    def create(title: str, at: datetime, tags: list[str], level: Literal["high", "low"] = "low") -> Any:
        assert isinstance(at, datetime)
        return [title, at.hour, tags, level]

    given = {"title": "disk", "at": "2026-01-02T03:04:05Z", "tags": ["a"]}
    assert hf.commands.run("Incident.Create", given) == ["disk", 3, ["a"], "low"]
    assert hf.commands.run(
        "Incident.Create", {**given, "at": datetime(2026, 1, 1, 5, tzinfo=UTC), "level": "high"}
    ) == [
        "disk",
        5,
        ["a"],
        "high",
    ]
    assert create("as it is", datetime(2026, 1, 1, tzinfo=UTC), []) == ["as it is", 0, [], "low"]


class Place(msgspec.Struct):
    city: str
    floor: int = 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "missing required field `place`"),
        ({"place": {"city": "Bern"}, "size": 3, "colour": "red"}, "unknown field `colour`"),
        ({"place": {"city": 7}}, r"got `int` - at `\$.place.city`"),
        ({"place": {"city": "Bern", "floor": "2"}}, r"got `str` - at `\$.place.floor`"),
        ({"place": {"city": "Bern"}, "size": -1}, r"at `\$.size`"),
        ({"place": {"city": "Bern"}, "context": 1}, "unknown field `context`"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_the_place(hf: Holdfast, given: dict[str, Any], says: str) -> None:
    called = []

    @hf.command("Thing.Move")
    def move(place: Place, context: Any, size: Annotated[int, msgspec.Meta(ge=0)] = 1) -> None:
        called.append(place)

    with pytest.raises(InvalidInput, match=f"does not fit Thing.Move: .*{says}"):
        hf.commands.run("Thing.Move", given)
    assert not called


def test_a_default_is_pythons_own(hf: Holdfast) -> None:
    @hf.command("List.Add")
    def add(what: int, to: list[int] = [1, 2]) -> list[int]:  # noqa: B006
        return [*to, what]

    assert hf.commands.run("List.Add", {"what": 3}) == [1, 2, 3]


def test_commands_are_listed_with_their_parameters(hf: Holdfast) -> None:
    @hf.command("Incident.Create")
    def create(title: str, *, conn: Any, level: int = 3, anything=None) -> None:  # type: ignore[no-untyped-def]
        """Makes one."""

    @hf.command("Incident.Close")
    async def close(context: Any, number: int) -> None: ...

    closing, creating = hf.commands.list()
    assert (closing.name, creating.name, creating.doc) == ("Incident.Close", "Incident.Create", "Makes one.")
    assert (closing.transactional, creating.transactional) == (False, True)
    assert closing.parameters == [CommandParameter("number", int, True)]
    assert creating.parameters == [
        CommandParameter("title", str, True),
        CommandParameter("level", int, False, 3),
        CommandParameter("anything", Any, False, None),
    ]
    assert creating.schema["$defs"]["Incident_Create"]["required"] == ["title"]


def test_an_unknown_command_is_refused_with_a_guess(hf: Holdfast) -> None:
    with pytest.raises(UnknownCommand, match=r"no command 'A.B': none is declared"):
        hf.commands.run("A.B", {})

    @hf.command("Incident.Create")
    def create() -> None: ...

    with pytest.raises(UnknownCommand, match=r"did you mean 'Incident.Create'\?"):
        hf.commands.run("Incident.Craete", {})
    with pytest.raises(UnknownCommand, match=r"declared are Incident.Create"):
        hf.commands.run("Zebra.Feed", {})
    with pytest.raises(InvalidInput, match="already"):
        hf.command("Incident.Create")(create)


# --- receipts -------------------------------------------------------------------------------------------------------


@WRITERS
def test_a_second_run_under_a_key_gets_the_first_ones_result(hf: Holdfast, effects: Effects, writer: str) -> None:
    calls = declare_writer(hf)
    assert hf.commands.run(writer, {"what": "a"}, idempotency_key="k") == "wrote a"
    assert hf.commands.run(writer, {"what": "b"}, idempotency_key="k") == "wrote a"
    assert hf.commands.run(writer, {"what": "c"}, idempotency_key="other") == "wrote c"
    assert hf.commands.run(writer, {"what": "d"}) == "wrote d"
    assert (calls, effects.all()) == (["a", "c", "d"], ["a", "c", "d"])


@WRITERS
def test_what_fails_leaves_neither_an_effect_nor_a_receipt(hf: Holdfast, effects: Effects, writer: str) -> None:
    declare_writer(hf)
    with pytest.raises(RuntimeError, match="boom"):
        hf.commands.run(writer, {"what": "a", "fail": True}, idempotency_key="k")
    assert effects.all() == []
    assert hf.commands.run(writer, {"what": "b"}, idempotency_key="k") == "wrote b"
    assert effects.all() == ["b"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_command_without_the_connection_has_a_receipt_too(hf: Holdfast, kind: str) -> None:
    calls = []

    def note(what: str, context: Any) -> dict[str, Any]:
        calls.append(what)
        return {"what": what, "attempt": context.attempt, "key": context.idempotency_key}

    async def note_later(what: str, context: Any) -> dict[str, Any]:
        return note(what, context)

    hf.command("Thing.Note")(note if kind == "def" else note_later)
    first = hf.commands.run("Thing.Note", {"what": "a"}, idempotency_key="k")
    assert first == {"what": "a", "attempt": 1, "key": "k"}
    assert hf.commands.run("Thing.Note", {"what": "b"}, idempotency_key="k") == first
    assert calls == ["a"]


def test_a_key_belongs_to_one_command_and_one_tenant(client: OpenClient) -> None:
    for hf in (client(tenant="acme"), client(tenant="other")):
        for name in ("Thing.One", "Thing.Two"):
            hf.command(name)(lambda who=f"{hf.settings.tenant} {name}": who)
            assert hf.commands.run(name, {}, idempotency_key="k") == f"{hf.settings.tenant} {name}"


def test_a_receipt_of_nothing_is_a_receipt(hf: Holdfast, effects: Effects) -> None:
    calls = []

    @hf.command("Thing.Silent")
    def silent(conn: Any) -> None:
        calls.append(1)

    assert [hf.commands.run("Thing.Silent", {}, idempotency_key="k") for _ in range(2)] == [None, None]
    assert calls == [1]


def test_receipts_are_kept_for_a_day_and_then_removed_bit_by_bit(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q")
    calls = []

    @hf.command("Thing.Note")
    def note(what: int) -> int:
        calls.append(what)
        return what

    for number in range(250):
        hf.commands.run("Thing.Note", {"what": number}, idempotency_key=str(number))
    clock.advance(DAY - 1)
    assert hf.commands.run("Thing.Note", {"what": -1}, idempotency_key="0") == 0
    assert internals(hf).store.commands.forget("default", 100) == 0
    clock.advance(2)
    assert hf.commands.run("Thing.Note", {"what": -1}, idempotency_key="0") == -1
    assert [internals(hf).store.commands.forget("default", 100) for _ in range(4)] == [100, 100, 49, 0]
    assert hf.commands.run("Thing.Note", {"what": -2}, idempotency_key="0") == -1
    assert hf.commands.run("Thing.Note", {"what": -3}, idempotency_key="7") == -3


def test_maintenance_removes_receipts(hf: Holdfast, clock: FakeClock) -> None:
    hf.command("Thing.Do")(lambda: 1)
    hf.commands.run("Thing.Do", {}, idempotency_key="k")
    assert hf.maintain() == 0
    clock.advance(DAY + 1)
    assert hf.maintain() == 1


def test_rivals_under_one_key_have_one_effect(client: OpenClient, hf: Holdfast, effects: Effects) -> None:
    """The database decides: a second one waits for the first, wherever it runs."""
    clients = [client(worker=f"w{number}") for number in range(4)]
    answers = []
    for each in clients:
        declare_writer(each)

    def race(number: int) -> None:
        given = {"what": f"x{number % 5}"}
        answers.append(clients[number % 4].commands.run("Thing.Write", given, idempotency_key=given["what"]))

    together(race, range(40))
    assert effects.all() == [f"x{number}" for number in range(5)]
    assert sorted(set(answers)) == [f"wrote x{number}" for number in range(5)]
    assert len(answers) == 40


def test_whoever_waits_for_a_rival_that_fails_runs_itself(hf: Holdfast, rival: Holdfast, effects: Effects) -> None:
    declare_writer(rival)
    begun, waiting = threading.Event(), threading.Event()

    @hf.command("Thing.Write")
    def write(what: str, conn: Any) -> None:
        conn.execute("INSERT INTO effect VALUES ('undone')")
        begun.set()
        assert waiting.wait(100)
        raise RuntimeError("too late")

    def first() -> None:
        with pytest.raises(RuntimeError, match="too late"):
            hf.commands.run("Thing.Write", {"what": "a"}, idempotency_key="k")

    def second() -> None:
        assert begun.wait(100)
        threading.Timer(0.2, waiting.set).start()
        assert rival.commands.run("Thing.Write", {"what": "b"}, idempotency_key="k") == "wrote b"

    together(lambda work: work(), [first, second])
    assert effects.all() == ["b"]


# --- the transaction ------------------------------------------------------------------------------------------------


@contextmanager
def refused(conn: Any) -> Iterator[None]:
    """Commits and rollbacks by habit are refused, in whichever words of the driver's or ours."""
    with pytest.raises(Exception, match=r"(?i)commit|rolled back|forbidden|attribute"):
        yield


def test_a_command_cannot_end_its_transaction_by_habit(hf: Holdfast, effects: Effects) -> None:
    @hf.command("Thing.Commit")
    def commits(conn: Any) -> None:
        conn.execute("INSERT INTO effect VALUES ('early')")
        with refused(conn):
            conn.commit()
        with refused(conn):
            conn.rollback()
        raise RuntimeError("after all")

    with pytest.raises(RuntimeError, match="after all"):
        hf.commands.run("Thing.Commit", {}, idempotency_key="k")
    assert effects.all() == []


def test_a_part_of_a_transaction_may_fail_alone(hf: Holdfast, effects: Effects) -> None:
    @hf.command("Thing.Parts")
    def parts(conn: Any) -> None:
        conn.execute("INSERT INTO effect VALUES ('whole')")
        for what in ("part", "other part"):
            with suppress(ZeroDivisionError), conn.transaction() if hasattr(conn, "transaction") else conn:
                conn.execute(f"INSERT INTO effect VALUES ('{what}')")
                1 / (what != "part")

    hf.commands.run("Thing.Parts", {})
    assert effects.all() == ["other part", "whole"]


@pytest.mark.parametrize("with_conn", [True, False])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_a_command_enqueues_arrives_if_it_returns(
    hf: Holdfast, effects: Effects, with_conn: bool, key: str | None, kind: str
) -> None:
    """Also into a queue that nobody has heard of: on SQLite the command itself holds the lock that this needs."""

    def plain(fail: bool, context: Any) -> None:
        context.enqueue("unheard of", "news", key="k")
        if fail:
            raise RuntimeError("boom")

    def within(fail: bool, context: Any, conn: Any) -> None:
        conn.execute("INSERT INTO effect VALUES ('x')")
        plain(fail, context)

    async def plain_later(fail: bool, context: Any) -> None:
        await context.enqueue("unheard of", "news", key="k")
        if fail:
            raise RuntimeError("boom")

    async def within_later(fail: bool, context: Any, conn: Any) -> None:
        await execute(conn, "INSERT INTO effect VALUES ('x')")
        await plain_later(fail, context)

    chosen = {"def": (plain, within), "async def": (plain_later, within_later)}[kind][with_conn]
    hf.command("Thing.Tell")(chosen)
    with pytest.raises(RuntimeError):
        hf.commands.run("Thing.Tell", {"fail": True}, idempotency_key=key)
    assert drain(hf, "unheard of") == []
    hf.commands.run("Thing.Tell", {"fail": False}, idempotency_key=key)
    hf.commands.run("Thing.Tell", {"fail": False}, idempotency_key=key)
    assert drain(hf, "unheard of") == ["news"] * (1 if key else 2)


def test_what_does_not_fit_undoes_the_whole_command(hf: Holdfast, effects: Effects) -> None:
    hf.queue("small", max_depth=1)
    hf.enqueue("small", 1)

    @hf.command("Thing.Tell")
    def tell(conn: Any, context: Any) -> None:
        conn.execute("INSERT INTO effect VALUES ('x')")
        context.enqueue("small", 2)

    with pytest.raises(QueueFull):
        hf.commands.run("Thing.Tell", {}, idempotency_key="k")
    assert effects.all() == []


def test_the_connection_serves_for_our_own_calls(hf: Holdfast, effects: Effects) -> None:
    @hf.command("Thing.Tell")
    def tell(conn: Any) -> None:
        hf.enqueue("q", "with the command", conn=conn)
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        hf.commands.run("Thing.Tell", {})
    assert drain(hf) == []


def test_a_result_that_is_no_json_is_the_commands_mistake(hf: Holdfast, effects: Effects) -> None:
    @hf.command("Thing.Odd")
    def odd(conn: Any) -> object:
        conn.execute("INSERT INTO effect VALUES ('x')")
        return object()

    with pytest.raises(TypeError, match=r"Thing\.Odd returned is of no use"):
        hf.commands.run("Thing.Odd", {})
    assert effects.all() == []


# --- asyncio --------------------------------------------------------------------------------------------------------


@WRITERS
def test_asyncio_runs_both_kinds(hf: Holdfast, effects: Effects, url: str, writer: str, clock: FakeClock) -> None:
    async def main() -> list[Any]:
        async with AsyncHoldfast(url, clock=clock) as client:
            declare_writer(async_internals(client).hf)
            assert [one.name for one in client.commands.list()] == ["Thing.Write", "Thing.WriteLater"]
            runs = [client.commands.run(writer, {"what": f"x{n}"}, idempotency_key=str(n % 2)) for n in range(6)]
            return await asyncio.gather(*runs)

    answers = asyncio.run(main())
    assert (len(answers), len(set(answers)), len(effects.all())) == (6, 2, 2)


def test_a_cancelled_run_leaves_nothing(hf: Holdfast, effects: Effects, url: str, clock: FakeClock) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url, clock=clock) as client:
            begun = asyncio.Event()

            @client.command("Thing.Slow")
            async def slow(conn: Any) -> None:
                await execute(conn, "INSERT INTO effect VALUES ('x')")
                begun.set()
                await asyncio.sleep(60)

            running = asyncio.create_task(client.commands.run("Thing.Slow", {}, idempotency_key="k"))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(main())
    assert effects.all() == []


def test_an_async_def_on_a_running_loop_needs_the_other_client(hf: Holdfast) -> None:
    @hf.command("Thing.Later")
    async def later() -> None: ...

    async def main() -> None:
        with pytest.raises(InvalidInput, match="AsyncHoldfast"):
            hf.commands.run("Thing.Later", {})

    asyncio.run(main())
