"""Every change of a message's state that the database makes is a move of the table in `core/lifecycle.py`."""

from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.client.client import internals
from holdfast.core.lifecycle import TABLE
from tests.clock import FakeClock
from tests.stores import INSIDE

pytestmark = pytest.mark.not_through_sqs(INSIDE)

KNOWN = {(before.value, after.value) for (before, _), after in TABLE.items()}

SQLITE = (
    "CREATE TABLE moves (before TEXT, after TEXT)",
    "CREATE TRIGGER note_move AFTER UPDATE OF state ON holdfast_row WHEN OLD.state <> NEW.state "
    "BEGIN INSERT INTO moves VALUES (OLD.state, NEW.state); END",
)
POSTGRES = (
    "CREATE TABLE moves (before text, after text)",
    "CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO moves VALUES (OLD.state, NEW.state); RETURN NEW; END $$",
    "CREATE TRIGGER note_move AFTER UPDATE OF state ON holdfast_row FOR EACH ROW WHEN (OLD.state <> NEW.state) "
    "EXECUTE FUNCTION note_move()",
)


@pytest.fixture
def watched(hf: Holdfast) -> Holdfast:
    """A client whose database records moves."""
    hf.queues.list()
    with internals(hf).store.lend() as conn:
        for statement in SQLITE if "sqlite" in type(internals(hf).store).__name__.lower() else POSTGRES:
            conn.execute(statement)
    return hf


def moves(hf: Holdfast) -> set[tuple[str, str]]:
    with internals(hf).store.lend() as conn:
        return {tuple(row) for row in conn.execute("SELECT before, after FROM moves").fetchall()}


def live(hf: Holdfast, clock: FakeClock, ordering: str) -> None:
    """A message for every way through the table, each as a row of its own from the start."""
    settings: dict[str, Any] = {"max_attempts": 3, "backoff": None, "lease": 10, "history": "1d"}
    hf.queue("q", ordering=ordering, **settings)
    for number in range(12):
        hf.enqueue("q", number, delay=1, key=f"k{number}")
    short = hf.enqueue("q", "short", delay=1, ttl=5, key="short")
    canceled = hf.enqueue("q", "canceled", delay=60, key="canceled")
    clock.advance(2)
    acked, nacked, released, snoozed, died, canceled_at_work, *lapsed = hf.claim("q", n=8)
    hf.ack(acked)
    hf.nack(nacked, "no")
    hf.release(released)
    hf.snooze(snoozed, 1)
    hf.dead_letter(died, "never")
    hf.cancel(canceled_at_work.message.id)
    hf.cancel(canceled.id)
    assert lapsed
    clock.advance(11)
    hf.queues.sweep("q")
    hf.maintain()
    assert hf.status(short.id).state is State.EXPIRED  # type: ignore[union-attr]
    while claims := hf.claim("q", n=20):
        hf.nack(claims, "again")


@pytest.mark.parametrize("ordering", ["unordered", "per_key"])
def test_the_database_makes_no_other_moves(watched: Holdfast, clock: FakeClock, ordering: str) -> None:
    live(watched, clock, ordering)
    made = moves(watched)
    assert made <= KNOWN, made - KNOWN
    expected = {
        ("pending", "processing"),
        ("processing", "pending"),
        ("processing", "succeeded"),
        ("processing", "canceled"),
        ("pending", "canceled"),
        ("pending", "expired"),
    }
    assert made == expected, "otherwise there is nothing to see here"


def test_a_move_that_is_not_in_the_table_is_seen(watched: Holdfast) -> None:
    sent = watched.enqueue("q", 1, delay=60)
    with internals(watched).store.lend() as conn:
        conn.execute("UPDATE holdfast_row SET state = 'succeeded', finished_at = 1")
    assert moves(watched) - KNOWN == {("pending", "succeeded")}
    assert watched.status(sent.id)
