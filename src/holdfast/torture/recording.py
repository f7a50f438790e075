"""A client whose every word with the database is written down: what is sent, claimed and settled, before and after.

It stands between the client and the store, so consumers, pools and bare claims are recorded alike, and each message of
a batch has its own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from holdfast.client.client import Holdfast, assembled, internals
from holdfast.core.lifecycle import LifecycleEvent as Happening
from holdfast.core.message import Duplicate, Lease, MessageId, NewMessage, id_text
from holdfast.core.settlement import Settlement
from holdfast.errors import DeliveryFailed, HoldfastError, StoreError, StoreFull
from holdfast.settings import Settings
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Grant, Granted, Make, MessageVerbs, Topic
from holdfast.store.open import open_store
from holdfast.torture.history import (
    ACK,
    CANCEL,
    CLAIM,
    DIE,
    EXPIRE,
    EXTEND,
    FAIL,
    INFO,
    INVOKE,
    NACK,
    OK,
    RELEASE,
    SEND,
    SNOOZE,
    Item,
    Sink,
)

OPS = {
    Happening.ACKED: ACK,
    Happening.FAILED: NACK,
    Happening.DIED: DIE,
    Happening.RELEASED: RELEASE,
    Happening.SNOOZED: SNOOZE,
    Happening.EXPIRED: EXPIRE,
    Happening.CANCELED: CANCEL,
}

LONGEST_VALUE = 80

MOST_RUNS = 10_000
"""How many claims of one process are remembered; long before that, an old one has been settled or was lost."""


def recorded(settings: Settings, sink: Sink) -> Holdfast:
    """A client with these settings that writes to this history."""
    store = open_store(settings)
    transport = internals(assembled(settings, store)).transport
    transport.messages = RecordedMessages(transport.messages, sink, store.faults.unheard)
    return assembled(settings, store, transport=transport)


def introduce(client: Holdfast, queues: Iterable[str] = (), topics: Iterable[str] = ()) -> None:
    """Tells the history of a client what its queues and topics are called."""
    messages = internals(client).transport.messages
    if not isinstance(messages, RecordedMessages):
        return
    for name in queues:
        messages.meet(internals(client).catalog.channel(name))
    for topic in topics:
        messages.meet(internals(client).catalog.topic(topic))


class RecordedMessages:
    """The life of messages, as one process sees it."""

    def __init__(self, below: MessageVerbs, sink: Sink, unheard: Callable[[], int] = int) -> None:
        """`unheard` counts the answers that were lost and asked for again."""
        self._below = below
        self._sink = sink
        self._unheard = unheard
        self._names: dict[int, str] = {}
        self._runs: dict[int, dict[int, Item]] = {}
        """Members of the latest runs by token and place: a run that is done is told by its lease alone."""

    def meet(self, channel: Channel | Topic) -> None:
        """Messages know their channel by its number."""
        self._names[channel.group] = channel.name

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        items = [self._sent(message) for message in new]
        call = self._begin(SEND, items)
        try:
            answers = self._below.insert(new)
        except BaseException as problem:
            self._sink.note(SEND, outcome_of(problem), items, call=call, note=type(problem).__name__)
            raise
        stored = [
            item if first is None else Item(id_text(first.id), item.channel, item.value, duplicate=True)
            for item, first in zip(items, answers, strict=True)
        ]
        self._sink.note(SEND, OK, stored, call=call)
        return answers

    def claim(self, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
        settling = [*request.ack, *(one for lease in request.done for one in self._members(lease))]
        endings = self._begin_endings(settling)
        call = self._begin(CLAIM, [Item(channel=channel.name) for channel in request.channels])
        unheard = self._unheard()
        try:
            claimed = self._below.claim(request, make)
        except BaseException as problem:
            self._break_off(endings, problem)
            self._sink.note(CLAIM, outcome_of(problem), call=call, note=type(problem).__name__)
            raise
        # First what was got: whoever is killed here has got it all the same.
        grants = [self._granted(grant) for grant in claimed.grants]
        self._sink.note(CLAIM, OK, grants, call=call, unheard=self._unheard() - unheard)
        held = list(claimed.acked)
        for lease, places in zip(request.done, map(set, claimed.lost), strict=True):
            held += [one.member not in places for one in self._members(lease)]
        self._finish_endings(endings, held)
        return claimed

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        endings = self._begin_endings(settlements)
        try:
            held = self._below.settle(settlements)
        except BaseException as problem:
            self._break_off(endings, problem)
            raise
        self._finish_endings(endings, held)
        return held

    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]:
        items = [self._settled(one) for one in settlements]
        call = self._begin(EXTEND, items)
        try:
            ends = self._below.extend(settlements, micros)
        except BaseException as problem:
            self._sink.note(EXTEND, outcome_of(problem), items, call=call, note=type(problem).__name__)
            raise
        renewed = [
            Item(item.id, item.channel, token=item.token, until=until)
            for item, until in zip(items, ends, strict=True)
            if until
        ]
        refused = [item for item, until in zip(items, ends, strict=True) if until is None]
        self._note_both(EXTEND, call, renewed, refused)
        return ends

    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int:
        return self._below.sweep(channel, limit, worker)

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _begin(self, op: str, items: Sequence[Item]) -> int:
        call = self._sink.call()
        self._sink.note(op, INVOKE, items, call=call)
        return call

    def _begin_endings(self, settlements: Sequence[Settlement]) -> list[tuple[str, int, list[int], list[Item]]]:
        """One call per kind of ending: which of the settlements, and what they are about."""
        kinds: dict[str, list[int]] = {}
        for place, one in enumerate(settlements):
            kinds.setdefault(OPS[one.event], []).append(place)
        found = []
        for op, places in kinds.items():
            items = [self._settled(settlements[place]) for place in places]
            found.append((op, self._begin(op, items), places, items))
        return found

    def _finish_endings(self, endings: list[tuple[str, int, list[int], list[Item]]], held: Sequence[bool]) -> None:
        for op, call, places, items in endings:
            outcomes = [(item, held[place]) for place, item in zip(places, items, strict=True)]
            self._note_both(op, call, [one for one, ok in outcomes if ok], [one for one, ok in outcomes if not ok])

    def _note_both(self, op: str, call: int, done: Sequence[Item], refused: Sequence[Item]) -> None:
        if done:
            self._sink.note(op, OK, done, call=call)
        if refused:
            self._sink.note(op, FAIL, refused, call=call)

    def _break_off(self, endings: list[tuple[str, int, list[int], list[Item]]], problem: BaseException) -> None:
        for op, call, _, items in endings:
            self._sink.note(op, outcome_of(problem), items, call=call, note=type(problem).__name__)

    def _sent(self, message: NewMessage) -> Item:
        channel = self._names.get(message.group, f"#{message.group}")
        once = None if message.once is None else message.once.key
        return Item(id_text(message.id), channel, value_of(message.body), message.key, once)

    def _granted(self, grant: Grant) -> Item:
        lease = grant.lease
        self._names[lease.group] = grant.channel.name
        id, value = id_text(grant.message.raw_id), value_of(grant.message.raw_body)
        if grant.member is not None:
            self._runs.setdefault(lease.token, {})[grant.member] = Item(id, grant.channel.name, token=lease.token)
            if len(self._runs) > MOST_RUNS:
                del self._runs[next(iter(self._runs))]
        return Item(
            id,
            grant.channel.name,
            value,
            grant.message.key,
            None,
            grant.attempt,
            lease.token,
            lease.since_us,
            lease.until_us,
        )

    def _members(self, lease: Lease) -> list[Settlement]:
        return [Settlement(lease, MessageId(16), 1, Happening.ACKED, member) for member in range(lease.size)]

    def _settled(self, one: Settlement) -> Item:
        if one.member is not None and one.member in (run := self._runs.get(one.lease.token, {})):
            return run[one.member]
        name = self._names.get(one.lease.group, f"#{one.lease.group}")
        return Item(id_text(one.message_id), name, token=one.lease.token)


def outcome_of(problem: BaseException) -> str:
    """Whether a call that raised this surely did nothing: a refusal did, and so did a disk that is full."""
    refused = isinstance(problem, HoldfastError) and not isinstance(problem, StoreError | DeliveryFailed)
    return FAIL if refused or isinstance(problem, StoreFull) else INFO


def value_of(body: bytes) -> str:
    """What a message is known by: a text is its own name."""
    value = msgspec.json.decode(body)
    return value if isinstance(value, str) else body.decode()[:LONGEST_VALUE]
