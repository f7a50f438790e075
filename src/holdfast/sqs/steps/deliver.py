"""Messages that SQS delivers: handed over as pointers, and claimed by whoever comes with one. Shared by both stores.

SQS is never asked what is true. A message is handed over by a row that says so, with a generation that grows each time;
a pointer is worth something only as long as its row says the same. So a pointer that comes twice, late or never does no
harm: what it led to was claimed before, is over, or is handed over again.

What is with SQS counts for a queue's limits, so that no more is handed over than may be claimed; the limits are looked
at again when a pointer comes, for that is the moment that they are about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Sequence
from enum import StrEnum

import msgspec

from holdfast.core import priority
from holdfast.core.dead_letter import read_history
from holdfast.core.lifecycle import FINAL, must_be_alone
from holdfast.core.message import Lease, Message, MessageId, encode_json, id_text
from holdfast.core.queue import QueueSpec
from holdfast.sqs.rules.pointer import Pointer
from holdfast.sqs.steps.values import Death, HandOver, OverduePointers, Taken
from holdfast.store.api import Channel, ClaimRequest, Grant, Granted, Make
from holdfast.store.engine import counters, limits, rows
from holdfast.store.engine.limits import FRONT, QUEUE, Limit, started
from holdfast.store.engine.rows import Content, NewRow
from holdfast.store.transaction import Row, Transaction

SQS = "sqs"
_spec = msgspec.json.Decoder(QueueSpec)

MOST_MOVED = 1_000
"""So many messages leave a lane in one transaction, where there still are some: from before SQS delivered them."""


class PointerFate(StrEnum):
    """What is to be done with a pointer."""

    TAKEN = "taken"
    """Its message was claimed: it goes when that has ended."""
    OVER = "over"
    """Nothing will ever come of it: it is deleted."""
    LATER = "later"
    """Its message is unfinished, and cannot be claimed now: it is left, and comes again."""
    BACK = "back"
    """Its message can be claimed, but not by this claim: it is given back."""
    HELD = "held"
    """Somebody else holds the row at this moment, who confirms it, say: it is worth another try at once."""


def hand_over(tx: Transaction, channel: Channel, limit: int, hold: int) -> HandOver:
    """Marks messages that are due as being sent, for as long as `hold`; in the order of claims, as far as limits allow.

    Whoever is killed now has marked them for nothing: the hold ends, and they are sent again with the next generation.
    """
    entered = tx.one("delivery.enter", group=channel.group)
    if entered is None or entered[0] != SQS or entered[1]:
        return HandOver([], is_out=False)
    if not _goes_there(channel, entered):
        return HandOver([], is_out=False, is_current=False)
    room = Room(tx, channel.group, limit) if entered[2] else None
    marked: list[Row] = []
    for level in priority.ALL:
        lane = channel.lane(level)
        wanted = limit - len(marked) if room is None else room.left
        if wanted <= 0:
            break
        _leave_lane(tx, channel, lane)
        chosen = _due(tx, channel, lane, wanted, room)
        found = tx.each("delivery.mark", [{"seq": seq, "hold": hold} for seq in chosen])
        marked += [row for row in found if row is not None]
    if marked:
        return HandOver([Pointer(*row) for row in marked], is_out=True, is_coming=True)
    # What is due and was not found is being marked by somebody else, whose transaction has not ended.
    return nothing_due(tx, channel, is_coming=room is None and is_due(tx, channel))


def _goes_there(channel: Channel, entered: Row) -> bool:
    """Whether its pointers go where whoever asks would send them: he may not have heard yet of another queue of SQS."""
    return _spec.decode(entered[3]).sqs_queue == channel.spec.sqs_queue


def is_due(tx: Transaction, channel: Channel) -> bool:
    """Whether there may be something to hand over; looked at without a lock."""
    places = [{"group": channel.group, "lane": channel.lane(level)} for level in priority.ALL]
    return any(tx.one("rows.is_due", **place) or tx.all("lanes.front", **place, limit=1) for place in places)


def nothing_due(tx: Transaction, channel: Channel, *, is_coming: bool = False) -> HandOver:
    """Whether SQS has anything of this queue all the same, or will have."""
    is_coming = is_coming or tx.one("delivery.is_coming", group=channel.group) is not None
    return HandOver([], is_coming or tx.one("delivery.is_out", group=channel.group) is not None, is_coming)


def confirm(
    tx: Transaction, channel: Channel, sent: Sequence[Pointer], unsent: Sequence[Pointer], patience: int
) -> int:
    """SQS has these, and not those, which are pending again at once. How many of what was sent has begun already, or is
    not SQS's to deliver any more."""
    entered = tx.one("delivery.enter", group=channel.group)
    if entered is None or entered[0] != SQS or not _goes_there(channel, entered):
        sent, unsent = (), [*sent, *unsent]
    tx.each("delivery.take_again", [_named(channel, one) for one in _ordered(unsent)])
    found = tx.each("delivery.confirm", [{**_named(channel, one), "patience": patience} for one in _ordered(sent)])
    if unsent:
        tx.rings.add(channel.id)
    return found.count(None)


def claim(
    tx: Transaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    pointers: Sequence[Pointer],
    limit: int,
) -> Taken[Granted]:
    """Takes what the pointers lead to; for each of them, what is to be done with it."""
    if not pointers:
        return Taken([], [])
    entered = tx.one("delivery.look", group=channel.group)
    is_open = entered is not None and entered[0] == SQS and not entered[1]
    wanted = _ordered(set(pointers))
    pointed = tx.each("delivery.pointed", [_named(channel, one) for one in wanted]) if is_open else [None] * len(wanted)
    candidates = {one: row for one, row in zip(wanted, pointed, strict=True) if row is not None}
    room = Room(tx, channel.group, limit, claiming=True) if is_open and entered is not None and entered[2] else None
    chosen, passed = _choose(candidates, request, limit, room)
    grants = _take(tx, request, make, channel, [(one, candidates[one]) for one in chosen])
    if room is not None:
        room.note(tx, channel.group, grants)
    counters.add(tx, channel.group, claimed=len(grants))
    fates = dict.fromkeys(chosen, PointerFate.TAKEN) | dict.fromkeys(passed, PointerFate.BACK)
    fates |= _standing(tx, channel, [one for one in wanted if one not in fates], candidates if is_open else wanted)
    return Taken(grants, [fates[one] for one in pointers])


class Room:
    """What the limits of a queue leave for now: in all, and of each key.

    Who hands over counts what is with SQS as claimed; who claims does not, for it comes from there.
    """

    def __init__(self, tx: Transaction, group: int, wanted: int, *, claiming: bool = False) -> None:
        tx.one("delivery.hold_limit", group=group)
        self._tx = tx
        self._group = group
        self._limit = limits.find(tx, group) or Limit(None, None, None, None, None, None)
        out = 0 if claiming else limits.handed_over(tx, group)
        self.left = min(wanted, max(0, limits.room(tx, group, self._limit, wanted + out) - out))
        self.by_key = self._limit.by_key
        if self.by_key:
            self._held: dict[str, int] = dict(tx.all("delivery.held_by_key", group=group))
            self._out: dict[str, int] = {} if claiming else dict(tx.all("delivery.out_by_key", group=group))
        self._free: dict[str, int] = {}
        self._last = self._limit.turn

    def take(self, key: str | None) -> bool:
        """Whether there is room for one more of this key; then there is one less."""
        if self.left < 1 or not self._take_of_key(key):
            return False
        self.left -= 1
        self._last = key
        return True

    def full(self) -> list[str]:
        """The keys without any room, of those that were asked for."""
        return [key for key, free in self._free.items() if free < 1]

    def by_turns(self, keys: Collection[str | None]) -> list[str | None]:
        """From the one behind the last that had its turn to the last, then those without a key, then the rest."""
        turn, named = self._limit.turn, sorted(key for key in keys if key is not None)
        behind = [key for key in named if turn is None or key > turn]
        return [*behind, *([None] if None in keys else []), *named[: len(named) - len(behind)]]

    def note_turn(self, tx: Transaction, group: int) -> None:
        """Whoever comes next goes on behind the last."""
        tx.run("delivery.next_turn", group=group, key=self._last)

    def note(self, tx: Transaction, group: int, grants: Sequence[Grant]) -> None:
        """What was just claimed counts for the rates."""
        limit = self._limit
        if limit.rate_count is not None and grants:
            tx.run("delivery.note", group=group, key=QUEUE, per=limit.rate_per, count=len(grants))
        if limit.key_rate_count is not None:
            keys = Counter(grant.message.key for grant in grants if grant.message.key is not None)
            for key, count in keys.items():
                tx.run("delivery.note", group=group, key="=" + key, per=limit.key_rate_per, count=count)

    def _take_of_key(self, key: str | None) -> bool:
        if key is None or not self.by_key:
            return True
        if key not in self._free:
            self._free[key] = self._free_of(key)
        if self._free[key] < 1:
            return False
        self._free[key] -= 1
        return True

    def _free_of(self, key: str) -> int:
        limit, out = self._limit, self._out.get(key, 0)
        free = self.left
        if limit.key_concurrency is not None:
            free = min(free, limit.key_concurrency - self._held.get(key, 0) - out)
        if limit.key_rate_count is not None:
            begun, _ = started(self._tx, self._group, "=" + key, limit.key_rate_per)
            free = min(free, limit.key_rate_count - begun - out)
        return free


def take_back(tx: Transaction, channel: Channel, limit: int) -> int:
    """Whoever was sending these is gone: they are pending again. How many."""
    found = tx.run("delivery.unheard", group=channel.group, limit=limit)
    if found:
        tx.rings.add(channel.id)
    return found


def send_again(tx: Transaction, channel: Channel, limit: int, away: int, waiting: int = 0) -> int:
    """Pointers that nobody has come with in time, and that are away for so long: their messages are sent anew, but for
    as many as are `waiting` in SQS. Counted again here, for others may have sent some since SQS was asked."""
    tx.one("delivery.hold", group=channel.group)
    (counted,) = tx.one("delivery.count_overdue", group=channel.group, most=waiting + limit) or (0,)
    if counted <= waiting:
        return 0
    found = tx.run("delivery.send_again", group=channel.group, limit=counted - waiting, away=away)
    if found:
        tx.rings.add(channel.id)
    return found


def wait_longer(tx: Transaction, channel: Channel, limit: int, patience: int) -> int:
    """Nobody asks after these pointers before so long."""
    return tx.run("delivery.wait_longer", group=channel.group, limit=limit, patience=patience)


def fall_back(tx: Transaction, channel: Channel, limit: int, away: int) -> int:
    """Messages that SQS has had for so long, and does not give away: the database delivers them."""
    return tx.run("delivery.fall_back", group=channel.group, limit=limit, away=away)


def deliver_anew(tx: Transaction, channel: int, group: int) -> None:
    """A queue is delivered another way from now on: what SQS has is the database's again. Sleepers look."""
    tx.run("delivery.withdraw", group=group)
    tx.run("delivery.withdraw_sending", group=group)
    tx.rings.add(channel)


def _leave_lane(tx: Transaction, channel: Channel, lane: int) -> None:
    """What was enqueued before SQS delivered, or by who had not heard of that, becomes rows."""
    if not tx.all("lanes.front", group=channel.group, lane=lane, limit=1):
        return
    tx.one("lanes.hold", group=channel.group, lane=lane)
    found = tx.all("lanes.front", group=channel.group, lane=lane, limit=MOST_MOVED)
    last_try = must_be_alone(channel.spec, 0)
    moved = [Content.of(row) for row in found]
    order_key = channel.spec.order_key
    rows.add(tx, [NewRow(channel.group, one, alone=last_try, order_key=order_key(one.key)) for one in moved])
    tx.each("lanes.remove", [{"id": one.id} for one in moved])


def _due(tx: Transaction, channel: Channel, lane: int, wanted: int, room: Room | None) -> list[int]:
    """The rows of a lane to hand over; a key that is full hides no other."""
    if room is None or not room.by_key:
        found = tx.all("delivery.due", group=channel.group, lane=lane, limit=wanted, full="[]")
        if room is not None:
            room.left -= len(found)
        return [seq for seq, _ in found]
    most = room.left + FRONT
    front = tx.all("delivery.due", group=channel.group, lane=lane, limit=most, full="[]")
    chosen = [seq for seq, key in front if room.take(key)]
    return chosen if chosen or len(front) < most else _once_round(tx, channel, lane, room)


def _once_round(tx: Transaction, channel: Channel, lane: int, room: Room) -> list[int]:
    """The oldest are all of full keys: the first of each other key, and of those without one."""
    chosen: list[int] = []
    met: set[str | None] = set()
    while room.left > 0:
        passed = encode_json([*room.full(), *(key for key in met if key is not None)]).decode()
        front = tx.all("delivery.due", group=channel.group, lane=lane, limit=room.left + FRONT, full=passed)
        firsts: dict[str | None, int] = {}
        for seq, key in front:
            firsts.setdefault(key, seq)
        firsts = {key: seq for key, seq in firsts.items() if key not in met}
        if not firsts:
            break
        met.update(firsts)
        chosen += [firsts[key] for key in room.by_turns(firsts) if room.take(key)]
    room.note_turn(tx, channel.group)
    return chosen


def _choose(
    candidates: dict[Pointer, Row], request: ClaimRequest, limit: int, room: Room | None
) -> tuple[list[Pointer], list[Pointer]]:
    """The most urgent, then the oldest. A row that must be held alone is taken only as the first, and then as the only
    one. Also those that could have been taken, but for that."""

    def place(one: Pointer) -> tuple[int, int, int, int]:
        row = candidates[one]
        return (0 if request.alone_first and row[4] else 1, row[2], row[13], row[0])

    chosen: list[Pointer] = []
    passed: list[Pointer] = []
    is_over = False
    for one in sorted(candidates, key=place):
        row = candidates[one]
        is_alone = bool(row[4])
        if is_over or len(chosen) >= limit or (is_alone and (chosen or not request.alone)):
            passed.append(one)
        elif room is None or room.take(row[7]):
            chosen.append(one)
            is_over = is_alone
    return chosen, passed


def _take(
    tx: Transaction,
    request: ClaimRequest,
    make: Make[Granted],
    channel: Channel,
    found: Sequence[tuple[Pointer, Row]],
) -> list[Granted]:
    if not found:
        return []
    (token,) = tx.one("delivery.token") or (0,)
    now = tx.clock()
    until = now + request.term(channel)
    wanted = [
        {
            "seq": row[0],
            "generation": one.generation,
            "token": token,
            "until": until,
            "worker": request.worker,
            "since": now,
        }
        for one, row in found
    ]
    tx.each("delivery.take", wanted)
    grants = []
    for _, (_, message_id, lane, attempts, _, *content, _) in found:
        lease = Lease(token, channel.group, until, 1, request.worker, now)
        grants.append(make(Message(message_id, lane, *content), attempts + 1, lease, None, channel))
    return grants


def are_over(tx: Transaction, group: int, pointers: Sequence[Pointer]) -> list[bool]:
    """Whether the messages of these pointers have ended."""
    found = tx.each("delivery.standing", [{"group": group, "id": one.id} for one in pointers])
    strangers = tx.each("delivery.is_elsewhere", [{"group": group, "id": one.id} for one in pointers])
    return [
        stranger is None if row is None else row[0] in FINAL for row, stranger in zip(found, strangers, strict=True)
    ]


def _standing(
    tx: Transaction, channel: Channel, pointers: Sequence[Pointer], barred: Container[Pointer]
) -> dict[Pointer, PointerFate]:
    """What becomes of pointers whose messages were not claimed: because that is `barred`, or for what else they are.

    One that could be claimed and was not found is being confirmed at this moment, or claimed: somebody holds its row.
    """
    found = tx.each("delivery.standing", [{"group": channel.group, "id": one.id} for one in pointers])
    missing = [one for one, row in zip(pointers, found, strict=True) if row is None]
    strangers = tx.each("delivery.is_elsewhere", [{"group": channel.group, "id": one.id} for one in missing])
    elsewhere = {one for one, row in zip(missing, strangers, strict=True) if row is not None}
    fates = {}
    for one, row in zip(pointers, found, strict=True):
        is_live = one in elsewhere if row is None else row[1] == one.generation and row[0] in _UNFINISHED
        is_held = is_live and row is not None and row[0] in _CLAIMABLE and one not in barred
        fates[one] = PointerFate.HELD if is_held else PointerFate.LATER if is_live else PointerFate.OVER
    return fates


_CLAIMABLE = ("sending", "enqueued")
_UNFINISHED = (*_CLAIMABLE, "processing")
"""States of a row whose newest pointer is still worth something. One that is pending gets another pointer."""


def _ordered(pointers: Sequence[Pointer] | set[Pointer]) -> list[Pointer]:
    """Rows are locked in one order, whoever locks them."""
    return sorted(pointers, key=lambda one: (one.id, one.generation))


def _named(channel: Channel, pointer: Pointer) -> dict[str, object]:
    return {"group": channel.group, "id": pointer.id, "generation": pointer.generation}


def overdue(tx: Transaction, channel: Channel) -> OverduePointers:
    """How many there are."""
    found = tx.one("delivery.overdue", group=channel.group)
    assert found is not None, "a count is always one row"
    count, since = found
    return OverduePointers(count, tx.clock() - since if count else 0)


def unsent(tx: Transaction, channel: Channel, limit: int) -> list[Death]:
    """Dead letters that someone outside was not told of yet, oldest first."""
    found = tx.all("delivery.unsent", channel=channel.id, limit=limit)
    return [_death(channel, *row) for row in found]


def _death(
    channel: Channel, dead_id: MessageId, message_id: MessageId, attempts: int, error: str, errors: bytes, at: int
) -> Death:
    history = read_history(errors)
    worker, traceback = (history[-1].worker, history[-1].traceback) if history else ("", None)
    return Death(dead_id, id_text(message_id), worker, attempts, channel.spec.max_attempts, error, traceback, at)


def sent(tx: Transaction, dead_ids: Sequence[MessageId]) -> None:
    """Notes that someone outside was told of these."""
    tx.each("delivery.sent", [{"id": one} for one in sorted(dead_ids)])
