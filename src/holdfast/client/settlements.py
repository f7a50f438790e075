"""How claims end: the settlements that a verb stands for, and what to say of claims that were lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from itertools import compress
from typing import Any

import msgspec

from holdfast.client.claim import Claim
from holdfast.core.dead_letter import ErrorText, trouble_of
from holdfast.core.duration import Duration, micros, seconds
from holdfast.core.lifecycle import LifecycleEvent, after_failure
from holdfast.core.message import NOT_RENEWED, Failure, Lease, encode_json
from holdfast.core.settlement import Settlement
from holdfast.errors import LeaseLost
from holdfast.store import fork_safety


def acked(claims: Sequence[Claim], result: Any = None) -> list[Settlement]:
    """The work is done."""
    raw = None if result is None else encode_json(result, "result")
    return [
        Settlement(claim.lease, claim.message.raw_id, claim.attempt, LifecycleEvent.ACKED, claim.member, result=raw)
        for claim in claims
    ]


def released(claims: Sequence[Claim]) -> list[Settlement]:
    """As if they had never been claimed."""
    return [claim.settlement(LifecycleEvent.RELEASED) for claim in claims]


def expired(claims: Sequence[Claim]) -> list[Settlement]:
    """Nobody wanted them in time."""
    return [claim.settlement(LifecycleEvent.EXPIRED) for claim in claims]


def canceled(claims: Sequence[Claim], reason: str) -> list[Settlement]:
    """Their consumer found that nobody wants them any more; why stands in their history."""
    text = trouble_of(reason).error
    return [claim.settlement(LifecycleEvent.CANCELED, failure=_failure(claim, text)) for claim in claims]


def snoozed(claims: Sequence[Claim], delay: Duration) -> list[Settlement]:
    """Later, without an attempt spent."""
    wait = micros(delay, "delay")
    return [claim.settlement(LifecycleEvent.SNOOZED, delay=wait) for claim in claims]


def nacked(
    claims: Sequence[Claim], error: str | BaseException | ErrorText, delay: Duration | None, permanent: bool
) -> list[Settlement]:
    """The work failed: each claim's queue says whether it gets another attempt, and when."""
    wait = None if delay is None else seconds(delay, "delay")
    trouble = error if isinstance(error, ErrorText) else trouble_of(error)
    text = trouble.error or "failed without a reason"
    settlements = []
    for claim in claims:
        chance = random.random()  # noqa: S311
        verdict = after_failure(claim.channel.spec, claim.attempt, chance=chance, delay=wait, permanent=permanent)
        failure = _failure(claim, text, trouble.traceback)
        settlements.append(claim.settlement(verdict.event, delay=micros(verdict.wait), failure=failure))
    return settlements


def note(claims: Sequence[Claim], settlements: Sequence[Settlement], applied: Sequence[bool]) -> list[Claim]:
    """Remembers how each claim ended; those that were lost. Acking again what was acked is no loss."""
    lost = []
    for claim, settlement, held in zip(claims, settlements, applied, strict=True):
        if held:
            claim.ended = settlement.event
        elif not (claim.ended is LifecycleEvent.ACKED and settlement.event is LifecycleEvent.ACKED):
            lost.append(claim)
    return lost


class Underway(fork_safety.Guarded):
    """Acks on their way to the database and back, counted claim by claim."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        fork_safety.guard(self)

    def add(self, claims: Sequence[Claim], count: int) -> None:
        """So many more, or less, of each claim."""
        with self._changed:
            for claim in claims:
                claim.acks_underway += count
            if count < 0:
                self._changed.notify_all()

    def wait_for(self, claim: Claim) -> None:
        """Until it is known whether one of them has ended the claim."""
        with self._changed:
            self._changed.wait_for(lambda: claim.ended is not None or claim.acks_underway <= 0, LONGEST_WAIT)

    def after_fork_in_child(self) -> None:
        """Whoever held it is in the parent."""
        self._changed = threading.Condition()


UNDERWAY = Underway()
LONGEST_WAIT = 30.0
"""Seconds; longer only if whoever was underway is gone, in a process that was forked."""


class Attempt:
    """One call that ends claims: of those that are known to have ended, the database need not be asked.

    Two acks of one claim are one, also if they meet on their way. Who is told by the database that it was too late
    waits until the other knows that it was not.
    """

    def __init__(self, claims: Sequence[Claim], settlements: Sequence[Settlement]) -> None:
        self._claims, self._settlements = claims, settlements
        self._open = [claim.ended is None for claim in claims]
        self._acked = [
            claim for claim, one in zip(claims, settlements, strict=True) if one.event is LifecycleEvent.ACKED
        ]
        self.asks = list(compress(settlements, self._open))
        self.lost: list[Claim] = []

    def __enter__(self) -> Attempt:
        UNDERWAY.add(self._acked, 1)
        return self

    def __exit__(self, *_: object) -> None:
        UNDERWAY.add(self._acked, -1)

    def note(self, held: Sequence[bool]) -> None:
        """What the database said about those that it was asked for."""
        said = iter(held)
        self.lost = note(self._claims, self._settlements, [asked and next(said) for asked in self._open])

    def refuse(self) -> None:
        """Raises `LeaseLost` for those that nobody has acked meanwhile."""
        if self.lost and self._acked:
            for claim in self.lost:
                UNDERWAY.wait_for(claim)
            self.lost = [claim for claim in self.lost if claim.ended is not LifecycleEvent.ACKED]
        refuse(self.lost)


class Finished(msgspec.Struct):
    """Claims whose work is done: one by one, and whole runs."""

    claims: Sequence[Claim] = ()
    runs: Sequence[Sequence[Claim]] = ()

    @property
    def leases(self) -> list[Lease]:
        """Of the runs."""
        return [run[0].lease for run in self.runs]


NOTHING = Finished()


def finished(claims: Sequence[Claim]) -> Finished:
    """Finds the runs that are there to the last message: they end together."""
    by_lease: dict[int, list[Claim]] = {}
    for claim in claims:
        by_lease.setdefault(id(claim.lease), []).append(claim)
    runs: list[list[Claim]] = []
    others: list[Claim] = []
    for held in by_lease.values():
        if _is_whole(held):
            runs.append(held)
        else:
            others += held
    return Finished(others, runs)


def _is_whole(run: list[Claim]) -> bool:
    size = run[0].lease.size
    return len(run) == size and run[0].member is not None and len({claim.member for claim in run}) == size


def note_runs(runs: Sequence[Sequence[Claim]], lost: Sequence[Sequence[int]]) -> list[Claim]:
    """The same as `note` for runs that were acked whole; `lost` are the places that were settled before."""
    gone = []
    for run, places in zip(runs, map(set, lost), strict=True):
        if not places:
            for claim in run:
                claim.ended = LifecycleEvent.ACKED
            continue
        for claim in run:
            if claim.member not in places:
                claim.ended = LifecycleEvent.ACKED
            elif claim.ended is not LifecycleEvent.ACKED:
                gone.append(claim)
    return gone


def renew(claims: Sequence[Claim], ends: Sequence[int | None]) -> list[Claim]:
    """Notes the new ends of leases; those that were lost. Raises `LeaseLost` for steps that are to stop."""
    for claim, until in zip(claims, ends, strict=True):
        if until:
            claim.lease.until_us = until
    lost = [claim for claim, until in zip(claims, ends, strict=True) if until is None]
    unwanted = [claim.message.id for claim, until in zip(claims, ends, strict=True) if until == NOT_RENEWED]
    if unwanted and not lost:
        raise LeaseLost(
            f"the lease of {', '.join(unwanted[:3])} is not renewed: its saga does not need this step any more. Stop, "
            "and ack what was done, or nack, before the lease ends; after that the step is undone in any case"
        )
    return lost


def refuse(lost: Sequence[Claim]) -> None:
    """Raises `LeaseLost` if there is any."""
    if lost:
        names = ", ".join(claim.message.id for claim in lost[:3]) + (", …" if len(lost) > 3 else "")
        raise LeaseLost(
            f"{len(lost)} claim(s) no longer yours ({names}): the lease ran out and someone else has the message, "
            "or it was settled or cancelled before (on PostgreSQL perhaps by a first try of this call whose answer was "
            "lost; hf.status tells what became of it). Nothing was changed for them now"
        )


def _failure(claim: Claim, error: str, traceback: str | None = None) -> Failure:
    return Failure(claim.attempt, claim.lease.worker, error, traceback, claim.lease.since_us)
