"""The lane engine on SQLite: a lane is a range of row numbers, a run is a range of that range."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core import priority, run
from holdfast.core.message import Lease, Message, MessageId, NewMessage
from holdfast.sagas.steps import instances
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Granted, Make
from holdfast.store.engine import counters, limits, rows
from holdfast.store.engine.limits import Limit
from holdfast.store.engine.settle import finish, settle
from holdfast.store.sqlite import limits as limited
from holdfast.store.sqlite.ordered_group_feed import Feeder
from holdfast.store.transaction import Row
from holdfast.topics.rules import routing
from holdfast.topics.steps import skip
from holdfast.topics.steps.feed import MOST_PASSED

if TYPE_CHECKING:
    from holdfast.store.sqlite.connection import SqliteTransaction

ONE_STATEMENT = 16_777_216
"""Bytes of bodies that one statement takes."""

LEAST_LOOK = 100
"""So many are looked at in one go, at least."""


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
    if singles:
        rows.add(tx, singles)
        for row in singles:
            counters.add(tx, row.group, arrived=1)


def is_one_append(new: Sequence[NewMessage]) -> bool:
    """Whether one statement can do it: messages for one lane with nothing but a body, none of them or each with an
    idempotency key of its own, and no limit to keep."""
    lane, size, keys = new[0].lane, 0, set()
    for message in new:
        if not message.plain or message.lane != lane or message.limited or message.to_groups or not message.is_bare:
            return False
        size += len(message.body)
        if message.once is not None:
            if message.once.alias is not None:
                return False
            keys.add(message.once.key)
    return size <= ONE_STATEMENT and (not keys or len(keys) == len(new))


def append(tx: SqliteTransaction, new: Sequence[NewMessage]) -> None:
    """Such messages. It fails if one of their idempotency keys is known."""
    lane, channel = new[0].lane, priority.channel_of(new[0].lane)
    once = [] if new[0].once is None else [message.once for message in new if message.once is not None]
    tx.rings.add(channel)
    tx.all(
        "arrivals.add",
        channel=channel,
        lane=lane,
        start=priority.lane_start(lane),
        count=len(new),
        **(_packed(new) if once or len(new) > 1 else {"ids": new[0].id, "bodies": new[0].body, "places": None}),
        keys=msgspec.json.encode([(one.key, one.window) for one in once]).decode() if once else None,
        digests=b"".join([one.digest for one in once]) if once else b"",
    )


def claim(tx: SqliteTransaction, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
    """Acks what came along, then takes due rows and lane runs, priority by priority, until the limit is reached."""
    acked, lost = [], []
    if request.ack or request.done:
        acked = settle(tx, request.ack)
        lost = [finish(tx, lease) for lease in request.done]
        instances.move_on(tx)  # What follows from these acks may be claimed along with the rest.
    if request.alone_first and request.alone:
        for channel in request.channels:
            if alone := _take_alone(tx, request, make, channel):
                return ClaimResult(alone, acked, lost)
    grants: list[Granted] = []
    silent: list[Channel] = []
    short: set[int] = set()
    for channel, share in request.parts():
        before = len(grants)
        if share is None and before >= request.limit:
            break
        if channel.group in short:
            continue
        most = request.limit if share is None else before + share
        is_over = _claim_channel(tx, request, make, channel, grants, silent, most)
        counters.add(tx, channel.group, claimed=len(grants) - before)
        if len(grants) < most:
            short.add(channel.group)
        if is_over:
            break
    return ClaimResult(grants, acked, lost, silent)


def _append(tx: SqliteTransaction, lane: int, messages: list[NewMessage]) -> None:
    reserved = tx.one("lanes.reserve", lane=lane, start=priority.lane_start(lane), count=len(messages))
    assert reserved is not None, "an upsert returns its row"
    first = reserved[0] - len(messages) + 1
    if all(message.is_bare for message in messages) and sum(len(message.body) for message in messages) <= ONE_STATEMENT:
        _append_bare(tx, first, messages)
    else:
        _append_each(tx, first, messages)


def _append_bare(tx: SqliteTransaction, first: int, messages: list[NewMessage]) -> None:
    """All of them by one statement: a step for each is twice the work, and gives the interpreter away each time."""
    tx.run("lanes.append_bare", first=first, **_packed(messages))


def _packed(messages: Sequence[NewMessage]) -> dict[str, Any]:
    """Ids and bodies in a row, and for each body where it starts, in the upper 32 bits, and how long it is."""
    bodies = [message.body for message in messages]
    places, start = [], 1
    for body in bodies:
        places.append(start << 32 | len(body))
        start += len(body)
    return {
        "ids": b"".join([message.id for message in messages]),
        "bodies": b"".join(bodies),
        "places": msgspec.json.encode(places).decode(),
    }


def _append_each(tx: SqliteTransaction, first: int, messages: list[NewMessage]) -> None:
    now = tx.clock()
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
                new.topic,
                None if new.ttl is None else now + new.ttl,
                now,
            )
            for index, new in enumerate(messages)
        ],
    )


def _take_alone(tx: SqliteTransaction, request: ClaimRequest, make: Make[Granted], channel: Channel) -> list[Granted]:
    """The oldest row that must be held alone, if there is one, and room for it."""
    alone = tx.all("rows.due_alone", group=channel.group)
    limit = limits.find(tx, channel.group) if alone else None
    if limit is not None and not limits.room(tx, channel.group, limit, 1):
        return []
    if limit is not None and limit.by_key:
        alone = limited.alone(tx, channel, limit)
    taken = _take_rows(tx, request, make, channel, alone)
    counters.add(tx, channel.group, claimed=len(taken))
    if limit is not None:
        limited.note(tx, channel.group, limit, taken)
    return taken


def _claim_channel(
    tx: SqliteTransaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    grants: list[Granted],
    silent: list[Channel],
    most: int,
) -> bool:
    """Adds to the grants until there are so many, as far as the queue's limits allow. True if the claim ends here, with
    a row held alone."""
    places = tx.all("lanes.look", group=channel.group)
    if not places and tx.one("liveness.is_silent", group=channel.group):
        silent.append(channel)
    is_limited = bool(places and places[0][0])
    is_behind = channel.source is not None and any(position < live_from for *_, position, live_from, _, _ in places)
    limit = limits.find(tx, channel.group) if is_limited or is_behind else None
    if limit is None:
        return _claim_lanes(tx, request, make, channel, places, grants, most)
    before = len(grants)
    most = before + limits.room(tx, channel.group, limit, most - before)
    is_over = _claim_lanes(tx, request, make, channel, places, grants, most, limit)
    limited.note(tx, channel.group, limit, grants[before:])
    return is_over


def _claim_lanes(
    tx: SqliteTransaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    places: list[Row],
    grants: list[Granted],
    most: int,
    limit: Limit | None = None,
) -> bool:
    """A row that must be held alone is taken only as the first; a claim that has something already passes it by."""
    by_key = limit if limit is not None and limit.by_key else None
    past = None if limit is None or limit.catch_up_count is None else limited.Past(tx, channel.group, limit)
    for _, wanted, fed, lane, position, live_from, in_rows, in_lane in places:
        if len(grants) >= most:
            break
        if fed is not None:
            feeder = Feeder(tx, channel, lane, position, live_from, fed, wanted, past) if in_lane else None
            if (in_rows or in_lane) and _claim_fed(tx, request, make, channel, lane, feeder, grants, most, by_key):
                return True
            continue
        if by_key and in_lane and limited.leave_lane(tx, channel, lane, position, most - len(grants)):
            in_rows = True
        if in_rows:
            due = _due_rows(tx, channel, lane, most - len(grants), request.alone and not grants, by_key)
            grants += _take_rows(tx, request, make, channel, due)
            if due and due[0][4]:
                return True
        if in_lane and len(grants) < most:
            room, end = most - len(grants), priority.lane_start(lane + 1)
            is_past = past is not None and position < live_from
            if past is not None and is_past:
                room, end = past.room(room), live_from + 1
            skipped = set() if channel.source is None else skip.skipped(tx, channel.group)
            if not room:
                taken = []
            elif wanted is None and not skipped:
                taken = _take_run(tx, request, make, channel, lane, position, end, room, by_key is not None)
            else:
                taken = _take_wanted(tx, request, make, channel, lane, position, end, room, wanted, skipped)
            if past is not None and is_past:
                past.note(len(taken))
            grants += taken
    return False


def _claim_fed(
    tx: SqliteTransaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    lane: int,
    feeder: Feeder | None,
    grants: list[Granted],
    most: int,
    by_key: Limit | None,
) -> bool:
    """Rows only, and more of them as long as there are too few. True if the claim ends here, with a row held alone."""
    room, alone = most - len(grants), request.alone and not grants
    due = _due_rows(tx, channel, lane, room, alone, by_key)
    while len(due) < room and not (due and due[0][4]) and feeder is not None and feeder.feed(room):
        due = _due_rows(tx, channel, lane, room, alone, by_key)
    grants += _take_rows(tx, request, make, channel, due)
    return bool(due and due[0][4])


def _due_rows(
    tx: SqliteTransaction, channel: Channel, lane: int, room: int, alone: bool, by_key: Limit | None
) -> list[Row]:
    if by_key is not None:
        return limited.due(tx, channel, by_key, lane, room, alone)
    due = tx.all("rows.due", group=channel.group, lane=lane, limit=1, alone=alone)
    if not due or due[0][4] or room == 1:
        return due
    return tx.all("rows.due", group=channel.group, lane=lane, limit=room, alone=False)


def _take_rows(
    tx: SqliteTransaction, request: ClaimRequest, make: Make[Granted], channel: Channel, due: list[Row]
) -> list[Granted]:
    if not due:
        return []
    token, until = _next_token(tx), _until(tx, request, channel)
    tx.each("rows.take", [{"seq": row[0], "token": token, "until": until, "worker": request.worker} for row in due])
    taken = []
    for _, message_id, lane, attempts, _, *content in due:
        lease = Lease(token, channel.group, until, 1, request.worker, tx.clock())
        taken.append(make(Message(message_id, lane, *content), attempts + 1, lease, None, channel))
    return taken


def _take_run(
    tx: SqliteTransaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    lane: int,
    position: int,
    end: int,
    room: int,
    unkeyed: bool,
) -> list[Granted]:
    """The lane's next run: read the range, move the cursor past it, record one lease for all of it.

    If it has to be `unkeyed`, it ends before the first message that has a key.
    """
    found = tx.all("lanes.read", after=position, end=end, limit=channel.spec.run_limit(room))
    if unkeyed:
        found = list(itertools.takewhile(lambda row: row[4] is None, found))
    if not found:
        return []
    tx.run("lanes.move_cursor", group=channel.group, lane=lane, position=found[-1][0])
    lease = _open_run(tx, request, channel, lane, found)
    return [
        make(
            Message(raw, lane, body, headers, key, correlation, reply_to, topic, ends, sent), 1, lease, member, channel
        )
        for member, (_, raw, body, headers, key, correlation, reply_to, topic, ends, sent) in enumerate(found)
    ]


def _take_wanted(
    tx: SqliteTransaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    lane: int,
    position: int,
    end: int,
    room: int,
    wanted: str | None,
    skipped: set[MessageId],
) -> list[Granted]:
    """The same for a group that wants only some messages: the others are passed by, and settled from the start."""
    room, looks = channel.spec.run_limit(room), MOST_PASSED
    while looks > 0:
        found = tx.all("lanes.read", after=position, end=end, limit=max(room, LEAST_LOOK) if room > 1 else LEAST_LOOK)
        if not found:
            return []
        looks -= len(found)
        places = [
            place
            for place, row in enumerate(found)
            if row[1] not in skipped and (wanted is None or routing.is_wanted(wanted, row[7]))
        ][:room]
        passed = found[: places[-1] + 1] if places else found
        skip.pass_by(tx, channel.group, skipped.intersection(row[1] for row in passed))
        if places:
            found = found[places[0] : places[-1] + 1]
            places = [place - places[0] for place in places]
        position = found[-1][0]
        tx.run("lanes.move_cursor", group=channel.group, lane=lane, position=position)
        if places:
            others = set(range(len(found))) - set(places)
            settled = run.settle(None, len(found), others) if others else None
            lease = _open_run(tx, request, channel, lane, found, settled)
            return [
                make(Message(found[place][1], lane, *found[place][2:]), 1, lease, place, channel) for place in places
            ]
    return []


def _open_run(
    tx: SqliteTransaction,
    request: ClaimRequest,
    channel: Channel,
    lane: int,
    found: list[Row],
    settled: run.Bits | None = None,
) -> Lease:
    token, size, until = _next_token(tx), len(found), _until(tx, request, channel)
    tx.run(
        "runs.open",
        token=token,
        group=channel.group,
        lane=lane,
        first=found[0][0],
        last=found[-1][0],
        size=size,
        settled=settled,
        until=until,
        worker=request.worker,
    )
    return Lease(token, channel.group, until, size, request.worker, tx.clock())


def _until(tx: SqliteTransaction, request: ClaimRequest, channel: Channel) -> int:
    return tx.clock() + request.term(channel)


def _next_token(tx: SqliteTransaction) -> int:
    found = tx.one("runs.next_token")
    assert found is not None, "the counter is there since the first migration"
    return found[0]  # type: ignore[no-any-return]
