"""Claiming: looking for work, sleeping until there is some, and what is swept on the way."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from holdfast.client import settlements, validate
from holdfast.client.claim import Claim
from holdfast.client.last_seen import Presence
from holdfast.client.settlements import NOTHING, Finished
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError, UnknownGroup
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Waiter
from holdfast.topics.group_watch import out_of_range
from holdfast.topics.rules.declaration import GroupSpec

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.client.parts import ClientParts

LONGEST_NAP = 5.0
"""A waiting claim looks at least this often, whether or not it was woken."""

SHORTEST_NAP = 0.002

SQS_NAP, SHORTEST_SQS_NAP = 1.0, 0.05
"""The same where SQS delivers, which rings no bell, and may have what is due."""

ALONE_EVERY = 4
"""One claim in so many begins with a message whose last holder went silent, whatever else is more urgent."""

LONGEST_SWEEP = 0.05
"""Seconds that a client spends on a sweep, turn by turn, when there is much to do."""


Settle = Callable[[Sequence[Settlement]], list[bool]]


class Told(msgspec.Struct):
    """What a look tells a caller that goes on whatever happens: which of the claims that it finished were `lost`, and
    when the database was `asked`, by the monotonic clock, if that was later than the look began."""

    lost: list[Claim] = []
    asked: float | None = None


class Claiming:
    """What a client does to get claims, which are then in that client's hands."""

    def __init__(self, client: Holdfast, parts: ClientParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._transport = parts.transport
        self._settings = parts.settings
        self._types = parts.types
        self._settle: Settle = parts.settlements.call
        self._make = partial(Claim, client)
        self._swept: dict[int, float] = {}
        self._presence = Presence()
        self._count = itertools.count(1)

    def tend(self, channels: Sequence[Channel], worker: str) -> None:
        """What a client that claims by hand does before a look, once per `sweep_every`: there may be nobody else who
        sweeps, passes on notices and advances sagas."""
        if self.sweep_due(channels, worker):
            self._parts.upkeep.look_after_others()

    def sweep_due(self, channels: Sequence[Channel], worker: str) -> bool:
        """Sweep those of the channels whose time it is, and return whether there was one."""
        moment = time.monotonic()
        due = [one for one in channels if moment >= self._swept.get(one.id, 0.0) or self._presence.is_due(one)]
        if due:
            self.sweep(due, worker)
        return bool(due)

    def is_turn_of_alone(self) -> bool:
        """Whether the next look begins with a message that must be held alone. To be asked once per look."""
        return next(self._count) % ALONE_EVERY == 0

    def look(self, request: ClaimRequest, finished: Finished) -> list[Claim]:
        """One look, and another if a lease has just run out. What came along is settled."""
        claims = self.once(request, finished)
        if claims:
            return claims
        request = unfinished(request)
        if self._take_back_what_is_due(request):
            claims = self.once(request)
        return claims or self._read_on(request)

    def once(self, request: ClaimRequest, finished: Finished = NOTHING, told: Told | None = None) -> list[Claim]:
        """One look; what comes back is still wanted. Messages that outlived their time, or do not fit the type of their
        queue, end here, and do not count.

        What the caller is `told` is noted there; without that, `LeaseLost` is raised for claims that were `finished`
        and lost, and what was claimed is handed back.
        """
        while True:
            claims = self._grasp(request, finished, told)
            if not claims:
                return claims
            ages = any(channel.spec.max_age is not None for channel in request.channels)
            over = [one for one in claims if (ages or one.message.expires_at_us is not None) and _is_over(one, request)]
            misfits = self._misfits(request, claims, over)
            if not over and not misfits:
                return claims
            unfit = [settlements.nacked([claim], why, None, permanent=True)[0] for claim, why in misfits]
            self._settle([*settlements.expired(over), *unfit])
            ended = {id(claim) for claim in (*over, *(claim for claim, _ in misfits))}
            if len(ended) < len(claims):
                return [claim for claim in claims if id(claim) not in ended]
            request, finished = unfinished(request), NOTHING
            self.sweep(request.channels, request.worker)

    def patiently(self, request: ClaimRequest, bell: Waiter, patience: float) -> list[Claim]:
        """Sleeps until something is due, someone rings, or the time is over."""
        request = unfinished(request)
        deadline = time.monotonic() + patience
        while True:
            self._parts.upkeep.look_after_others()
            claims = self.once(request)
            left = deadline - time.monotonic()
            if claims or left <= 0:
                return claims
            self.nap(request, bell, min(left, LONGEST_NAP))

    def nap(self, request: ClaimRequest, bell: Waiter, longest: float, *also: int) -> bool:
        """Sleeps until someone rings for these queues (or `also` for these numbers), or something is due there."""
        self.sweep([one for one in request.channels if self._presence.is_due(one)], request.worker)
        own = [one for one in request.channels if one.spec.has_lanes or request.courier is None]
        due = self._store.reads.next_due(own)
        if due is not None and due <= 0:
            self.sweep(own, request.worker)
        if any(not one.spec.has_lanes for one in own):
            longest = min(longest, SQS_NAP)
            due = None if due is None else max(due, SHORTEST_SQS_NAP)
        longest = min(longest, self._presence.longest_nap(request.channels))
        sources = [channel.source for channel in request.channels if channel.source is not None]
        numbers = [*(channel.id for channel in request.channels), *sources, *also]
        return bell.wait(numbers, longest if due is None else min(longest, max(due, SHORTEST_NAP)))

    def sweep(self, channels: Sequence[Channel], worker: str) -> None:
        """Takes back what lapsed, in turns, for a while at most; and is seen doing so."""
        for channel in channels:
            self._swept[channel.id] = time.monotonic() + self._settings.sweep_every
            seen, deadline = self._presence.note(channel, worker), time.monotonic() + LONGEST_SWEEP
            while self._transport.messages.sweep(channel, validate.SWEEP_LIMIT, seen) >= validate.SWEEP_LIMIT:
                seen = None
                if time.monotonic() > deadline:
                    break

    def _grasp(self, request: ClaimRequest, finished: Finished, told: Told | None) -> list[Claim]:
        claimed = self._transport.messages.claim(request, self._make)
        claims, refusal = claimed.grants, None
        if not claims and claimed.silent:
            refusal = self._wake(claimed.silent)
            if refusal is None:
                claims = self._transport.messages.claim(unfinished(request), self._make).grants
        self._types.dress(claims)
        gone = _gone(finished, request, claimed) if finished is not NOTHING else []
        if told is not None:
            told.lost += gone
            told.asked = claimed.asked
        if refusal is not None:
            raise refusal
        if told is not None:
            return claims
        if gone and claims:
            self._settle(settlements.released(claims))
        settlements.refuse(gone)
        return claims

    def _misfits(self, request: ClaimRequest, claims: list[Claim], over: list[Claim]) -> list[tuple[Claim, str]]:
        if all(channel.spec.message_type is None for channel in request.channels):
            return []
        gone = {id(claim) for claim in over}
        return self._types.misfits([claim for claim in claims if id(claim) not in gone])

    def _wake(self, silent: Sequence[Channel]) -> HoldfastError | None:
        """Who claims is alive. What a group says that has lost something while it was dead, until someone decides; or
        that nobody wakes any more."""
        try:
            lost = {channel.name: self._parts.groups.beat(channel) for channel in silent}
        except UnknownGroup as problem:
            return problem
        return next((out_of_range(name, missing) for name, missing in lost.items() if missing), None)

    def _read_on(self, request: ClaimRequest) -> list[Claim]:
        """A group whose keys matter reads its topic in steps: behind all that waits for a stuck key, there may be
        another. It looks again for as long as it comes further."""
        fed = [one for one in request.channels if isinstance(one.spec, GroupSpec) and one.spec.fed]
        before: list[object] = []
        while fed and (reached := self._store.places.reached(fed)) and reached != before:
            before = reached
            if claims := self.once(request):
                return claims
        return []

    def _take_back_what_is_due(self, request: ClaimRequest) -> bool:
        """Nothing to claim, but a lease may have just run out: whether it is worth another look."""
        due = self._store.reads.next_due(request.channels)
        if due is None or due > 0:
            return False
        self.sweep(request.channels, request.worker)
        self._parts.upkeep.look_after_others()  # This sweep may come so often that none is due before a look.
        return True


def unfinished(request: ClaimRequest) -> ClaimRequest:
    """The same request once more, after what came along was settled."""
    return replace(request, ack=(), done=()) if request.ack or request.done else request


def _gone(finished: Finished, request: ClaimRequest, claimed: ClaimResult[Claim]) -> list[Claim]:
    gone = settlements.note(finished.claims, request.ack, claimed.acked)
    return gone + settlements.note_runs(finished.runs, claimed.lost)


def _is_over(claim: Claim, request: ClaimRequest) -> bool:
    """Whether a message's time was over when it was claimed."""
    return claim.message.outlived(claim.channel.spec.max_age, claim.lease.until_us - request.term(claim.channel))
