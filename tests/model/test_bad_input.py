"""I23 (H1, H2, H6, T5): bad input is refused in our own words on every store, and changes nothing."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Claim, Holdfast, HoldfastError, InvalidInput
from holdfast.core.message import DEEPEST
from holdfast.core.queue import QueueSettings
from holdfast.schedules.rules import ScheduleSettings
from holdfast.topics.rules.declaration import GroupSettings, TopicSettings
from holdfast.worker.consumer import ConsumerOptions
from holdfast.worker.pools.pool import PoolOptions
from tests.client_names import public_methods
from tests.clock import FakeClock
from tests.conftest import STORES
from tests.long import only_long
from tests.model.bad_consumers import CONSUMERS
from tests.model.bad_input import ARGUMENTS, BAD_INPUT, ENDINGS, OPENING
from tests.model.bad_topics import NOWHERE
from tests.model.databases import database
from tests.model.mistakes import Argument, Bad, cases, nested
from tests.model.subject import Subject, assert_helps


@pytest.fixture(params=STORES)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    subject = Subject(database(request.param, url), FakeClock())
    try:
        subject.declare("plain", {})
        subject.declare("keyed", {"ordering": "per_key"})
        subject.client.topic("news")
        yield subject
        assert_usable(subject)
    finally:
        subject.close()


def assert_usable(subject: Subject) -> None:
    """Neither the store nor the client remembers anything of what was refused."""
    for queue in ("plain", "keyed"):
        subject.enqueue(queue, ["after", {"all": "that"}], key="k")
        assert subject.client.queues.purge(queue) == 2
    assert (subject.client.notices.owners(), subject.client.consumers.attachments()) == ({}, [])
    assert subject.client.schedules.list() == []
    assert subject.client.sagas.list() == []


@pytest.mark.parametrize(
    "subject", ["sqlite-apsw", *(pytest.param(s, marks=only_long) for s in STORES[1:])], indirect=True
)
@pytest.mark.parametrize("argument", ARGUMENTS, ids=[argument.name for argument in ARGUMENTS])
def test_bad_input_is_refused(subject: Subject, argument: Argument) -> None:
    for bad in cases(argument).values():
        subject.refuses(bad)


def test_what_is_refused_leaves_no_queue_behind(subject: Subject) -> None:
    hf = subject.client
    for name, bad in BAD_INPUT.items():
        if not name.endswith(": itself"):
            subject.refuses(Bad(lambda _, bad=bad: bad.call(Elsewhere(hf)), bad.says, bad.error))
    with subject.database.transaction(commits=True) as conn, pytest.raises(InvalidInput):
        hf.enqueue("elsewhere", object(), conn=conn)
    assert hf.queues.list() == ["keyed", "plain"]


class Elsewhere:
    """A client, or a namespace of it, that speaks of a queue that nobody has heard of."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if not callable(method):
            return Elsewhere(method)
        return lambda *args, **kwargs: method(*map(self._elsewhere, args), **kwargs)

    def _elsewhere(self, arg: Any) -> Any:
        return "elsewhere" if isinstance(arg, str) and arg in ("plain", "keyed") else arg


def test_what_does_not_exist_is_refused(subject: Subject) -> None:
    for bad in [BAD_INPUT["dead_letters.replay(id): nobody's"], *NOWHERE.values()]:
        subject.refuses(bad)


@pytest.mark.parametrize("argument", ENDINGS, ids=[argument.name for argument in ENDINGS])
@pytest.mark.parametrize("delay", [0, 1], ids=["lane", "row"])
def test_bad_input_leaves_a_claim_in_its_holders_hand(subject: Subject, argument: Argument, delay: int) -> None:
    subject.enqueue("plain", ["work"], delay=delay)
    subject.clock.advance(1)
    [claim] = subject.client.claim("plain")
    for bad in cases(argument).values():
        subject.refuses(bad, claim)
    claim.ack()


@pytest.mark.parametrize("argument", OPENING, ids=[argument.name for argument in OPENING])
def test_a_client_with_bad_settings_is_refused(subject: Subject, argument: Argument) -> None:
    for bad in cases(argument).values():
        subject.refuses(bad, subject.database.url)


def test_a_connection_to_another_database_is_refused(subject: Subject, request: pytest.FixtureRequest) -> None:
    """Not the mistake of a moment, as the others are: it takes a real connection."""
    engine = "stdlib" if "stdlib" in subject.database.url else "apsw"
    other = database(f"sqlite-{engine}")
    try:
        Holdfast(other.url).queue("plain")
        with other.transaction(commits=True) as conn, pytest.raises(InvalidInput, match="conn= "):
            subject.client.enqueue("plain", 1, conn=conn)
        assert Holdfast(other.url).stats("plain").pending == 0
    finally:
        other.close()


@pytest.mark.parametrize(
    "url", ["", None, 7, "work.db", "mysql://h/db", "sqlite://", "sqlite:///", "sqlite:///:memory:"]
)
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInput, match=re.escape("sqlite:///relative.db")):
        Holdfast(url)


@pytest.mark.parametrize("path", ["a%00b.db", "a\0b.db", "\ud800.db", "a.db?engine=magic", "a.db?mode=ro", "["])
def test_a_path_that_no_file_can_have_is_refused(path: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prefix = "sqlite://" if path == "[" else "sqlite:///"
    with pytest.raises(InvalidInput, match=r"url|URL|engine"):
        Holdfast(prefix + path).enqueue("q", 1)
    assert list(tmp_path.iterdir()) == []


def finished(outcome: Any) -> Any:
    return asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome


@pytest.mark.parametrize("argument", CONSUMERS, ids=[argument.name for argument in CONSUMERS])
@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast])
def test_bad_consumers_are_refused(kind: Any, argument: Argument, tmp_path: Any) -> None:
    """Declaring is not awaited, and needs no database."""
    client = kind(f"sqlite:///{tmp_path}/never.db")
    for bad in cases(argument).values():
        with pytest.raises(HoldfastError) as refused:
            finished(bad.call(client))
        assert_helps(refused.value, bad)
    assert list(tmp_path.iterdir()) == []


def test_every_argument_is_in_the_list() -> None:
    """A new argument of a public method must be told what it may not be. Switches take anything."""
    switches = {
        "trust_commitments",
        "permanent",
        "fresh",
        "acknowledged",
        "alive",
        "strict",
        "migrate",
        "url",
        "sqs_create",
    }
    named = {argument.name for argument in [*ARGUMENTS, *CONSUMERS, *ENDINGS, *OPENING]}
    missing = [
        f"{name}({parameter})"
        for name, method in [("Holdfast", Holdfast), *public_methods().items()]
        for parameter in parameters(method)
        if (name, parameter) != ("subscriber", "options")  # They are those of a consumer.
        if parameter not in switches | {"self"} and not is_listed(name, parameter, named)
    ]
    assert missing == []


SETTINGS: dict[str, Any] = {
    "queue": QueueSettings,
    "schedule": ScheduleSettings,
    "topic": TopicSettings,
    "subscribe": GroupSettings,
    "consumer": ConsumerOptions,
    "pool": PoolOptions,
}


def parameters(method: Any) -> list[str]:
    """The keywords that stand in a typed dict too."""
    typed = SETTINGS.get(method.__name__)
    named = inspect.signature(method).parameters.values()
    plain = [one.name for one in named if typed is None or one.kind is not one.VAR_KEYWORD]
    return [*plain, *(typed.__annotations__ if typed else ())]


def is_listed(method: str, parameter: str, named: set[str]) -> bool:
    """Ids and queues stand in the list without their parameter's full name."""
    short = {"message_id": "id", "dead_id": "id", "notice_ids": "id", "queues": "queue", "consumers": "consumer"}.get(
        parameter, parameter
    )
    return any(name.startswith((f"{method}({short})", f"{method}({short}=")) for name in named)


def test_asyncio_refuses_the_same() -> None:
    store = database("sqlite-apsw")
    with asyncio.Runner() as runner:
        client = Awaited(AsyncHoldfast(store.url), runner.run)
        client.queue("plain")
        client.queue("keyed", ordering="per_key")
        client.topic("news")
        before = store.tables()
        for bad in [*BAD_INPUT.values(), *NOWHERE.values()]:
            with pytest.raises(HoldfastError) as refused:
                bad.call(client)
            assert_helps(refused.value, bad)
        assert store.tables() == before
        client.close()
    store.close()


class Awaited:
    """The asyncio client, or a namespace of it, called as if it were the other."""

    def __init__(self, target: Any, run: Callable[[Any], Any]) -> None:
        self._target, self._run = target, run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return Awaited(found, self._run)

        async def call(args: Any, kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            return await answer if inspect.isawaitable(answer) else answer

        return lambda *args, **kwargs: self._run(call(args, kwargs))


# --- at the limit -----------------------------------------------------------------------------------------------------

LIMITS: dict[str, Any] = {
    "the deepest lists": nested(DEEPEST),
    "the deepest objects": {"a" * 50: "[" * 100, "deep": nested(DEEPEST - 1)},
    "many shallow ones": [{"a": [1]}] * 10_000,
    "brackets as text": ["[{" * 500, '\\"[' * 500, {'"[': "]"}],
    "the largest integer of 64 bits": [2**63 - 1, -(2**63), 2**64 - 1],
    "long numbers that are no integers": ["9" * 50, 1e300, 0.1234567890123456789, {"9" * 30: 1}],
    "NUL": {"a\0b": "c\0d"},
    "the ends of floats": [1.7976931348623157e308, 5e-324, -0.0, 0.1],
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_just_allowed_survives_the_whole_way(subject: Subject, name: str) -> None:
    """In as body, header and result; through a retry, a death, an envelope in another queue, a replay."""
    hf, value = subject.client, LIMITS[name]
    headers = {"value": value} if "deepest" not in name else {"value": value[0] if isinstance(value, list) else 1}
    hf.queue("plain", dead_letter="graves", backoff=None)
    hf.enqueue("plain", value, headers=headers)
    assert [message.body for message in hf.queues.peek("plain")] == [value]
    for ending in ("retry", "die"):
        claim = the_claim(hf, "plain")
        assert (claim.message.body, claim.message.headers) == (value, headers)
        claim.nack("no", permanent=ending == "die")
    [dead] = hf.dead_letters.list("plain")
    assert dead.message.body == value
    grave = the_claim(hf, "graves")
    assert grave.message.body["original_message"]["body"] == value
    grave.ack()
    again = hf.dead_letters.replay(dead.id)
    claim = the_claim(hf, "plain")
    assert claim.message.body == value
    claim.ack(value)
    assert hf.status(again.id).result == value


def the_claim(hf: Holdfast, queue: str) -> Claim:
    [claim] = hf.claim(queue, n=2)
    return claim


@pytest.mark.parametrize("frames", [0, 800])
def test_the_deepest_body_can_be_read_from_deep_inside_a_program(subject: Subject, frames: int) -> None:
    """A consumer's own calls count against the same limit of Python's."""
    subject.client.enqueue("plain", nested(DEEPEST))
    claim = the_claim(subject.client, "plain")

    def read(left: int) -> Any:
        return read(left - 1) if left else claim.message.body

    assert read(frames) == nested(DEEPEST)
    claim.ack()
