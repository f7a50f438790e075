"""What really happened: each process writes one line per event, and the checks are made over all lines together.

A line is one `write` to a file opened with O_APPEND, so it is there even if the process is killed right after. Times
are those of the host's clock, which is also the databases' clock here. `invoke` says that a call was begun, `ok` that
it returned, `fail` that it was refused; a call with neither of the latter had an unknown end.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from holdfast import Claim, Receipt

CLOCK_STEP = 2_000
"""SQLite's clock counts whole milliseconds; two readings may differ by this without meaning anything."""


class Log:
    """One process's events."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._who = path.stem

    def write(self, op: str, phase: str, **details: Any) -> None:
        event = {"at": time.time_ns() // 1000, "who": self._who, "op": op, "phase": phase, **details}
        line = msgspec.json.encode(event) + b"\n"
        assert os.write(self._file, line) == len(line)

    def sent(self, receipts: Iterable[Receipt], values: Iterable[Any]) -> None:
        self.write("send", "ok", sent=[[receipt.id, value] for receipt, value in zip(receipts, values, strict=True)])

    def claimed(self, claims: Iterable[Claim]) -> None:
        self.write("claim", "ok", claims=[_grant(claim) for claim in claims])

    def settling(self, op: str, claims: Iterable[Claim]) -> None:
        self.write(op, "invoke", claims=_names(claims))

    def settled(self, op: str, claims: Iterable[Claim]) -> None:
        self.write(op, "ok", claims=_names(claims))

    def refused(self, op: str, claims: Iterable[Claim]) -> None:
        self.write(op, "fail", claims=_names(claims))


def _grant(claim: Claim) -> list[Any]:
    return [claim.message.id, claim.attempt, claim.lease.token, claim.lease.until_us, claim.message.body]


def _names(claims: Iterable[Claim]) -> list[list[Any]]:
    return [[claim.message.id, claim.attempt, claim.lease.token] for claim in claims]


@dataclass
class Grant:
    """One claim of one message, as its holder saw it."""

    id: str
    attempt: int
    token: int
    until: int
    value: Any
    at: int
    who: str
    settled_as: str = ""
    settled_at: int = 0
    unheard: str = ""
    """What was on its way when the process was killed: nobody knows whether it came to be."""

    @property
    def is_in_time(self) -> bool:
        """Whether its holder heard of it before it ended. If not, its `at` says nothing: others may have begun."""
        return self.at < self.until

    @property
    def held_to(self) -> int:
        """It surely was this holder's up to here: the begin of its end, also if nobody knows whether that came."""
        return self.settled_at if self.settled_as or self.unheard else self.until


@dataclass
class History:
    """All events of all processes."""

    events: list[dict[str, Any]]
    sent: dict[str, Any] = field(default_factory=dict)
    invoked: set[Any] = field(default_factory=set)
    grants: dict[str, list[Grant]] = field(default_factory=lambda: defaultdict(list))
    unsure: set[str] = field(default_factory=set)
    """Refused, but only after the lease had ended meanwhile: a first try, whose answer was lost, may have counted."""

    @property
    def acked(self) -> set[str]:
        return {id for id, grants in self.grants.items() if any(grant.settled_as == "ack" for grant in grants)}

    @property
    def perhaps_acked(self) -> set[str]:
        return {id for id, grants in self.grants.items() if any(grant.unheard == "ack" for grant in grants)}

    def errors(self) -> list[str]:
        """What no process was ready for."""
        return [f"{event['who']}: {event['error']}" for event in self.events if event["op"] == "error"]


def read(logs: Iterable[Path]) -> History:
    """Reads the logs of any number of processes, dead or alive."""
    events = sorted((event for log in logs for event in lines(log)), key=lambda event: event["at"])
    history = History(events)
    by_claim: dict[tuple[str, int, int], Grant] = {}
    for event in events:
        op, phase = event["op"], event["phase"]
        if op == "send":
            history.invoked.update(event.get("values", ()))
            history.sent.update(event.get("sent", ()))
        elif op == "claim" and phase == "ok":
            for id, attempt, token, until, value in event["claims"]:
                grant = Grant(id, attempt, token, until, value, event["at"], event["who"])
                by_claim[id, attempt, token] = grant
                history.grants[id].append(grant)
        elif "claims" in event:
            for name in map(tuple, event["claims"]):
                note_ending(history, by_claim[name], event)
    return history


def note_ending(history: History, grant: Grant, event: dict[str, Any]) -> None:
    """A claim is about to end, has ended, or was refused its end."""
    if event["phase"] == "invoke":
        grant.unheard, grant.settled_at = event["op"], event["at"]
        return
    grant.unheard = ""
    if event["phase"] == "ok":
        grant.settled_as = event["op"]
    elif grant.settled_at < grant.until <= event["at"]:
        history.unsure.add(grant.id)


def lines(log: Path) -> Iterator[dict[str, Any]]:
    """The events of one log; a missing file is a process that was killed before its first one.

    So is a last line without an end: of a long `write`, a kill may leave a part. Nobody acted on it.
    """
    if log.exists():
        for line in log.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield msgspec.json.decode(line)


def faults(history: History, *, left: Iterable[str] = (), dead: Iterable[str] = ()) -> list[str]:
    """Everything that must not be, in words. `left` are the ids still in the store, `dead` those that ended there."""
    return [
        *history.errors(),
        *lost(history, {*left, *dead}),
        *unexpected(history),
        *claimed_again(history),
        *leased_twice(history),
        *done_and_dead(history, set(dead)),
    ]


def lost(history: History, kept: set[str]) -> list[str]:
    """The producer was told that it is safe, and it is nowhere."""
    gone = history.sent.keys() - history.acked - history.perhaps_acked - kept
    return [f"lost: {id} ({history.sent[id]!r}), claims: {history.grants.get(id)}" for id in sorted(gone)][:10]


def unexpected(history: History) -> list[str]:
    """Nobody ever sent it."""
    values = history.invoked | set(history.sent.values())
    return [
        f"never sent: {grants[0]}"
        for id, grants in history.grants.items()
        if id not in history.sent and grants[0].value not in values
    ][:10]


def claimed_again(history: History) -> list[str]:
    """One attempt of a message is given out once, and the attempts count 1, 2, 3, … (an unseen one may hide)."""
    found = []
    for id, grants in history.grants.items():
        spent = [grant for grant in grants if not {grant.settled_as, grant.unheard} & {"release", "snooze"}]
        attempts = [grant.attempt for grant in sorted(spent, key=lambda grant: grant.token)]
        if len(set(attempts)) < len(attempts) or attempts != sorted(attempts):
            found.append(f"attempts of {id} were given out as {attempts}: {grants}")
        if len({grant.token for grant in grants}) < len(grants):
            found.append(f"one token was given out twice for {id}: {grants}")
    return found[:10]


def leased_twice(history: History) -> list[str]:
    """Two holders at one moment, or a settlement that was accepted although a later claim existed by then."""
    found = []
    for id, grants in history.grants.items():
        for earlier, later in pairs(sorted(grants, key=lambda grant: grant.token)):
            if later.at + CLOCK_STEP < earlier.held_to:
                found.append(f"{id} was held by two: {earlier} and {later}")
    return found[:10]


def done_and_dead(history: History, dead: set[str]) -> list[str]:
    """Exactly one terminal transition: acked once, or dead, not both."""
    found = [f"both acked and dead: {id}" for id in sorted(dead & history.acked)]
    for id, grants in history.grants.items():
        if sum(grant.settled_as == "ack" for grant in grants) > 1:
            found.append(f"acked twice: {id}: {grants}")
    return found[:10]


def pairs(grants: Sequence[Grant]) -> Iterator[tuple[Grant, Grant]]:
    return pairwise(grants)
