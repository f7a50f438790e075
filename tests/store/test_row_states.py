"""L8: rows in every state that the database lets be, whatever sense they make. Claims come to an end, and so does each
message; what nobody could ever claim, or end, cannot be written at all."""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

from holdfast import Claim, Holdfast, State
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import state
from tests.stores import INSIDE

pytestmark = pytest.mark.not_through_sqs(INSIDE)

MOST = 3
"""Attempts that there are by now; there were more."""

ATTEMPTS = [0, 1, MOST - 1, MOST, MOST + 1, 1000]
FINISHED = ["succeeded", "canceled", "expired"]
HELD = ["sending", "enqueued", "processing"]
STATES = ["pending", *HELD, *FINISHED]
HOUR = 3_600_000_000


class Put(NamedTuple):
    """What a row is made to be. `is_over` says whether it is due, or its lease has ended."""

    state: str
    attempts: int
    alone: bool
    is_over: bool
    head: bool

    def is_possible(self) -> bool:
        return self.head or self.state not in HELD

    def claims(self, once: bool) -> int:
        """How many times it can be claimed, if it is done then, or never."""
        if self.state in FINISHED or (self.state == "processing" and self.attempts >= MOST):
            return 0
        return 1 if once else max(1, MOST - self.attempts)

    def ending(self, once: bool) -> str:
        if self.state in FINISHED:
            return self.state
        return "succeeded" if once and self.claims(once) else "dead"

    def sql(self, now: int) -> str:
        at = now - 1 if self.is_over else now + HOUR
        return assigned(
            state=f"'{self.state}'",
            attempts=self.attempts,
            alone=self.alone,
            head=self.head,
            due_at=at if self.state == "pending" else now,
            token=7 if self.state == "processing" else "NULL",
            worker="'ben'",
            until=at if self.state in HELD else "NULL",
            finished_at=now if self.state in FINISHED else "NULL",
        )


def assigned(**columns: object) -> str:
    return "UPDATE holdfast_row SET " + ", ".join(f"{name} = {value}" for name, value in columns.items())


def puts(heads: list[bool]) -> list[Put]:
    """All of them, in any order. Who is with SQS waits for SQS."""
    states = [one for one in STATES if one != "enqueued"]
    every = [Put(*one) for one in product(states, ATTEMPTS, [False, True], [False, True], heads)]
    random.Random(8).shuffle(every)
    return [one for one in every if one.is_possible()]


def led(rows: list[Put]) -> list[Put]:
    """With one more behind every four whose turn it is, so that somebody is first of their key."""
    first = Put("pending", 0, False, True, True)
    return [one for place in range(0, len(rows), 4) for one in [*rows[place : place + 4], first]]


def put(hf: Holdfast, clock: FakeClock, rows: list[Put], key: Callable[[Any], str] | None) -> dict[str, Put]:
    """Rows of the queue as they were never made; by the ids of their messages."""
    sent = hf.enqueue_many("q", range(len(rows)), delay="1h", key=key)
    with internals(hf).store.lend() as conn:
        places = [place for (place,) in conn.execute("SELECT seq FROM holdfast_row ORDER BY seq").fetchall()]
        for place, row in zip(places, rows, strict=True):
            conn.execute(f"{row.sql(clock())} WHERE seq = {place}")
    return {one.id: row for one, row in zip(sent, rows, strict=True)}


def work_off(hf: Holdfast, clock: FakeClock, end: Callable[[list[Claim]], object]) -> dict[str, int]:
    """How many times each was claimed until nothing was left."""
    claimed: Counter[str] = Counter()
    while left(hf):
        while claims := hf.claim("q", n=20):
            claimed.update(claim.message.id for claim in claims)
            assert max(claimed.values()) <= MOST, "it comes again and again"
            end(claims)
        clock.advance("1h")
        assert clock() < FakeClock()() + 10 * HOUR, f"nobody can claim what is left: {left(hf)}"
    return claimed


def left(hf: Holdfast) -> list[Any]:
    with internals(hf).store.lend() as conn:
        return list(conn.execute("SELECT state, attempts FROM holdfast_row WHERE finished_at IS NULL").fetchall())


ENDINGS: dict[str, Callable[[Holdfast, list[Claim]], object]] = {
    "acked": lambda hf, claims: hf.ack(claims),
    "nacked": lambda hf, claims: hf.nack(claims, "no"),
    "forgotten": lambda hf, claims: None,
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("ordering", ["unordered", "per_key"])
def test_whatever_a_row_was_it_is_claimed_no_more_than_it_may_and_ends(
    hf: Holdfast, clock: FakeClock, ordering: str, ending: str
) -> None:
    """In an ordered queue also behind others, or beside them, of their key; as long as one of them is first."""
    settings: dict[str, Any] = {"ordering": ordering, "backoff": None, "lease": "30m", "history": "90d"}
    hf.queue("q", max_attempts=9, **settings)
    keyed = ordering == "per_key"
    rows = led(puts([False, True])) if keyed else puts([True])
    made = put(hf, clock, rows, (lambda body: f"key {body // 5}") if keyed else None)
    hf.queue("q", max_attempts=MOST, **settings)

    claimed = work_off(hf, clock, lambda claims: ENDINGS[ending](hf, claims))

    once = ending == "acked"
    assert {id: claimed[id] for id in made} == {id: row.claims(once) for id, row in made.items()}
    assert {id: state(hf, id) for id in made} == {id: State(row.ending(once)) for id, row in made.items()}
    assert hf.claim("q", wait=0.01) == []


def test_what_contradicts_itself_cannot_be_written(hf: Holdfast) -> None:
    """Held by nobody, free and held, finished and not, waiting for its turn and held; or fewer attempts than none."""
    hf.enqueue("q", 1, delay="1h")
    refused = [{"attempts": -1}, {"state": "'dead'"}, {"state": "NULL"}, {"due_at": "NULL"}, {"attempts": "NULL"}]
    for columns in refused:
        assert not can_be(hf, **columns), columns
    for status, token, until, finished_at, head in product(STATES, *[["NULL", "7"]] * 3, [False, True]):
        makes_sense = (
            (token == "7") == (status == "processing")
            and (until == "7") == (status in HELD)
            and (finished_at == "7") == (status in FINISHED)
            and head
        )
        columns = {"state": f"'{status}'", "token": token, "until": until, "finished_at": finished_at, "head": head}
        assert can_be(hf, **columns) is makes_sense, columns


class Undone(Exception):
    pass


def can_be(hf: Holdfast, **columns: object) -> bool:
    """Whether the database would keep a row like this; it does not."""
    try:
        with internals(hf).store.lend() as conn:
            conn.execute(assigned(**columns))
            raise Undone
    except Undone:
        return True
    except (apsw.ConstraintError, sqlite3.IntegrityError, psycopg.errors.IntegrityError):
        return False
