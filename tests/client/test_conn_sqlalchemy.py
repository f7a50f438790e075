"""`conn=` with SQLAlchemy's connections and sessions, and with connections that are awaited."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import InvalidInput
from tests.acceptance.sessions import WAITING
from tests.steps import drain

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]


@pytest.fixture(params=["sqlite-stdlib", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """SQLAlchemy has no dialect for apsw."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")  # type: ignore[no-any-return]
    return f"sqlite:///{request.getfixturevalue('sqlite_path')}?engine=stdlib"


@pytest.fixture
def engine(url: str, hf: Holdfast) -> Iterator[sqlalchemy.Engine]:
    hf.queue("q")
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:").removesuffix("?engine=stdlib"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE orders (id INTEGER)"))
    yield engine
    engine.dispose()


ORDER = sqlalchemy.text("INSERT INTO orders VALUES (42)")
ORDERS = sqlalchemy.text("SELECT count(*) FROM orders")


def test_a_connection_commits_both_or_none(hf: Holdfast, engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        hf.enqueue("q", "first statement of its transaction", conn=connection)
        connection.execute(ORDER)
        connection.commit()
        connection.execute(ORDER)
        hf.enqueue("q", "gone", conn=connection)
        connection.rollback()
        assert connection.execute(ORDERS).scalar() == 1
    assert drain(hf) == ["first statement of its transaction"]


def test_nothing_but_a_message_is_committed_too(hf: Holdfast, engine: sqlalchemy.Engine) -> None:
    """SQLAlchemy commits only what it knows to have begun."""
    with engine.connect() as connection:
        hf.enqueue("q", "work", conn=connection)
        connection.commit()
    assert drain(hf) == ["work"]


def test_a_session_commits_both_or_none(hf: Holdfast, engine: sqlalchemy.Engine) -> None:
    with Session(engine) as session:
        session.execute(ORDER)
        hf.enqueue("q", "stays", conn=session)
        session.commit()
        hf.enqueue("q", "gone", conn=session)
        session.rollback()
        assert session.execute(ORDERS).scalar() == 1
    assert drain(hf) == ["stays"]


def test_a_session_acks_with_its_work(hf: Holdfast, engine: sqlalchemy.Engine) -> None:
    hf.enqueue("q", "work")
    (claim,) = hf.claim("q")
    with Session(engine) as session:
        session.execute(ORDER)
        claim.ack(conn=session)
        session.rollback()
        session.execute(ORDER)
        claim.ack(conn=session)
        session.commit()
        assert session.execute(ORDERS).scalar() == 1
    assert hf.stats("q").processing == 0


def test_the_plain_client_refuses_what_must_be_awaited(hf: Holdfast, url: str) -> None:
    if url.startswith("sqlite"):
        return

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            with pytest.raises(InvalidInput, match="AsyncHoldfast"):
                hf.enqueue("q", "work", conn=connection)
        engine = create_async_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        async with AsyncSession(engine) as session, engine.connect() as wrapped:
            for conn in (session, wrapped):
                with pytest.raises(InvalidInput, match="AsyncHoldfast"):
                    hf.enqueue("q", "work", conn=conn)
        await engine.dispose()

    asyncio.run(main())


@asynccontextmanager
async def open_async(url: str) -> AsyncIterator[AsyncHoldfast]:
    async with AsyncHoldfast(url) as hf:
        await hf.queue("q")
        yield hf


async def bodies(hf: AsyncHoldfast) -> list[Any]:
    return [message.body for message in await hf.queues.peek("q")]


def test_an_awaited_connection(postgres_url: str) -> None:
    async def main() -> None:
        async with open_async(postgres_url) as hf, await psycopg.AsyncConnection.connect(postgres_url) as connection:
            await hf.enqueue("q", "gone", key="k", idempotency_key="once", conn=connection)
            await connection.rollback()
            await hf.enqueue_many("q", ["stays", "too"], conn=connection)
            assert await bodies(hf) == []
            await connection.commit()
            assert await bodies(hf) == ["stays", "too"]
            claims = await hf.claim("q", n=2)
            await hf.ack(claims[:1], conn=connection)
            await claims[1].ack({"done": 1}, conn=connection)
            await connection.commit()
            assert (await hf.stats("q")).processing == 0

    asyncio.run(main())


def test_a_cancelled_call_leaves_the_connection_to_its_owner(postgres_url: str) -> None:
    """The second writer waits for the first one's key; cancelled, it must be over before its owner goes on."""

    async def main() -> None:
        async with (
            open_async(postgres_url) as hf,
            await psycopg.AsyncConnection.connect(postgres_url) as first,
            await psycopg.AsyncConnection.connect(postgres_url) as second,
        ):
            await hf.enqueue("q", "work", idempotency_key="once", conn=first)
            waiting = asyncio.create_task(hf.enqueue("q", "work", idempotency_key="once", conn=second))
            await until_someone_waits_for_a_lock(postgres_url)
            waiting.cancel()
            await asyncio.sleep(0)
            await first.rollback()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await second.rollback()
            await second.execute("SELECT 1")
            await second.commit()
            assert await bodies(hf) == []

    asyncio.run(main())


async def until_someone_waits_for_a_lock(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher:
        while True:
            found = await watcher.execute(WAITING)
            if await found.fetchone():
                return
            await asyncio.sleep(0.01)


def test_sqlalchemys_awaited_sessions(postgres_url: str) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        async with open_async(postgres_url) as hf:
            async with engine.connect() as connection:
                await hf.enqueue("q", "by connection", conn=connection)
                await connection.commit()
                await hf.enqueue("q", "gone", conn=connection)
                await connection.rollback()
            async with AsyncSession(engine) as session:
                await hf.enqueue("q", "by session", conn=session)
                await session.commit()
            assert await bodies(hf) == ["by connection", "by session"]
        await engine.dispose()

    asyncio.run(main())


def test_the_awaited_client_takes_a_plain_connection(url: str) -> None:
    async def main() -> None:
        async with open_async(url) as hf:
            engine = sqlalchemy.create_engine(
                url.replace("postgresql:", "postgresql+psycopg:").removesuffix("?engine=stdlib")
            )
            with Session(engine) as session:
                await hf.enqueue("q", "work", conn=session)
                session.commit()
            engine.dispose()
            assert await bodies(hf) == ["work"]

    asyncio.run(main())
