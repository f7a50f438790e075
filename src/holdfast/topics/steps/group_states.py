"""How the groups of a topic stand to one message. Shared by both stores."""

from __future__ import annotations

from holdfast.core import run
from holdfast.core.lifecycle import WAITING, State
from holdfast.core.message import Message, MessageId
from holdfast.store.transaction import Row, Transaction
from holdfast.topics.rules import routing
from holdfast.topics.rules.declaration import parts


def kept(tx: Transaction, message: Message) -> dict[str, State]:
    """Of a message that its topic has: by group, of those that want it."""
    found = tx.all("topics.standings", id=message.raw_id)
    wanting = [row for row in found if row[2] is None or routing.is_wanted(row[2], message.topic or "")]
    is_over = _is_over(tx, message)
    return {_group(row[0]): _by_time(_state(tx, message.raw_id, row), is_over) for row in wanting}


def remaining(tx: Transaction, tenant: str, message: Message) -> dict[str, State]:
    """Of a message that retention has removed: the groups that still have a copy, to be tried again or dead."""
    found = tx.all("topics.remains", id=message.raw_id, tenant=tenant)
    is_over = _is_over(tx, message)
    return {_group(name): _by_time(State(state), is_over) for name, state in found}


def _is_over(tx: Transaction, message: Message) -> bool:
    """Whether it has outlived its own time; most messages have none, and need no look at the clock."""
    return message.expires_at_us is not None and message.outlived(None, tx.clock())


def _by_time(state: State, is_over: bool) -> State:
    """What waits past its time has expired, whether or not a sweep has come by."""
    return State.EXPIRED if is_over and state in WAITING else state


def _state(tx: Transaction, message_id: MessageId, row: Row) -> State:
    _, group, _, is_before_it, skips, copy, is_dead, holds = row
    if is_before_it:
        return State.CANCELED if skips else State.PENDING
    if copy is not None:
        return State(copy)
    if is_dead:
        return State.DEAD
    held = tx.one("runs.holding", group=group, id=message_id) if holds else None
    if held is None or run.is_settled(held[2], held[-1]):
        return State.SUCCEEDED
    return State.PROCESSING


def _group(name: str) -> str:
    found = parts(name)
    return found[1] if found else name
