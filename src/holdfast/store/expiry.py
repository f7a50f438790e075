"""What becomes of leases that ended without a word, and of history that is over. Shared by both stores.

Anyone may sweep at any time: what is due is chosen, locked and moved in one transaction, so a sweep can neither undo
a settlement nor be undone by one.
"""

from __future__ import annotations

from holdfast.core import run
from holdfast.core.deadletter import add_to_history
from holdfast.core.lifecycle import Event, after_expiry
from holdfast.core.message import Failure
from holdfast.store import rows
from holdfast.store.api import Channel
from holdfast.store.burial import Insert, bury
from holdfast.store.rows import Content, NewRow
from holdfast.store.settling import close, drop
from holdfast.store.transaction import Row, Transaction


def sweep(tx: Transaction, insert: Insert, channel: Channel, limit: int) -> int:
    """Takes back up to `limit` expired leases and prunes as much finished history; how many it dealt with."""
    taken = _expire_runs(tx, insert, channel, limit) + _expire_rows(tx, insert, channel, limit)
    if taken:
        tx.rings.add(channel.id)
    return taken + _prune(tx, channel, limit)


def _expire_runs(tx: Transaction, insert: Insert, channel: Channel, limit: int) -> int:
    """A silent run comes back as rows that are claimed one by one, so that a poison message can only hurt itself."""
    expired = tx.all("runs.expired", group=channel.group, limit=limit)
    verdict = after_expiry(channel.spec, 1)
    for token, size, settled, gone, history, worker in expired:
        members = zip(run.places_left(gone, size), tx.all("runs.members", token=token), strict=True)
        left = [Content.of(row) for place, row in members if not run.is_settled(settled, place)]
        failure = _silence(1, worker)
        if verdict.event is Event.DIED:
            for content in left:
                bury(tx, insert, channel.group, content, 1, failure, None)
        else:
            errors = add_to_history(None, failure, tx.clock())
            rows.add(tx, [NewRow(channel.group, content, attempts=1, alone=True, errors=errors) for content in left])
        tx.each("lanes.remove", [{"id": content.id} for content in left])
        close(tx, token, history)
    return len(expired)


def _expire_rows(tx: Transaction, insert: Insert, channel: Channel, limit: int) -> int:
    expired = tx.all("rows.expired", group=channel.group, limit=limit)
    if not expired:
        return 0
    rows.hold_keys(tx, [(channel.group, row[8]) for row in expired])
    now, back, ended = tx.clock(), [], []
    for row in expired:
        failure = _silence(row[11], row[10])
        if after_expiry(channel.spec, row[11]).event is Event.DIED:
            bury(tx, insert, channel.group, Content.of(row), row[11], failure, row[7], row[9])
            tx.each("rows.remove", [{"group": channel.group, "id": row[0]}])
            ended.append((channel.group, row[8]))
        else:
            back.append(_back(channel, row, failure, now))
    tx.each("rows.again", back)
    rows.promote(tx, ended)
    return len(expired)


def _back(channel: Channel, row: Row, failure: Failure, now: int) -> dict[str, object]:
    return {
        "group": channel.group,
        "id": row[0],
        "delay": 0,
        "attempts": row[11],
        "alone": True,
        "errors": add_to_history(row[7], failure, now),
    }


def _silence(attempt: int, worker: str) -> Failure:
    return Failure(attempt, worker, f"the lease of {worker} ended without an answer: killed, hung or cut off")


def _prune(tx: Transaction, channel: Channel, limit: int) -> int:
    outdated = tx.all("runs.outdated", group=channel.group, limit=limit)
    for (token,) in outdated:
        drop(tx, token)
    return len(outdated) + tx.run("rows.outdated", group=channel.group, limit=limit)
