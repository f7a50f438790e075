"""Retention on PostgreSQL beside transactions that others have open: what it must not see, and must not wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.topics.rules.retention import RetainedMessage
from holdfast.topics.steps import retention
from tests.acceptance.sessions import is_waiting
from tests.waiting import eventually

Connect = Callable[..., Holdfast]
DAY = 86_400


@pytest.fixture
def hf(postgres_url: str, connect: Connect) -> Holdfast:
    """The topic t with two groups."""
    hf = connect(postgres_url)
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "b")
    return hf


def got(hf: Holdfast, group: str) -> list[Any]:
    """What a group gets now, and ends."""
    claims = hf.claim("t", group=group, n=100)
    hf.ack(claims)
    return [claim.message.body for claim in claims]


def retain(hf: Holdfast) -> int:
    topic = internals(hf).catalog.topic("t")
    return internals(hf).store.retention.retain(topic, 100).gone


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Does something after retention has read all it wants to know, and before it has removed anything."""
    original, calls = retention.removable, []

    def removable(*known: Any) -> list[RetainedMessage]:
        calls.append(known)
        if len(calls) == 2:  # The first is the look before the transaction.
            act()
        return original(*known)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "removable", removable)
        yield
    assert len(calls) > 1


def test_what_commits_late_is_owed_to_everyone(hf: Holdfast, postgres_url: str) -> None:
    """P1: its place is before those that every group is done with."""
    with psycopg.connect(postgres_url) as late:
        hf.publish("t", "late", conn=late)
        hf.publish_many("t", range(3))
        assert got(hf, "a") == got(hf, "b") == [0, 1, 2]
        hf.publish("t", 3)
        assert got(hf, "a") == got(hf, "b") == [3]
        assert retain(hf) == 4
        late.commit()
    assert retain(hf) == 0
    assert got(hf, "a") == ["late"]
    assert retain(hf) == 0
    assert got(hf, "b") == ["late"]
    assert retain(hf) == 1


def test_what_commits_in_the_middle_of_a_step_is_not_swept_away(hf: Holdfast, postgres_url: str) -> None:
    hf.publish("t", 0)
    with psycopg.connect(postgres_url) as late:
        hf.publish("t", "late", conn=late)
        hf.publish("t", 1)
        assert got(hf, "a") == got(hf, "b") == [0, 1]
        with meanwhile(late.commit):
            assert retain(hf) == 2
    assert retain(hf) == 0
    assert got(hf, "a") == got(hf, "b") == ["late"]


def test_a_claim_in_the_middle_of_a_step_keeps_what_it_took(hf: Holdfast, connect: Connect, postgres_url: str) -> None:
    """All of it is too old, and would go: group b takes some of it just before."""
    rival = connect(postgres_url)
    hf.publish_many("t", range(5))
    hf.topic("t", retention=0)
    held = []
    with meanwhile(lambda: held.extend(rival.claim("t", group="b", n=2))):
        assert retain(hf) == 3
    assert retain(hf) == 0
    rival.nack(held, delay=0)
    assert sorted(got(hf, "b")) == [0, 1]
    assert retain(hf) == 2
    assert {notice.about: notice.error.split()[0] for notice in hf.notices.list()} == {"t/a": "5", "t/b": "3"}


def test_nobody_waits_for_a_group_that_is_claiming(hf: Holdfast, postgres_url: str) -> None:
    hf.publish_many("t", range(5))
    hf.topic("t", retention=0)
    with psycopg.connect(postgres_url) as claiming:
        claiming.execute(
            "SELECT FROM holdfast_lane WHERE group_id = %s FOR UPDATE", [internals(hf).catalog.channel("t/b").group]
        )
        assert retain(hf) == 0, "it may be taking them at this moment"
    assert retain(hf) == 5


def test_only_one_at_a_time_and_the_other_does_not_wait(hf: Holdfast, connect: Connect, postgres_url: str) -> None:
    rival = connect(postgres_url)
    hf.publish_many("t", range(5))
    hf.topic("t", retention=0)
    turns: list[int] = []
    with meanwhile(lambda: turns.append(retain_as_is(rival))):
        assert retain(hf) == 5
    assert turns == [0]


def retain_as_is(hf: Holdfast) -> int:
    """The step alone, without the look before it."""
    topic = internals(hf).catalog.topic("t")
    step = lambda tx: retention.retain(tx, topic, 100).gone  # noqa: E731
    return internals(hf).store.database.write(step)  # type: ignore[attr-defined]


def test_a_group_that_goes_back_in_the_middle_of_a_step_waits_for_its_end(
    hf: Holdfast, connect: Connect, postgres_url: str
) -> None:
    """Otherwise it could claim again what is about to go."""
    rival = connect(postgres_url)
    hf.publish_many("t", range(3))
    assert got(hf, "a") == got(hf, "b") == [0, 1, 2]
    with ThreadPoolExecutor() as threads:
        seeking: list[Future[None]] = []

        def seek() -> None:
            seeking.append(threads.submit(rival.groups.seek, "b", "earliest"))
            eventually(lambda: is_waiting(postgres_url), "the seek waits for its turn")

        with meanwhile(seek):
            assert retain(hf) == 3
        seeking[0].result()
    assert got(hf, "b") == []
