"""The lane engine on SQLite: a lane is a range of row numbers, a run is a range of that range."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

from holdfast.core import priority
from holdfast.core.message import Lease, Message, NewMessage
from holdfast.store import limiting, rows, tally
from holdfast.store.api import Channel, Claimed, ClaimRequest, Grant
from holdfast.store.limiting import Limit
from holdfast.store.settling import finish, settle
from holdfast.store.sqlite import limiting as limited
from holdfast.store.sqlite.connection import SqliteTransaction
from holdfast.store.transaction import Row


def insert(tx: SqliteTransaction, new: Sequence[NewMessage]) -> None:
    """Plain messages are appended to their lanes, the others become rows."""
    tx.rings.update({priority.channel_of(lane) for lane in {message.lane for message in new}})
    lanes: dict[int, list[NewMessage]] = defaultdict(list)
    for message in new:
        if message.plain:
            lanes[message.lane].append(message)
    for lane, messages in lanes.items():
        _append(tx, lane, messages)
    singles = [rows.from_new(message) for message in new if not message.plain]
    rows.add(tx, singles)
    for row in singles:
        tally.add(tx, row.group, arrived=1)


def claim(tx: SqliteTransaction, request: ClaimRequest) -> Claimed:
    """Acks what came along, then takes due rows and lane runs, priority by priority, until the limit is reached."""
    acked = settle(tx, insert, request.ack)
    lost = [finish(tx, insert, lease) for lease in request.done]
    if request.alone_first and request.alone:
        for channel in request.channels:
            if alone := _take_alone(tx, request, channel):
                return Claimed(alone, acked, lost)
    grants: list[Grant] = []
    for channel in request.channels:
        before = len(grants)
        is_over = _claim_channel(tx, request, channel, grants)
        tally.add(tx, channel.group, claimed=len(grants) - before)
        if is_over or len(grants) >= request.limit:
            break
    return Claimed(grants, acked, lost)


def _append(tx: SqliteTransaction, lane: int, messages: list[NewMessage]) -> None:
    reserved = tx.one("lanes.reserve", lane=lane, start=priority.lane_start(lane), count=len(messages))
    assert reserved is not None, "an upsert returns its row"
    first, now = reserved[0] - len(messages) + 1, tx.clock()
    tx.many(
        "lanes.append",
        [
            (
                first + index,
                new.id,
                new.body,
                new.headers,
                new.key,
                new.correlation_id,
                new.reply_to,
                None if new.ttl is None else now + new.ttl,
                now,
            )
            for index, new in enumerate(messages)
        ],
    )


def _take_alone(tx: SqliteTransaction, request: ClaimRequest, channel: Channel) -> list[Grant]:
    """The oldest row that must be held alone, if there is one, and room for it."""
    alone = tx.all("rows.due_alone", group=channel.group)
    limit = limiting.find(tx, channel.group) if alone else None
    if limit is not None and not limiting.room(tx, channel.group, limit, 1):
        return []
    if limit is not None and limit.by_key:
        alone = limited.alone(tx, channel, limit)
    taken = _take_rows(tx, request, channel, alone)
    tally.add(tx, channel.group, claimed=len(taken))
    if limit is not None:
        limited.note(tx, channel.group, limit, taken)
    return taken


def _claim_channel(tx: SqliteTransaction, request: ClaimRequest, channel: Channel, grants: list[Grant]) -> bool:
    """Adds to the grants, as far as the queue's limits allow. True if the claim ends here, with a row held alone."""
    places = tx.all("lanes.look", group=channel.group)
    limit = limiting.find(tx, channel.group) if places and places[0][0] else None
    if limit is None:
        return _claim_lanes(tx, request, channel, places, grants, request.limit)
    before = len(grants)
    most = before + limiting.room(tx, channel.group, limit, request.limit - before)
    is_over = _claim_lanes(tx, request, channel, places, grants, most, limit if limit.by_key else None)
    limited.note(tx, channel.group, limit, grants[before:])
    return is_over


def _claim_lanes(
    tx: SqliteTransaction,
    request: ClaimRequest,
    channel: Channel,
    places: list[Row],
    grants: list[Grant],
    most: int,
    by_key: Limit | None = None,
) -> bool:
    """A row that must be held alone is taken only as the first; a claim that has something already passes it by."""
    for _, lane, position, in_rows, in_lane in places:
        if len(grants) >= most:
            break
        if by_key and in_lane and limited.leave_lane(tx, channel, lane, position, most - len(grants)):
            in_rows = True
        if in_rows:
            alone, room = request.alone and not grants, most - len(grants)
            if by_key:
                due = limited.due(tx, channel, by_key, lane, room, alone)
            else:
                due = _due_rows(tx, channel, lane, room, alone)
            grants += _take_rows(tx, request, channel, due)
            if due and due[0][4]:
                return True
        if in_lane and len(grants) < most:
            grants += _take_run(tx, request, channel, lane, position, most - len(grants), by_key is not None)
    return False


def _due_rows(tx: SqliteTransaction, channel: Channel, lane: int, room: int, alone: bool) -> list[Row]:
    due = tx.all("rows.due", group=channel.group, lane=lane, limit=1, alone=alone)
    if not due or due[0][4] or room == 1:
        return due
    return tx.all("rows.due", group=channel.group, lane=lane, limit=room, alone=False)


def _take_rows(tx: SqliteTransaction, request: ClaimRequest, channel: Channel, due: list[Row]) -> list[Grant]:
    if not due:
        return []
    token, until = _next_token(tx), _until(tx, request, channel)
    tx.each("rows.take", [{"seq": row[0], "token": token, "until": until, "worker": request.worker} for row in due])
    taken = []
    for _, message_id, lane, attempts, _, *content in due:
        lease = Lease(token, channel.group, until, 1, request.worker, tx.clock())
        taken.append(request.kind(Message(message_id, lane, *content), attempts + 1, lease, None, channel))
    return taken


def _take_run(
    tx: SqliteTransaction, request: ClaimRequest, channel: Channel, lane: int, position: int, room: int, unkeyed: bool
) -> list[Grant]:
    """The lane's next run: read the range, move the cursor past it, record one lease for all of it.

    If it has to be `unkeyed`, it ends before the first message that has a key.
    """
    found = tx.all("lanes.read", after=position, end=priority.lane_start(lane + 1), limit=channel.spec.run_limit(room))
    if unkeyed:
        found = list(itertools.takewhile(lambda row: row[4] is None, found))
    if not found:
        return []
    token, size, until = _next_token(tx), len(found), _until(tx, request, channel)
    first, last = found[0][0], found[-1][0]
    tx.run("lanes.move_cursor", group=channel.group, lane=lane, position=last)
    tx.run(
        "runs.open",
        token=token,
        group=channel.group,
        lane=lane,
        first=first,
        last=last,
        size=size,
        until=until,
        worker=request.worker,
    )
    lease = Lease(token, channel.group, until, size, request.worker, tx.clock())
    grant = request.kind
    return [
        grant(Message(message_id, lane, *content), 1, lease, member, channel)
        for member, (_, message_id, *content) in enumerate(found)
    ]


def _until(tx: SqliteTransaction, request: ClaimRequest, channel: Channel) -> int:
    return tx.clock() + request.term(channel)


def _next_token(tx: SqliteTransaction) -> int:
    found = tx.one("runs.next_token")
    assert found is not None, "the counter is there since the first migration"
    return found[0]  # type: ignore[no-any-return]
