"""The lane engine on PostgreSQL: appended by one statement, claimed by one function call, closed by one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.core import priority, run
from holdfast.core.dead_letter import untimed_history
from holdfast.core.lifecycle import LifecycleEvent, State, attempts_after, next_state
from holdfast.core.message import Duplicate, Lease, Message, NewMessage
from holdfast.core.settlement import Settlement
from holdfast.store.api import ClaimRequest, ClaimResult, Granted, Make
from holdfast.store.engine import counters, rows
from holdfast.store.engine import settle as settling
from holdfast.store.engine.insert import unheard
from holdfast.store.postgres.arrays import bytea_array, int8_array, uuid_array
from holdfast.store.transaction import Row
from holdfast.topics.steps import feed

if TYPE_CHECKING:
    from holdfast.store.postgres.connection import PostgresTransaction

Value = TypeVar("Value")

FINAL_STATES = {LifecycleEvent.DIED: next_state(State.PROCESSING, LifecycleEvent.DIED), **settling.ENDINGS}
"""Ends that leave something to look at."""

ONE_STATEMENT = 10_000
"""As many messages as one statement takes; more go in several, in one transaction."""


def insert(tx: PostgresTransaction, new: Sequence[NewMessage]) -> None:
    """Plain messages are appended to their lanes, the others become rows."""
    tx.rings.update({priority.channel_of(lane) for lane in {message.lane for message in new}})
    plain: dict[int, list[NewMessage]] = defaultdict(list)
    for message in new:
        if message.plain:
            plain[message.group].append(message)
    for messages in plain.values():
        for start in range(0, len(messages), ONE_STATEMENT):
            _append(tx, messages[start : start + ONE_STATEMENT])
    singles = [rows.from_new(message) for message in new if not message.plain]
    if singles:
        rows.add(tx, singles)
        for row in singles:
            counters.add(tx, row.group, arrived=1)


def is_one_append(new: Sequence[NewMessage]) -> bool:
    """Whether nothing but one append has to be done: plain messages of one queue, without keys."""
    return _are_plain(new) and all(message.once is None for message in new)


def is_one_append_once(new: Sequence[NewMessage]) -> bool:
    """The same for messages that all have an idempotency key, each another one."""
    return (
        new[0].once is not None
        and _are_plain(new)
        and all(message.once is None or message.once.alias is None for message in new)
        and len({message.once.key for message in new if message.once is not None}) == len(new)
    )


def _are_plain(new: Sequence[NewMessage]) -> bool:
    group = new[0].group
    return len(new) <= ONE_STATEMENT and all(
        message.plain and message.group == group and not message.to_groups for message in new
    )


def append(tx: PostgresTransaction, new: Sequence[NewMessage]) -> None:
    """Such messages, by one statement. An earlier try may have stored them."""
    tx.rings.add(priority.channel_of(new[0].lane))
    fresh = unheard(tx, new) if tx.again else new
    if fresh:
        _append(tx, fresh)


def append_once(tx: PostgresTransaction, new: Sequence[NewMessage]) -> list[Duplicate | None]:
    """One call of the server's function; what was there before, in place of those messages that were not stored."""
    tx.rings.add(priority.channel_of(new[0].lane))
    once = [message.once for message in new if message.once is not None]
    found = tx.all(
        "lanes.append_once",
        **_columns(new),
        once_keys=[one.key for one in once],
        digests=bytea_array([one.digest for one in once]),
        windows=int8_array([one.window for one in once]),
        limited=new[0].limited,
        **tx.bell(),
    )
    answers: list[Duplicate | None] = [None] * len(new)
    for place, message_id, result in found:
        if place == 0:
            tx.has_rung = True
        else:
            answers[place - 1] = Duplicate(message_id, result)
    return answers


def append_if_room(tx: PostgresTransaction, new: Sequence[NewMessage]) -> bool:
    """One statement for a queue with a limit; False if its bound leaves no room. An earlier try may have succeeded."""
    tx.rings.add(priority.channel_of(new[0].lane))
    if tx.again and tx.one("lanes.is_known", id=new[0].id):
        return True
    return tx.run("lanes.append_limited", count=len(new), **_columns(new)) > 0


def _append(tx: PostgresTransaction, new: Sequence[NewMessage]) -> None:
    lane = new[0].lane
    if all(message.is_bare and message.lane == lane for message in new):
        found = tx.one("lanes.append_bare", count=len(new), **tx.bell(), **_contents(new))
    else:
        found = tx.one("lanes.append", count=len(new), **tx.bell(), **_columns(new))
    assert found is not None, "it always says whether it has rung"
    tx.has_rung = found[0]


def _contents(new: Sequence[NewMessage]) -> dict[str, Any]:
    return {
        "group": new[0].group,
        "lane": new[0].lane,
        "ids": uuid_array([message.id for message in new]),
        "bodies": bytea_array([message.body for message in new]),
    }


def _columns(new: Sequence[NewMessage]) -> dict[str, Any]:
    """Columns that are alike in all messages, as most are, are not sent message by message."""
    lanes = [message.lane for message in new]
    return {
        **_contents(new),
        "lanes": None if lanes.count(lanes[0]) == len(lanes) else lanes,
        **(_NOTHING_ELSE if all(message.is_bare for message in new) else _other_columns(new)),
    }


_NOTHING_ELSE = dict.fromkeys(("headers", "keys", "correlation_ids", "reply_tos", "topics", "ttls"))


def _other_columns(new: Sequence[NewMessage]) -> dict[str, Any]:
    return {
        "headers": _or_none([message.headers for message in new]),
        "keys": _or_none([message.key for message in new]),
        "correlation_ids": _or_none([message.correlation_id for message in new]),
        "reply_tos": _or_none([message.reply_to for message in new]),
        "topics": _or_none([message.topic for message in new]),
        "ttls": _or_none([message.ttl for message in new]),
    }


def _or_none(column: list[Value | None]) -> list[Value | None] | None:
    return None if column.count(None) == len(column) else column


def claim(tx: PostgresTransaction, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
    """One function call takes due rows and lane runs, priority by priority, until the limit is reached."""
    return _read(tx.all("lanes.claim", **_wish(request)), request, make).claimed


def close_and_claim(
    tx: PostgresTransaction, request: ClaimRequest, make: Make[Granted], whole: dict[int, Lease]
) -> tuple[set[int], ClaimResult[Granted]]:
    """The same, after closing the runs that are acked whole; their tokens come first."""
    answer = _read(tx.all("lanes.close_and_claim", **_runs(whole), **_wish(request)), request, make)
    tx.rings |= answer.rings
    return answer.closed | _closed_unheard(tx, whole, answer.closed, request.ack), answer.claimed


def close_whole(tx: PostgresTransaction, whole: dict[int, Lease], settlements: Sequence[Settlement]) -> set[int]:
    """Closes the runs of which every member is acked here; their tokens."""
    found = tx.all("runs.close_whole", **_runs(whole))
    closed = {token for token, _ in found}
    tx.rings.update({channel for _, channel in found if channel is not None})
    return closed | _closed_unheard(tx, whole, closed, settlements)


def _runs(whole: dict[int, Lease]) -> dict[str, object]:
    return {
        "tokens": int8_array(whole),
        "sizes": int8_array([lease.size for lease in whole.values()]),
        "sinces": int8_array([lease.since_us for lease in whole.values()]),
    }


def whole_runs(settlements: Sequence[Settlement], done: Sequence[Lease] = ()) -> dict[int, Lease]:
    """The leases of runs that are done: by one ack for each of their members, and by nothing else. By token."""
    leases: dict[int, Lease] = {}
    acked: dict[int, set[int]] = defaultdict(set)
    split: set[int] = set()
    for one in settlements:
        if one.member is None:
            continue
        token = one.lease.token
        if one.event is LifecycleEvent.ACKED and _is_bare(one) and one.member not in acked[token]:
            acked[token].add(one.member)
            leases[token] = one.lease
        else:
            split.add(token)
    whole = [lease for token, lease in leases.items() if token not in split and len(acked[token]) == lease.size]
    return {lease.token: lease for lease in sorted([*whole, *done], key=lambda lease: lease.token)}


def settle(tx: PostgresTransaction, settlements: Sequence[Settlement]) -> list[bool]:
    """Settles what needs a look at each claim: split runs and rows."""
    applied = [False] * len(settlements)
    parts = splits(settlements)
    if len(parts) == 1:
        answers = [tx.one("runs.split_off", **parts[0].parameters)]
    else:
        answers = tx.each("runs.split_off", [one.parameters for one in parts])
    for split, found in zip(parts, answers, strict=True):
        if found is not None:
            bits, channel, makes_room = found
            for place, index in split.places.items():
                applied[index] = run.is_settled(bits, place)
            if split.leaves or makes_room:
                tx.rings.add(channel)
    handled = {index for split in parts for index in split.indices}
    others = [index for index in range(len(settlements)) if index not in handled]
    for index, held in zip(others, settling.settle(tx, [settlements[i] for i in others]), strict=True):
        applied[index] = held
    if tx.again and not all(applied):
        now = tx.clock()
        applied = [
            held or (_is_gone_early(one.lease, now) and _ended_so(tx, one))
            for held, one in zip(applied, settlements, strict=True)
        ]
    return applied


def _is_bare(settlement: Settlement) -> bool:
    """Whether nothing has to be written but that the claim has ended."""
    return settlement.result is None and not settlement.followed_by and settlement.receipt is None


class Split(msgspec.Struct):
    """Some claims of one run, as one call of the server's function ends them."""

    parameters: dict[str, object]
    places: dict[int, int]
    """The first settlement of each member, by its place in the run; a second one has lost."""
    indices: list[int]
    leaves: bool


_SIMPLE = {LifecycleEvent.ACKED, LifecycleEvent.FAILED, LifecycleEvent.RELEASED, LifecycleEvent.SNOOZED}


def splits(settlements: Sequence[Settlement]) -> list[Split]:
    """The runs whose claims end without a death, a result or an expiry; ordered, as everything that locks runs."""
    by_token: dict[int, list[int]] = defaultdict(list)
    for index, one in enumerate(settlements):
        if one.member is not None:
            by_token[one.lease.token].append(index)
    return [
        _split([(index, settlements[index]) for index in by_token[token]])
        for token in sorted(by_token)
        if all(settlements[i].event in _SIMPLE and _is_bare(settlements[i]) for i in by_token[token])
    ]


def _split(pairs: list[tuple[int, Settlement]]) -> Split:
    first: dict[int, tuple[int, Settlement]] = {}
    for index, one in pairs:
        assert one.member is not None, "only members of runs come here"
        first.setdefault(one.member, (index, one))
    lease = pairs[0][1].lease
    acked = [place for place, (_, one) in first.items() if one.event is LifecycleEvent.ACKED]
    leaving = {place: one for place, (_, one) in first.items() if one.event is not LifecycleEvent.ACKED}
    return Split(
        {
            "token": lease.token,
            "since": lease.since_us,
            "acked": run.settle(None, lease.size, acked),
            "leaving": int8_array(leaving),
            "ids": uuid_array([one.message_id for one in leaving.values()]),
            "delays": int8_array([one.delay for one in leaving.values()]),
            "attempts": int8_array([attempts_after(one.attempt, one.event) for one in leaving.values()]),
            "alone": [one.alone for one in leaving.values()],
            "errors": [untimed_history(one.failure) if one.failure else None for one in leaving.values()],
        },
        {place: index for place, (index, _) in first.items()},
        [index for index, _ in pairs],
        bool(leaving),
    )


def _closed_unheard(
    tx: PostgresTransaction, whole: dict[int, Lease], closed: set[int], settlements: Sequence[Settlement]
) -> set[int]:
    """Runs that are gone because an earlier try of the same work closed them and its answer got lost."""
    wanted = [lease for token, lease in whole.items() if token not in closed]
    if not tx.again or not wanted:
        return set()
    open_runs = tx.each("runs.lock", [{"token": lease.token} for lease in wanted])
    now = tx.clock()
    gone = {
        lease.token for lease, run in zip(wanted, open_runs, strict=True) if run is None and _is_gone_early(lease, now)
    }
    return gone - {one.lease.token for one in settlements if one.lease.token in gone and not _ended_so(tx, one)}


def _is_gone_early(lease: Lease, now: int) -> bool:
    """Before its end, only its holder ends a lease, or someone who cancels the message: one that is gone early was most
    likely ended by our earlier try."""
    return lease.until_us > now


def _ended_so(tx: PostgresTransaction, settlement: Settlement) -> bool:
    """Whether what became of the message can be the work of our earlier try. It may also have been canceled, or the
    same holder had ended its claim before in another way."""
    found = {state for (state,) in tx.all("rows.ended_as", group=settlement.lease.group, id=settlement.message_id)}
    if settlement.event is LifecycleEvent.ACKED:
        return found <= {State.SUCCEEDED}
    if settlement.event in FINAL_STATES:
        return FINAL_STATES[settlement.event] in found
    return State.CANCELED not in found


def _wish(request: ClaimRequest) -> dict[str, object]:
    parts = request.parts()
    channels = [channel for channel, _ in parts]
    most = max([request.limit, *(request.shares or ())])
    return {
        "readers": int8_array([channel.group for channel in channels]),
        "first_lanes": int8_array([channel.lane(0) for channel in channels]),
        "terms": int8_array([request.term(channel) for channel in channels]),
        "run_limits": int8_array([channel.spec.run_limit(most + 1) for channel in channels]),
        "shares": None if request.shares is None else int8_array([share or 0 for _, share in parts]),
        "wanted": request.limit,
        "worker": request.worker,
        "alone_first": request.alone_first and request.alone,
        "alone": request.alone,
        "most_waiting": feed.MOST_WAITING,
    }


class ClaimAnswer(msgspec.Struct, Generic[Granted]):
    """What was claimed; before that, which runs were closed, by token, and whom to wake because there is room now."""

    claimed: ClaimResult[Granted]
    closed: set[int]
    rings: set[int]


def _read(found: list[Row], request: ClaimRequest, make: Make[Granted]) -> ClaimAnswer[Granted]:
    """Whose lines are what is said at `holdfast_grant`; before them come the runs that were closed."""
    channels = {channel.group: channel for channel in request.channels}
    closed, rings, silent = set[int](), set[int](), set[int]()
    grants = list[Granted]()
    lease: Any = None
    channel: Any = None
    lane, place = 0, 0
    for head, raw, body, headers, key, trace, reply, topic, ends, sent in found:
        if raw is None:
            match head:
                case [group]:
                    silent.add(group)
                case [token, whom]:
                    closed.add(token)
                    rings |= set() if whom is None else {whom}
                case [group, token, until, size, lane]:
                    channel, place = channels[group], 0
                    lease = Lease(token, group, until, size, request.worker, until - request.term(channel))
        elif head is None or len(head) == 1:
            place = place if head is None else head[0]
            message = Message(raw, lane, body, headers, key, trace, reply, topic, ends, sent)
            grants.append(make(message, 1, lease, place, channel))
            place += 1
        else:
            group, token, until, attempt, lane = head
            channel = channels[group]
            lease = Lease(token, group, until, 1, request.worker, until - request.term(channel))
            message = Message(raw, lane, body, headers, key, trace, reply, topic, ends, sent)
            grants.append(make(message, attempt, lease, None, channel))
    return ClaimAnswer(
        ClaimResult(grants, [], [], [one for one in request.channels if one.group in silent]), closed, rings
    )
