"""What time does to a queue: leases that ended without a word, messages past their time, history that is over.

Anyone may sweep at any time: what is due is chosen, locked and moved in one transaction, so a sweep can neither undo
a settlement nor be undone by one. Shared by both stores.
"""

from __future__ import annotations

import msgspec

from holdfast.core import run
from holdfast.core.dead_letter import add_to_history
from holdfast.core.lifecycle import LifecycleEvent, after_lapse
from holdfast.core.message import Failure, MessageId
from holdfast.core.queue import QueueSpec
from holdfast.sagas.steps import instances, step_ends
from holdfast.sqs.steps import deliver
from holdfast.store.api import Channel
from holdfast.store.engine import channels, counters, depth, expire_messages, history, rows
from holdfast.store.engine.bury import bury
from holdfast.store.engine.rows import Content, HeldRow, NewRow
from holdfast.store.engine.settle import split
from holdfast.store.transaction import Row, Transaction

MOST_MEMBERS = 200
"""So many messages of silent runs come back in one transaction: some milliseconds of SQLite's only write lock."""

MOST_LOOKED_AT = 2_000
"""So many members of a run are looked through for them, from the first on that is not acked."""

MOST_MADE_ROOM_FOR = 500
"""So many messages past their time are ended after an arrival that took the place of some."""


def sweep(tx: Transaction, channel: Channel, limit: int, worker: str | None = None) -> int:
    """Takes back up to `limit` leases, ends as many messages and prunes as much history; how many it dealt with.

    A `worker` is noted as one who asks for work.
    """
    if worker is not None:
        tx.run("consumers.see", group=channel.group, worker=worker)
    found = take_back(tx, channel, limit) + expire(tx, channel, limit)
    return found + history.prune(tx, channel, limit)


def take_back(tx: Transaction, channel: Channel, limit: int) -> int:
    """Takes back leases that ended without a word; how many."""
    found = _take_back_runs(tx, channel, limit) + _take_back_rows(tx, channel, limit)
    found += deliver.take_back(tx, channel, limit)
    if found:
        tx.rings.add(channel.id)
    return found


def expire(tx: Transaction, channel: Channel, limit: int) -> int:
    """Ends messages that nobody wanted in time; how many."""
    over = expire_messages.expire(tx, channel, limit)
    counters.add(tx, channel.group, ended=over)
    if over:
        tx.rings.add(channel.id)
    return over


def expire_group(tx: Transaction, group: int, limit: int) -> int:
    """The same for a queue of which only the group is known."""
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    channel, tenant, name, raw_spec = owner
    spec = msgspec.json.decode(raw_spec, type=QueueSpec)
    return expire(tx, Channel(channel, group, tenant, name, spec), limit)


def _take_back_runs(tx: Transaction, channel: Channel, limit: int) -> int:
    """A silent run comes back as rows that are claimed one by one, so that a poison message can only hurt itself.

    A long one comes back in several turns; what is left of it stays a run that has lapsed.
    """
    lapsed = tx.all("runs.lapsed", group=channel.group, limit=limit)
    room = MOST_MEMBERS
    for one in lapsed:
        taken, is_whole = _take_back_run(tx, channel, one, room)
        room -= taken
        if room <= 0 or not is_whole:
            return limit  # There may be more.
    return len(lapsed)


def _take_back_run(tx: Transaction, channel: Channel, lapsed: Row, most: int) -> tuple[int, bool]:
    """How many members came back, and whether that was all of them."""
    token, size, settled, gone, history, worker, claimed_at, shared = lapsed
    left = run.places_left(gone, size)
    silent = [index for index, place in enumerate(left) if not run.is_settled(settled, place)][:most]
    passed = silent[0] if silent else len(left)
    end = min(silent[-1] + 1, passed + MOST_LOOKED_AT) if silent else passed
    found = tx.all("runs.members", token=token, limit=end - passed, passed=passed)
    members = [
        (place, Content.of(row))
        for place, row in zip(left[passed:end], found, strict=False)
        if not run.is_settled(settled, place)
    ]
    _bring_back(tx, channel, [content for _, content in members], _silence(1, worker, claimed_at))
    places = [place for place, _ in members]
    settled = run.settle(settled, size, places)
    split(tx, token, size, settled, gone if shared else run.settle(gone, size, places), history, shared)
    return len(members), run.is_finished(settled, size)


def _bring_back(tx: Transaction, channel: Channel, members: list[Content], failure: Failure) -> None:
    dies = after_lapse(channel.spec, 1).event is LifecycleEvent.DIED
    if dies:
        for content in members:
            bury(tx, channel.group, content, 1, failure, None)
    else:
        errors = add_to_history(None, failure, tx.clock())
        rows.add(tx, [NewRow(channel.group, content, attempts=1, alone=True, errors=errors) for content in members])
        depth.grow(tx, channel.group, len(members))
    if channel.source is None:
        tx.each("lanes.remove", [{"id": content.id} for content in members])
    counters.add(tx, channel.group, lapsed=len(members), ended=len(members) if dies else 0)


def _take_back_rows(tx: Transaction, channel: Channel, limit: int) -> int:
    lapsed = [HeldRow.of(row) for row in tx.all("rows.lapsed", group=channel.group, limit=limit)]
    return _take_back(tx, channel, lapsed) if lapsed else 0


def take_back_step(tx: Transaction, group: int, message_id: MessageId) -> bool:
    """Takes back the lease of one message of a step, if it has ended: its saga waits for that."""
    found = tx.one("rows.lapsed_step", group=group, id=message_id)
    owner = tx.one("channels.owner", group=group)
    channel = channels.find(tx, owner[1], owner[2]) if owner else None
    if found is None or channel is None:
        return False
    _take_back(tx, channel, [HeldRow.of(found)])
    tx.rings.add(channel.id)
    return True


def tick_saga(tx: Transaction, number: int) -> bool:
    """What time does to a saga. First it hears of steps that it has withdrawn and whose leases have ended."""
    taken_back = [take_back_step(tx, group, message_id) for group, message_id in instances.leases(tx, number)]
    if any(taken_back):
        instances.move_on(tx)
    return instances.tick(tx, number) or any(taken_back)


def _take_back(tx: Transaction, channel: Channel, lapsed: list[HeldRow]) -> int:
    instances.hold(tx, [row.saga for row in lapsed if row.saga])
    now, back, ended = tx.clock(), [], []
    for row in lapsed:
        failure = _silence(row.attempts, row.worker, row.claimed_at)
        if after_lapse(channel.spec, row.attempts).event is LifecycleEvent.DIED:
            bury(tx, channel.group, row.content, row.attempts, failure, row.errors, row, unknown=True)
            tx.each("rows.remove", [{"group": channel.group, "id": row.content.id}])
            ended.append((channel.group, row.order_key))
        else:
            back.append(_back(channel, row, failure, now))
            step_ends.attempt_failed(tx, row.saga, failure, row.attempts, unknown=True)
    tx.each("rows.again", back)
    depth.grow(tx, channel.group, len(back))
    counters.add(tx, channel.group, lapsed=len(lapsed), ended=len(ended))
    tx.ended_keys.update(ended)
    return len(lapsed)


def _back(channel: Channel, row: HeldRow, failure: Failure, now: int) -> dict[str, object]:
    return {
        "group": channel.group,
        "id": row.content.id,
        "delay": 0,
        "attempts": row.attempts,
        "alone": True,
        "errors": add_to_history(row.errors, failure, now),
    }


def _silence(attempt: int, worker: str, claimed_at: int | None) -> Failure:
    error = f"the lease of {worker} ended without an answer: killed, hung or cut off"
    return Failure(attempt, worker, error, claimed_at_us=claimed_at)
