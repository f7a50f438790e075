"""Looking without touching: status, peek, counts. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.consumers.steps import consumers
from holdfast.core import priority, run
from holdfast.core.dead_letter import BlockedKey, read_history
from holdfast.core.lifecycle import WAITING, State
from holdfast.core.message import Duplicate, Failure, Message, MessageId, MessageStatus, encode_json, id_text
from holdfast.core.queue import user_key
from holdfast.core.search import SearchCriteria
from holdfast.core.stats import WINDOW, Stats
from holdfast.store.api import Channel
from holdfast.store.engine import counters, expire_messages, idempotency, limits
from holdfast.store.engine.counters import Depth
from holdfast.store.engine.rows import Content
from holdfast.store.transaction import Row, Transaction
from holdfast.topics.steps import feed, group_states
from holdfast.worker.pools.scaling import Load


def status(tx: Transaction, tenant: str, message_id: MessageId) -> MessageStatus | None:
    """Where a message is, what happened to it, how far its handler is, and its result if it succeeded with one; of one
    that was published, how each group stands to it."""
    found = _completed(tx, tenant, message_id)
    if found is None or found.message is None or found.message.topic is None:
        return found
    groups = group_states.kept(tx, found.message) or group_states.remaining(tx, tenant, found.message)
    return msgspec.structs.replace(found, groups=groups)


def _completed(tx: Transaction, tenant: str, message_id: MessageId) -> MessageStatus | None:
    found = _by_time(tx, tenant, _place(tx, tenant, message_id))
    if found is not None and found.state is State.PROCESSING:
        return msgspec.structs.replace(found, progress=consumers.progress(tx, tenant, found))
    if found is not None and found.state is State.SUCCEEDED:
        kept = tx.one("results.find", id=message_id)
        return msgspec.structs.replace(found, result=msgspec.json.decode(kept[0])) if kept else found
    return found


def _by_time(tx: Transaction, tenant: str, found: MessageStatus | None) -> MessageStatus | None:
    """A message that nobody has claimed has expired when its time is over, whether or not a sweep has come by."""
    if found is None or found.state not in WAITING or found.message is None:
        return found
    channel = tx.one("channels.find", tenant=tenant, name=found.queue)
    max_age = None if channel is None else expire_messages.max_age_of(channel[2])
    moment = expire_messages.over_at(max_age, found.message.enqueued_at_us, found.message.expires_at_us)
    if moment is None or moment > tx.clock():
        return found
    return msgspec.structs.replace(found, state=State.EXPIRED, due_at_us=None, finished_at_us=moment)


def search(
    tx: Transaction, tenant: str, wanted: SearchCriteria, limit: int, after: MessageId | None
) -> list[MessageStatus]:
    """Every message that is still known and fits, in the order of ids, wherever it is kept."""
    found: list[MessageStatus] = []
    while len(found) < limit:
        ids = _candidates(tx, tenant, wanted, limit, after)
        if not ids:
            break
        places = [_completed(tx, tenant, message_id) for message_id in ids]
        found += [place for place in places if place is not None and wanted.fits(place)]
        after = ids[-1]
    return found[:limit]


def _candidates(
    tx: Transaction, tenant: str, wanted: SearchCriteria, limit: int, after: MessageId | None
) -> list[MessageId]:
    queries = ("rows.search", "lanes.search", "dead.search")
    found = [
        tx.all(query, tenant=tenant, queue=wanted.queue, limit=limit, after=after, **wanted.leading)
        for query in queries
    ]
    return sorted({row[0] for rows in found for row in rows})[:limit]


def _place(tx: Transaction, tenant: str, message_id: MessageId) -> MessageStatus | None:
    """Among the rows, in its lane, or dead. A row speaks for its lane; what a topic keeps is everyone's."""
    member = tx.one("lanes.member", id=message_id)
    found = None if member is None else tx.one("lanes.find", id=message_id, tenant=tenant)
    if member is not None and found is not None and found[-1] == "topic":
        return _published(Content.of(member).message(), *found[2:4])
    kept = tx.one("rows.look_up", id=message_id, tenant=tenant) or tx.one("dead.look_up", id=message_id, tenant=tenant)
    if kept is not None:
        return _told(kept)
    if found is None or member is None:
        return None
    group, _, enqueued_at, queue, _ = found
    message = Content.of(member).message()
    known = MessageStatus(message.id, queue, State.PENDING, 0, enqueued_at, message=message)
    if tx.one("lanes.is_pending", group=group, id=message_id):
        return msgspec.structs.replace(known, due_at_us=enqueued_at)
    known = msgspec.structs.replace(known, attempts=1, session=_session(tx, group, message_id))
    held = tx.one("runs.holding", group=group, id=message_id)
    if held is None:  # No index leads from a message to a run that is over.
        return msgspec.structs.replace(known, state=State.SUCCEEDED)
    _, size, settled, gone, worker, until, claimed_at, before = held
    known = msgspec.structs.replace(known, claimed_at_us=claimed_at)
    if run.is_settled(settled, run.places_left(gone, size)[before]):
        return msgspec.structs.replace(known, state=State.SUCCEEDED)
    return msgspec.structs.replace(known, state=State.PROCESSING, worker=worker, until_us=until)


def _session(tx: Transaction, group: int, message_id: MessageId) -> str | None:
    found = tx.one("effort.session", group=group, id=message_id)
    return found[0] if found else None


def _published(message: Message, enqueued_at: int, topic: str) -> MessageStatus:
    """A topic keeps it for its groups, each of which has a state of its own for it."""
    return MessageStatus(message.id, topic, State.PENDING, 0, enqueued_at, enqueued_at, message=message)


def _told(row: Row) -> MessageStatus:
    """What a row or a dead letter tells."""
    message = Content.of(row).message()
    queue, state, attempts, due_at, worker, until, finished_at, errors, claimed_at, session = row[10:]
    history = read_history(errors)
    told = State.PENDING if state == "sending" else State(state)  # Until SQS has it, it is the database's.
    return MessageStatus(
        message.id,
        queue,
        told,
        attempts,
        message.enqueued_at_us,
        due_at if told in WAITING else None,
        worker=worker if state == State.PROCESSING else None,
        until_us=until if state == State.PROCESSING else None,
        finished_at_us=finished_at,
        history=history,
        message=message,
        claimed_at_us=_last_claim(told, claimed_at, history),
        session=session,
    )


def _last_claim(state: State, claimed_at: int | None, history: Sequence[Failure]) -> int | None:
    """When the claim began that a message is in, or that ended it. A death is the last line of its history, and what
    has expired was wanted by nobody in time."""
    if state is State.DEAD:
        return history[-1].claimed_at_us if history else None
    return None if state is State.EXPIRED else claimed_at


def peek(tx: Transaction, channel: Channel, limit: int) -> list[Message]:
    """What the next claims would get, in their order."""
    found: list[Row] = []
    born = counters.born(tx, channel.spec.max_age)
    for level in priority.ALL:
        lane = channel.lane(level)
        for query in ("delivery.peek", "rows.peek"):
            if len(found) < limit:
                found += tx.all(query, group=channel.group, lane=lane, limit=limit - len(found), born=born)
        if len(found) < limit:
            found += _front(tx, channel, lane, limit - len(found), born)
    return [Content.of(row).message() for row in found]


def _front(tx: Transaction, channel: Channel, lane: int, limit: int, born: int) -> list[Row]:
    """What is next in a lane and can still be claimed."""
    if channel.source is not None:
        return tx.all("topics.peek", group=channel.group, lane=lane, limit=limit, born=born)
    if channel.spec.max_age is None:
        return tx.all("lanes.front", group=channel.group, lane=lane, limit=limit)
    return tx.all("lanes.peek", group=channel.group, lane=lane, limit=limit, born=born)


def stats(tx: Transaction, channel: Channel) -> Stats:
    """The queue in numbers; what takes long is not counted but known."""
    depth = _depth(tx, channel)
    waiting = _waiting(tx, channel, depth)
    recent = tx.one("tally.recent", group=channel.group, window=WINDOW)
    assert recent is not None, "a sum is always one row"
    claimed, completed, failed, lapsed, busy = recent
    return Stats(
        pending=depth.waiting - waiting,
        waiting=waiting,
        processing=depth.processing,
        dead=depth.dead,
        enqueued=_number(tx.one("delivery.enqueued", group=channel.group)) - depth.over_with_sqs,
        consumer_count=_number(tx.one("consumers.count", group=channel.group)),
        claim_rate=claimed / WINDOW,
        completion_rate=completed / WINDOW,
        failure_rate=failed / WINDOW,
        timeout_rate=lapsed / WINDOW,
        avg_processing_time=busy / completed / 1_000_000 if completed else None,
        age_of_oldest_item=_oldest(tx, channel),
    )


def _depth(tx: Transaction, channel: Channel) -> Depth:
    """How many messages wait, are in someone's hands, and are dead. What comes to a topic is not counted per group."""
    depth = counters.depth(tx, channel.group, channel.spec.max_age, with_lanes=channel.source is None)
    if channel.source is not None:
        depth.waiting = lag(tx, channel) + _number(tx.one("rows.pending", group=channel.group)) - depth.over
    return depth


def _waiting(tx: Transaction, channel: Channel, depth: Depth) -> int:
    """How many messages are not due yet."""
    return _number(tx.one("rows.waiting", group=channel.group)) - depth.over_not_due


def lag(tx: Transaction, channel: Channel) -> int:
    """How many messages of its topic a group has not come to yet, of those that it wants."""
    lags = [tx.one("topics.lag", group=channel.group, lane=channel.lane(level)) for level in priority.ALL]
    return sum(found[0] for found in lags if found is not None)


def _oldest(tx: Transaction, channel: Channel) -> float | None:
    """Seconds since the oldest pending message came: the first of a lane, or among the rows."""
    past = counters.born(tx, channel.spec.max_age)
    born = [row[0] for row in tx.all("rows.oldest", group=channel.group, born=past)]
    for level in priority.ALL:
        front = _front(tx, channel, channel.lane(level), 1, past)
        born += [Content.of(row).enqueued_at or 0 for row in front]
    return max(0, tx.clock() - min(born)) / 1_000_000 if born else None


def load(tx: Transaction, channels: Sequence[Channel]) -> Load:
    """What can be claimed from these queues now, for how long the first of it could have been, and what is in hand."""
    depth, held, since = 0, 0, tx.clock()
    for channel in channels:
        moment = claimable_since(tx, channel)
        held += counters.held(tx, channel.group)
        if moment is not None:
            found = _depth(tx, channel)
            depth += found.waiting - _waiting(tx, channel, found)
            since = min(since, moment)
    return Load(depth, (tx.clock() - since) / 1_000_000, held)


def claimable_since(tx: Transaction, channel: Channel) -> int | None:
    """Since when the first message of a queue could be claimed; None if none can be: empty, paused or blocked."""
    if _number(tx.one("channels.is_paused", group=channel.group)):
        return None
    moments: list[int] = []
    born = counters.born(tx, channel.spec.max_age)
    for level in priority.ALL:
        lane = channel.lane(level)
        moments += [due for (due,) in tx.all("rows.first_due", group=channel.group, lane=lane, born=born)]
        front = _front(tx, channel, lane, 1, born)
        moments += [Content.of(row).enqueued_at or 0 for row in front]
    return min((moment for moment in moments if moment <= tx.clock()), default=None)


def _number(row: Row | None) -> int:
    assert row is not None, "a count is always one row"
    return row[0]  # type: ignore[no-any-return]


def blocked(tx: Transaction, channel: Channel, limit: int) -> list[BlockedKey]:
    """The keys that wait for someone's decision, longest first."""
    born = counters.born(tx, channel.spec.max_age)
    found = tx.all("blocked.list", group=channel.group, limit=limit, born=born)
    return [BlockedKey(user_key(order_key), id_text(dead_id), at, count) for order_key, dead_id, at, count in found]


def next_due(tx: Transaction, channels: Sequence[Channel]) -> float | None:
    """Seconds until something more can be claimed without anyone's doing: a delay or a lease runs out."""
    moments: list[int] = []
    for channel in channels:
        found = tx.one("channels.next_due", group=channel.group, lane=channel.lane(0))
        assert found is not None, "a minimum is always one row"
        moment, limited = found
        if limited:
            moments += limits.next_due(tx, channel)
        elif moment is not None:
            moments.append(moment)
        if channel.source is not None:
            moments += _goes_on(tx, channel)
    return min(moments) / 1_000_000 if moments else None


def due(tx: Transaction, channels: Sequence[Channel]) -> list[Channel]:
    """Those of which something can be claimed now without anyone's doing; one look finds out where to look closer."""
    if not channels:
        return []
    asked = encode_json([{"group": channel.group, "lane": channel.lane(0)} for channel in channels]).decode()
    astir = {group for (group,) in tx.all("channels.astir", channels=asked)}
    moments = [(channel, next_due(tx, [channel])) for channel in channels if channel.group in astir]
    return [channel for channel, moment in moments if moment is not None and moment <= 0]


def _goes_on(tx: Transaction, channel: Channel) -> list[int]:
    """After how many microseconds a group gets further in its lanes. A claim passes by only so many that it does not
    want, and of what was there before it, it takes only as many as its rate allows."""
    limit = limits.find(tx, channel.group)
    if limit is not None and not limits.room(tx, channel.group, limit, 1):
        return []
    lanes = feed.open_lanes(tx, channel)
    if not lanes:
        return []
    if limit is None or any(tx.one("topics.is_in_past", group=channel.group, lane=lane) is None for lane in lanes):
        return [0]
    room, until_next = limits.past_room(tx, channel.group, limit)
    return [until_next if room == 0 else 0]


def known(tx: Transaction, channel: Channel, key: str) -> Duplicate | None:
    """The message that was enqueued under this idempotency key, if the key is still remembered."""
    return idempotency.find(tx, channel.id, key)
