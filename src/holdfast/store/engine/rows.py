"""The row engine: a message with a state of its own. Shared by both stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.lifecycle import FINAL, State
from holdfast.core.message import Message, MessageId, NewMessage
from holdfast.sagas.steps import step_ends
from holdfast.store.engine import counters
from holdfast.store.transaction import Row, Transaction


class Content(msgspec.Struct):
    """What a message carries wherever it is kept: the columns that lanes, rows and dead letters have in common."""

    id: MessageId
    lane: int
    body: bytes
    headers: bytes | None
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    topic: str | None
    expires_at: int | None
    enqueued_at: int | None

    @classmethod
    def of(cls, row: Row) -> Content:
        """Reads the columns in the order in which every query gives them."""
        return cls(*row[:10])

    def message(self) -> Message:
        """The same as users see it."""
        return Message(
            self.id,
            self.lane,
            self.body,
            self.headers,
            self.key,
            self.correlation_id,
            self.reply_to,
            self.topic,
            self.expires_at,
            self.enqueued_at or 0,
        )


class HeldRow(msgspec.Struct):
    """A row that is being worked on, as `rows.lock` and `rows.lapsed` find it."""

    content: Content
    errors: bytes | None
    order_key: str
    replay_of: MessageId | None
    worker: str
    alone: bool
    attempts: int
    saga: str | None
    unwanted: bool
    claimed_at: int | None

    @classmethod
    def of(cls, row: Row) -> HeldRow:
        """Reads the columns in the order in which both queries give them."""
        return cls(Content.of(row), *row[10:])


class NewRow(msgspec.Struct):
    """A row to be. An `alone` row shares no claim: its last lease ended in silence, or its next try is the last."""

    group: int
    content: Content
    state: State = State.PENDING
    delay: int = 0
    attempts: int = 0
    alone: bool = False
    order_key: str = ""
    first: bool = False
    ttl: int | None = None
    errors: bytes | None = None
    replay_of: MessageId | None = None
    saga: str | None = None
    claimed_at: int | None = None


def add(tx: Transaction, new: Sequence[NewRow]) -> None:
    """Inserts rows, except where the id is already there."""
    hold_keys(tx, [(row.group, row.order_key) for row in new])
    add_held(tx, new)


def add_held(tx: Transaction, new: Sequence[NewRow]) -> None:
    """The same for rows whose keys are held."""
    for row in new:
        if row.state in FINAL:
            counters.add(tx, row.group, kept=1)
    tx.each("rows.insert", [_columns(row) for row in new])


def end(
    tx: Transaction,
    group: int,
    message_id: MessageId,
    state: State,
    replay_of: MessageId | None,
    attempts: int | None = None,
    errors: bytes | None = None,
    *,
    unknown: bool = False,
) -> bool:
    """Ends a row, canceled or expired, unless it has ended before. Behind the head of a key, the next one follows.

    If its outcome is `unknown`, someone was working on it.
    """
    ended, saga = _end(tx, group, message_id, state, replay_of, attempts, errors)
    if ended:
        final = state is State.CANCELED
        step_ends.failed(tx, saga, message_id, f"its message was {state}", final=final, unknown=unknown)
    return ended


def withdraw(tx: Transaction, group: int, message_id: MessageId, replay_of: MessageId | None) -> None:
    """Ends the row of a step whose saga has withdrawn it, and need not be told."""
    _end(tx, group, message_id, State.CANCELED, replay_of, None, None)


def _end(
    tx: Transaction,
    group: int,
    message_id: MessageId,
    state: State,
    replay_of: MessageId | None,
    attempts: int | None,
    errors: bytes | None,
) -> tuple[bool, str | None]:
    ended = tx.one("rows.end", group=group, id=message_id, state=state.value, attempts=attempts, errors=errors)
    if ended is None:
        return False, None
    was_head, order_key, saga = ended
    if was_head:
        tx.ended_keys.add((group, order_key))
    counters.add(tx, group, kept=1)
    if replay_of:
        tx.one("dead.end_replay", id=replay_of, state=state.value)
    return True, saga


def hold_keys(tx: Transaction, keys: Iterable[tuple[int, str]]) -> None:
    """Arrivals and endings of one order key happen one after the other; always locked in the same order."""
    tx.each("rows.hold_key", [{"group": group, "order_key": key} for group, key in sorted(set(keys)) if key])


def promote_ended(tx: Transaction) -> None:
    """The next of every key whose head has ended in this transaction. Keys are held last, after rows and sagas."""
    hold_keys(tx, tx.ended_keys)
    promote(tx, tx.ended_keys)
    tx.ended_keys.clear()


def promote(tx: Transaction, keys: Iterable[tuple[int, str]]) -> None:
    """The heads of these keys have ended for good: the next of each may be claimed."""
    wanted = [{"group": group, "order_key": key} for group, key in sorted(set(keys)) if key]
    promoted = tx.each("rows.promote", wanted)
    # The one that was to be next may have been purged a moment ago: look again, there may be another behind it.
    tx.each("rows.promote", [key for key, found in zip(wanted, promoted, strict=True) if found is None])


def from_new(message: NewMessage) -> NewRow:
    """A message that starts its life as a row."""
    content = Content(
        message.id,
        message.lane,
        message.body,
        message.headers,
        message.key,
        message.correlation_id,
        message.reply_to,
        message.topic,
        None,
        None,
    )
    return NewRow(
        message.group, content, delay=message.delay, order_key=message.order_key, ttl=message.ttl, alone=message.alone
    )


def _columns(row: NewRow) -> dict[str, object]:
    content = row.content
    return {
        "group": row.group,
        "id": content.id,
        "lane": content.lane,
        "state": row.state.value,
        "delay": row.delay,
        "attempts": row.attempts,
        "alone": row.alone,
        "order_key": row.order_key,
        "first": row.first,
        "errors": row.errors,
        "replay_of": row.replay_of,
        "body": content.body,
        "headers": content.headers,
        "key": content.key,
        "correlation_id": content.correlation_id,
        "reply_to": content.reply_to,
        "topic": content.topic,
        "expires_at": content.expires_at,
        "ttl": row.ttl,
        "enqueued_at": content.enqueued_at,
        "saga": row.saga,
        "claimed_at": row.claimed_at,
    }
