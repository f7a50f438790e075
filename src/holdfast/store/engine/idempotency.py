"""Enqueueing once: a key that is known leads to the message that was there first. Shared by both stores.

A key is remembered until its window has passed since the end of its message. An ack does not write that end down, or
every ack would pay for it. Instead, sweeps look at each key a quarter of its window after it was taken: if its message
has ended, the key gets the moment at which it is forgotten, and if not, it is looked at again later. Where the moment
of the end is not known, the window starts with the look. So a key may be forgotten late, but never early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import priority, run
from holdfast.core.message import Duplicate, MessageId, NewMessage, Once
from holdfast.errors import IdempotencyConflict
from holdfast.store.transaction import Transaction

Place = tuple[int, str]
"""Where a key is known: the number of a queue or topic, and the key."""

SOONEST_LOOK = 1_000_000
"""Microseconds until a key is looked at again, at least."""


def known(tx: Transaction, new: Sequence[NewMessage]) -> dict[int, Duplicate]:
    """The messages whose keys are taken already, by their place.

    Keys are taken in one order everywhere, so that rivals with several of them cannot wait for each other.
    """
    keyed = sorted([(_place(message), index) for index, message in enumerate(new) if message.once is not None])
    if not keyed:
        return {}
    taken = _take_free(tx, new, keyed)
    found = {index: _first(tx, *place, new[index]) for place, index in keyed if new[index].id not in taken}
    return found | _known_by_alias(tx, new, [index for _, index in keyed if index not in found])


def _known_by_alias(tx: Transaction, new: Sequence[NewMessage], fresh: Sequence[int]) -> dict[int, Duplicate]:
    """Those of the messages with a free key whose alias is taken. The key then leads to the earlier message, too.

    All transactions take keys before aliases, and the two never meet: the order of locks is one everywhere.
    """
    aliases = [(index, _once(new[index]).alias) for index in fresh]
    aliased = sorted([((_place(new[index])[0], alias), index) for index, alias in aliases if alias is not None])
    if not aliased:
        return {}
    taken = _take_free(tx, new, aliased, aliases=True)
    found = {}
    for place, index in aliased:
        if new[index].id not in taken:
            first = found[index] = _first(tx, *place, new[index])
            channel, key = _place(new[index])
            tx.run("idempotency.redirect", channel=channel, key=key, id=first.id)
    return found


def _take_free(
    tx: Transaction, new: Sequence[NewMessage], keyed: Sequence[tuple[Place, int]], *, aliases: bool = False
) -> set[MessageId]:
    """Takes these keys, each for the first message that has it, as far as they are free or can be freed; the messages
    that have got theirs."""
    earliest: dict[Place, NewMessage] = {}
    for place, index in keyed:
        earliest.setdefault(place, new[index])
    taken = _take(tx, earliest, aliases)
    if free := _freed(tx, [place for place, message in earliest.items() if message.id not in taken]):
        taken |= _take(tx, {place: earliest[place] for place in free}, aliases)
    return taken


def find(tx: Transaction, channel: int, key: str) -> Duplicate | None:
    """The message that was enqueued under this key, if the key is still remembered."""
    found = tx.one("idempotency.find", channel=channel, key=key)
    if found is None:
        return None
    message_id, result, lasts, ended, is_due = found
    if is_due and not ended:
        [look] = _look(tx, [KnownKey(channel, key, message_id, lasts)])
        is_over = look.ended and look.expires <= tx.clock()
    else:
        is_over = is_due
    return None if is_over else Duplicate(message_id, result)


def prune(tx: Transaction, channel: int, limit: int) -> int:
    """Looks at the keys of a channel that are due, and forgets those whose time is over; how many it dealt with."""
    looks = _review(tx, [KnownKey(*row) for row in tx.all("idempotency.due", channel=channel, limit=limit)])
    return len(looks) + tx.run("idempotency.outdated", channel=channel, limit=limit)


class KnownKey(msgspec.Struct, frozen=True):
    """A key of which it is not known that its message has ended, and for how long it lasts from then on."""

    channel: int
    key: str
    id: MessageId
    lasts: int


class Look(msgspec.Struct, frozen=True):
    """What a look at a key found.

    If the message has `ended`, the key is forgotten when it `expires`. If not, that is when to look again.
    """

    of: KnownKey
    ended: bool
    expires: int


class MessageFate(msgspec.Struct, frozen=True):
    """What became of a message, as `idempotency.fate` finds it."""

    is_live: bool
    since: int | None
    ended_at: int | None
    run_size: int | None
    settled: run.Bits | None
    gone: run.Bits | None
    before: int | None

    @property
    def has_ended(self) -> bool:
        """Not if it waits, is a row that was not settled, or a member of an open run that was not."""
        if self.is_live or self.run_size is None or self.before is None:
            return not self.is_live
        return run.is_settled(self.settled, run.places_left(self.gone, self.run_size)[self.before])


def _freed(tx: Transaction, places: Sequence[Place]) -> list[Place]:
    """Those of these keys, which are held, that are over, though no sweep has come by."""
    if not places:
        return []
    found = tx.all("idempotency.due_among", keys=msgspec.json.encode(places).decode())
    looks, now = _review(tx, [KnownKey(*row) for row in found]), tx.clock()
    return [(look.of.channel, look.of.key) for look in looks if look.ended and look.expires <= now]


def _review(tx: Transaction, keys: Sequence[KnownKey]) -> list[Look]:
    """Looks at keys, and notes what was found. A result is kept as long as a key leads to it."""
    if not keys:
        return []
    looks = _look(tx, keys)
    tx.each(
        "idempotency.looked",
        [
            {
                "channel": one.of.channel,
                "key": one.of.key,
                "id": one.of.id,
                "ended": one.ended,
                "expires": one.expires,
            }
            for one in looks
        ],
    )
    lasting = [{"id": one.of.id, "expires": one.expires + (0 if one.ended else one.of.lasts)} for one in looks]
    tx.each("results.prolong", lasting)
    return looks


def _look(tx: Transaction, keys: Sequence[KnownKey]) -> list[Look]:
    found = tx.each("idempotency.fate", [{"channel": one.channel, "id": one.id} for one in keys])
    now = tx.clock()  # After the look: a message that it found to have ended did so before.
    return [_judge(one, MessageFate(*row), now) for one, row in zip(keys, found, strict=True) if row is not None]


def _judge(of: KnownKey, fate: MessageFate, now: int) -> Look:
    """A message that waits for long is looked at ever less often."""
    if fate.has_ended:
        return Look(of, True, (now if fate.ended_at is None else fate.ended_at) + of.lasts)
    waited = now - (now if fate.since is None else fate.since)
    return Look(of, False, now + max(of.lasts // 4, waited // 4, SOONEST_LOOK))


def _place(message: NewMessage) -> Place:
    return priority.channel_of(message.lane), _once(message).key


def _once(message: NewMessage) -> Once:
    assert message.once is not None, "only messages with a key come here"
    return message.once


def _take(tx: Transaction, new: Mapping[Place, NewMessage], aliases: bool) -> set[MessageId]:
    """Takes the keys of these messages, as far as they are free; the messages that have got theirs."""
    found = tx.all(
        "idempotency.remember",
        keys=msgspec.json.encode([(*place, _once(message).window) for place, message in new.items()]).decode(),
        ids=b"".join([message.id for message in new.values()]),
        digests=b"".join([_once(message).digest for message in new.values()]),
        aliases=aliases,
    )
    return {message_id for (message_id,) in found}


def _first(tx: Transaction, channel: int, key: str, message: NewMessage) -> Duplicate:
    found = tx.one("idempotency.recall", channel=channel, key=key)
    assert found is not None, "a key that cannot be taken is there"
    message_id, digest, result = found
    if digest != _once(message).digest:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} was used before for another body: use a key per piece of work, "
            "or send the same body again"
        )
    return Duplicate(message_id, result)
