"""Slows down whoever presents wrong tokens, per address.

Each wrong token costs a second. An address has some for nothing; from then on a token of it is looked at when the time
for the last wrong one is over, and if too many wait already, it is refused unseen. The wait comes before the look, and
for right tokens too: a delay of wrong ones only would say at once which are wrong.

A token that was right from the same address before is looked at without a wait. So somebody who guesses behind the same
proxy as others does not lock them out, and learns nothing about a token that they do not know.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

FREE = 10
"""Wrong tokens of an address that cost nothing."""

PACE = 1.0
"""Seconds for each of the others."""

MOST_WAITING = 10
"""Tokens of an address that wait at the same time. Each of them occupies a connection."""

MOST_ADDRESSES = 10_000
"""Addresses that are remembered. One that was not heard of for the longest time is forgotten first."""

MOST_KNOWN = 1_000
"""Right tokens, each with its address, that are remembered."""

Clock = Callable[[], float]


class TooManyGuesses(Exception):
    """A token is not looked at; `seconds` later it may be."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Guesses:
    """Wrong tokens, by address."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()  # When the time for all wrong ones is over.
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def delay(self, address: str, token: bytes) -> float:
        """Returns the seconds after which this token may be looked at. If there are any, a wrong one is paid for."""
        if not self._until:
            return 0.0
        place = network_of(address)
        until, now = self._until.get(place, 0.0), self._clock()
        wait = until - (FREE - 1) * PACE - now
        if wait <= 0 or (place, _digest(token)) in self._known:
            return 0.0
        if wait > MOST_WAITING * PACE:
            raise TooManyGuesses(math.ceil(wait - MOST_WAITING * PACE))
        self._until[place] = until + PACE
        return wait

    def wrong(self, address: str, token: bytes, waited: float) -> None:
        """Notes a wrong token, unless it was paid for by its wait."""
        place = network_of(address)
        self._known.pop((place, _digest(token)), None)
        if waited:
            return
        now = self._clock()
        self._until[place] = max(now, self._until.pop(place, now)) + PACE
        while len(self._until) > MOST_ADDRESSES or next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)

    def right(self, address: str, token: bytes, waited: float) -> None:
        """Notes a right token, and gives back what its wait has paid."""
        place = network_of(address)
        if waited and place in self._until:
            self._until[place] -= PACE
        self._known[place, _digest(token)] = None
        self._known.move_to_end((place, _digest(token)))
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def network_of(address: str) -> str:
    """An address as it is counted: of IPv6 the first 64 bits, since whoever has one address there has all of them."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False).network_address)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
