"""How claims end: the settlements that a verb stands for, and what to say of claims that were lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.claims import Claim
from holdfast.core.deadletter import error_text
from holdfast.core.duration import Duration, micros, seconds
from holdfast.core.lifecycle import Event, after_failure
from holdfast.core.message import Failure, Lease, encode_json
from holdfast.core.settlement import Settlement
from holdfast.errors import LeaseLost


def acked(claims: Sequence[Claim], result: Any = None) -> list[Settlement]:
    """The work is done."""
    raw = None if result is None else encode_json(result, "result")
    return [
        Settlement(claim.lease, claim.message.raw_id, claim.attempt, Event.ACKED, claim.member, result=raw)
        for claim in claims
    ]


def released(claims: Sequence[Claim]) -> list[Settlement]:
    """As if they had never been claimed."""
    return [claim.settlement(Event.RELEASED) for claim in claims]


def expired(claims: Sequence[Claim]) -> list[Settlement]:
    """Nobody wanted them in time."""
    return [claim.settlement(Event.EXPIRED) for claim in claims]


def canceled(claims: Sequence[Claim]) -> list[Settlement]:
    """Their consumer found that nobody wants them any more."""
    return [claim.settlement(Event.CANCELED) for claim in claims]


def snoozed(claims: Sequence[Claim], delay: Duration) -> list[Settlement]:
    """Later, without an attempt spent."""
    wait = micros(delay, "delay")
    return [claim.settlement(Event.SNOOZED, delay=wait) for claim in claims]


def nacked(
    claims: Sequence[Claim], error: str | BaseException, delay: Duration | None, permanent: bool
) -> list[Settlement]:
    """The work failed: each claim's queue says whether it gets another attempt, and when."""
    wait = None if delay is None else seconds(delay, "delay")
    text = error_text(error) or "failed without a reason"
    settlements = []
    for claim in claims:
        chance = random.random()  # noqa: S311
        verdict = after_failure(claim.channel.spec, claim.attempt, chance=chance, delay=wait, permanent=permanent)
        failure = Failure(claim.attempt, claim.lease.worker, text)
        settlements.append(claim.settlement(verdict.event, delay=micros(verdict.wait), failure=failure))
    return settlements


def note(claims: Sequence[Claim], settlements: Sequence[Settlement], applied: Sequence[bool]) -> list[Claim]:
    """Remembers how each claim ended; those that were lost. Acking again what was acked is no loss."""
    lost = []
    for claim, settlement, held in zip(claims, settlements, applied, strict=True):
        if held:
            claim.ended = settlement.event
        elif not (claim.ended is Event.ACKED and settlement.event is Event.ACKED):
            lost.append(claim)
    return lost


def open_ones(claims: Sequence[Claim], settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those that can still end a claim: of one that is known to have ended, the database need not be asked."""
    return [settlement for claim, settlement in zip(claims, settlements, strict=True) if claim.ended is None]


def answers(claims: Sequence[Claim], held: Sequence[bool]) -> list[bool]:
    """What the database said about the open ones; the others have lost."""
    said = iter(held)
    return [claim.ended is None and next(said) for claim in claims]


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
    runs = [run for run in by_lease.values() if _is_whole(run)]
    return Finished([claim for run in by_lease.values() if not _is_whole(run) for claim in run], runs)


def _is_whole(run: list[Claim]) -> bool:
    size = run[0].lease.size
    return len(run) == size and run[0].member is not None and len({claim.member for claim in run}) == size


def note_runs(runs: Sequence[Sequence[Claim]], lost: Sequence[Sequence[int]]) -> list[Claim]:
    """The same as `note` for runs that were acked whole; `lost` are the places that were settled before."""
    gone = []
    for run, places in zip(runs, map(set, lost), strict=True):
        for claim in run:
            if claim.member not in places:
                claim.ended = Event.ACKED
            elif claim.ended is not Event.ACKED:
                gone.append(claim)
    return gone


def renew(claims: Sequence[Claim], ends: Sequence[int | None]) -> list[Claim]:
    """Notes the new ends of leases; those that were lost."""
    for claim, until in zip(claims, ends, strict=True):
        if until is not None:
            claim.lease.until = until
    return [claim for claim, until in zip(claims, ends, strict=True) if until is None]


def refuse(lost: Sequence[Claim]) -> None:
    """Raises `LeaseLost` if there is any."""
    if lost:
        names = ", ".join(claim.message.id for claim in lost[:3]) + (", …" if len(lost) > 3 else "")
        raise LeaseLost(
            f"{len(lost)} claim(s) no longer yours ({names}): the lease ran out and someone else has the message, "
            "or it was settled or cancelled before; nothing was changed for them"
        )
