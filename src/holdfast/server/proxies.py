"""Who sent a request that came through a proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from holdfast.errors import InvalidInput, shown
from holdfast.server.webhooks.headers import Fields

ANY = "*"
LONGEST = 60
"""Characters of an address with its port."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxies:
    """Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses, networks, or "*" for everybody."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        chosen = [text.strip() for text in trusted]
        self._any = ANY in chosen
        self._networks = tuple(_network(text) for text in chosen if text != ANY)
        self._trusts = lru_cache(maxsize=1_000)(self._is_trusted)
        self.are_none = not chosen

    def client(self, peer: tuple[str, int] | None, fields: Fields) -> tuple[str, int] | None:
        """Returns the address of the client: the last one in X-Forwarded-For that is no trusted proxy.

        Each proxy appends the address that it got the request from, so what stands before an untrusted one may be made
        up. What is no address is returned as "", which no list of addresses admits.
        """
        forwarded = fields.get(b"x-forwarded-for")
        if not forwarded or peer is None or not self._trusts(peer[0]):
            return peer
        hops = forwarded.decode("latin-1").split(",")
        if self._any:
            return _plain(hops[0]), 0
        for hop in reversed(hops):
            address = _plain(hop)
            if not self._trusts(address):
                return address, 0
        return _plain(hops[0]), 0

    def scheme(self, peer: tuple[str, int] | None, fields: Fields) -> str:
        """Returns "https" if the proxy says that it was asked by that."""
        told = fields.get(b"x-forwarded-proto", b"").strip().lower()
        return "https" if told == b"https" and peer is not None and self._trusts(peer[0]) else "http"

    def _is_trusted(self, address: str) -> bool:
        if self._any:
            return True
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _plain(hop: str) -> str:
    """An address without its port and brackets; "" for what is none."""
    text = hop.strip()[:LONGEST]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return text if _address(text) is not None else ""


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidInput(
            f"{shown(text)} is not the address of a proxy; write one such as 10.0.0.7, a network such as 10.0.0.0/8, "
            'or "*" for every one'
        ) from None
