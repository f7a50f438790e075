"""The histories of all processes, put together by message: who sent it, who held it when, and how each claim ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from math import inf

import msgspec

from holdfast.torture.ending import GROUP, ChannelEnd, FinalState
from holdfast.torture.history import (
    ACK,
    CLAIM,
    ENDED,
    ENDINGS,
    ERROR,
    EXTEND,
    FAIL,
    FAULT,
    GIVES_BACK,
    HEAL,
    INFO,
    INVOKE,
    MARK,
    OK,
    SEND,
    START_SAGA,
    HistoryEvent,
    Item,
)

LINGERS = 5_000_000
"""Microseconds for which a server may still be at work for someone who is gone: it had to wait for a lock."""

Address = tuple[str, str]
"""The channel that a message is claimed from, and its id."""


class ObservedSend(msgspec.Struct):
    """One message on its way in. `id` is known before the call; `stored` is what the store said that it is."""

    id: str
    channel: str
    value: str
    key: str | None
    idem: str | None
    invoked: int
    outcome: str = INFO
    returned: float = inf
    stored: str = ""
    duplicate: bool = False


class Ending(msgspec.Struct):
    """An ack, nack, … or a renewal of one claim."""

    op: str
    invoked: int
    outcome: str = INFO
    returned: float = inf
    until: int = 0

    @property
    def happened(self) -> bool:
        return self.outcome == OK

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != FAIL


class ObservedClaim(msgspec.Struct):
    """One claim of one message, as its holder saw it. `asked` and `at` are before and after the call."""

    id: str
    channel: str
    who: str
    attempt: int
    token: int
    since: int
    until: int
    asked: int
    at: int
    value: str
    endings: list[Ending] = []

    def held_until(self, before: int) -> int:
        """The end of the lease by the database's clock, with all renewals that were asked for `before`."""
        renewed = [end.until for end in self.endings if end.op == EXTEND and end.happened and end.invoked < before]
        return max([self.until, *renewed])

    def may_have_ended(self, before: int) -> bool:
        """Whether its holder had said something by then that may have ended it."""
        return any(end.op in ENDINGS and end.may_have_happened and end.invoked <= before for end in self.endings)

    def spent(self) -> bool | None:
        """Whether this attempt counts; None if nobody knows."""
        given_back = [end for end in self.endings if end.op in GIVES_BACK]
        if any(end.happened for end in given_back):
            return False
        return None if any(end.may_have_happened for end in given_back) else True

    def told(self) -> str:
        """For a report."""
        said = ", ".join(f"{end.op} {end.outcome}" for end in self.endings) or "said nothing"
        return f"attempt {self.attempt} (token {self.token}) of {self.who}, {said}"


class Account:
    """Everything by message. Build it with `account(events, final)`."""

    def __init__(self, final: FinalState) -> None:
        self.final = final
        self.ends: dict[str, ChannelEnd] = {end.name: end for end in final.channels}
        self.sends: list[ObservedSend] = []
        self.grants: dict[Address, list[ObservedClaim]] = defaultdict(list)
        self.unheard: dict[str, Unheard] = defaultdict(Unheard)
        """By channel."""
        self.sagas: dict[str, str] = {}
        """Sagas by id, and what is known of their start."""
        self.errors: list[str] = []
        self.faults: list[tuple[int, str]] = []
        """When something was done on purpose, and its name."""
        self.healed: int | None = None
        """From when on nothing was done any more."""
        self.events = 0

    def readers(self, channel: str) -> list[str]:
        """Where what is sent to a queue or topic can be claimed."""
        end = self.ends.get(channel)
        if end is not None and end.kind == "topic":
            return [other.name for other in self.ends.values() if other.kind == GROUP and other.source == channel]
        return [channel]

    def entry(self, channel: str) -> str:
        """Where what is claimed here was sent to."""
        end = self.ends.get(channel)
        return end.source if end is not None and end.source else channel

    def state(self, channel: str, id: str) -> str | None:
        """What the database says of a message in the end."""
        end = self.ends.get(channel)
        return None if end is None else end.messages.get(id)

    def is_seen(self, channel: str, id: str) -> bool:
        """Whether a message of this id was ever stored, as far as anybody noticed."""
        readers = self.readers(channel)
        return any((reader, id) in self.grants or self.state(reader, id) for reader in (channel, *readers))

    def stored(self, sent: ObservedSend) -> str | None:
        """The id under which a message was surely stored: its producer was told so, or someone has seen it."""
        if sent.outcome == OK:
            return sent.stored
        return sent.id if sent.outcome == INFO and self.is_seen(sent.channel, sent.id) else None

    def acks(self, address: Address) -> list[Ending]:
        """All acks that may have counted."""
        grants = self.grants.get(address, ())
        return [end for grant in grants for end in grant.endings if end.op == ACK and end.may_have_happened]


class Unheard:
    """Claims of a channel whose answer nobody heard: each may hide an attempt, between its call and its last moment."""

    def __init__(self) -> None:
        self._asked: list[int] = []
        self._last: list[float] = []

    def add(self, asked: int, last: float, times: int = 1) -> None:
        self._asked += [asked] * times
        self._last += [last] * times

    def sort(self) -> None:
        self._asked.sort()
        self._last.sort()

    def between(self, begin: float, end: int) -> int:
        """How many may have been granted something in that time."""
        return bisect_left(self._asked, end) - bisect_right(self._last, begin)


def account(events: Iterable[HistoryEvent], final: FinalState) -> Account:
    """Reads the events in their order."""
    found = Account(final)
    reader = _Reader(found)
    for event in events:
        found.events += 1
        reader.read(event)
    reader.finish()
    return found


class _Reader:
    """Joins calls and answers."""

    def __init__(self, found: Account) -> None:
        self._found = found
        self._lingers = LINGERS if found.final.is_server else 0
        self._sends: dict[tuple[str, int, str], ObservedSend] = {}
        self._claims: dict[tuple[str, int], HistoryEvent] = {}
        self._broken: dict[tuple[str, int], int] = {}
        """When whoever claimed was told that nobody knows."""
        self._ended: dict[str, int] = {}
        self._by_claim: dict[tuple[str, str, int], ObservedClaim] = {}
        self._endings: dict[tuple[str, int, str], tuple[ObservedClaim, Ending]] = {}

    def read(self, event: HistoryEvent) -> None:
        if event.op == SEND:
            self._read_send(event)
        elif event.op == CLAIM:
            self._read_claim(event)
        elif event.op in ENDINGS or event.op == EXTEND:
            self._read_ending(event)
        elif event.op == START_SAGA:
            for item in event.items:
                if self._found.sagas.get(item.id) != OK:
                    self._found.sagas[item.id] = INFO if event.phase == INVOKE else event.phase
        elif event.op == FAULT:
            self._found.faults.append((event.at, event.note.partition(":")[0]))
        elif event.op == ENDED:
            self._ended[event.note] = event.at
        elif event.op == MARK and event.note == HEAL:
            self._found.healed = event.at
        elif event.op == ERROR:
            self._found.errors.append(f"{event.who}: {event.note}")

    def finish(self) -> None:
        """Who never heard of its claim may have had something all the same."""
        for call, event in self._claims.items():
            last = self._broken.get(call, self._ended.get(event.who, inf)) + self._lingers
            for item in event.items:
                self._found.unheard[item.channel].add(event.at, last)
        for unheard in self._found.unheard.values():
            unheard.sort()
        for grants in self._found.grants.values():
            grants.sort(key=lambda grant: (grant.since, grant.at))

    def _read_send(self, event: HistoryEvent) -> None:
        for item in event.items:
            name = event.who, event.call, item.value
            if event.phase == INVOKE:
                sent = ObservedSend(item.id, item.channel, item.value, item.key, item.idem, event.at)
                self._sends[name] = sent
                self._found.sends.append(sent)
                continue
            sent = self._sends[name]
            sent.outcome = event.phase
            if event.phase == OK:
                sent.returned, sent.stored, sent.duplicate = event.at, item.id, item.duplicate

    def _read_claim(self, event: HistoryEvent) -> None:
        """An `invoke` names the channels that were asked."""
        if event.phase == INVOKE:
            self._claims[event.who, event.call] = event
            return
        if event.phase == INFO:
            self._broken[event.who, event.call] = event.at
            return
        call = self._claims.pop((event.who, event.call), event)
        asked = call.at
        if event.unheard:
            for item in call.items:
                self._found.unheard[item.channel].add(asked, event.at + self._lingers, event.unheard)
        for item in event.items:
            grant = _grant(item, event, asked)
            self._by_claim[item.channel, item.id, item.token] = grant
            self._found.grants[item.channel, item.id].append(grant)

    def _read_ending(self, event: HistoryEvent) -> None:
        for item in event.items:
            name = event.who, event.call, f"{item.channel} {item.id} {item.token}"
            if event.phase == INVOKE:
                self._begin_ending(event, item, name)
                continue
            grant, ending = self._endings[name]
            ending.outcome, ending.returned, ending.until = event.phase, event.at, item.until
            if event.phase == FAIL and _may_have_lapsed_meanwhile(grant, ending):
                ending.outcome = INFO

    def _begin_ending(self, event: HistoryEvent, item: Item, name: tuple[str, int, str]) -> None:
        grant = self._by_claim.get((item.channel, item.id, item.token))
        if grant is None:
            self._found.errors.append(f"{event.who}: {event.op} of {item.id}, which nobody has claimed")
            grant = _grant(item, event, event.at)
        ending = Ending(event.op, event.at)
        grant.endings.append(ending)
        self._endings[name] = grant, ending


def _grant(item: Item, event: HistoryEvent, asked: int) -> ObservedClaim:
    return ObservedClaim(
        id=item.id,
        channel=item.channel,
        who=event.who,
        attempt=item.attempt,
        token=item.token,
        since=item.since,
        until=item.until,
        asked=asked,
        at=event.at,
        value=item.value,
        endings=[],
    )


def _may_have_lapsed_meanwhile(grant: ObservedClaim, ending: Ending) -> bool:
    """A refusal may be that of a second try, whose first one counted and was not answered; the store can tell the two
    apart for as long as nobody has taken the message back, that is, until the lease was over. It began at some time
    between the claim's call and its answer."""
    renewals = [end.until for end in grant.endings if end.op == EXTEND and end.happened]
    term = max([grant.until, *renewals]) - grant.since
    return ending.op != EXTEND and ending.invoked - grant.at < term <= ending.returned - grant.asked
