"""Which names a server answers to. A page can make its own name lead here, but it cannot change what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from holdfast.errors import InvalidInput, shown

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"

_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?\.?|\[[0-9a-f:.]+\]|\*")
_HOST = re.compile(rb"(?P<name>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


class Hosts:
    """An allow-list of host names: as they are, "*.example.com" for all below one, "*" for every one."""

    def __init__(self, names: Iterable[str]) -> None:
        chosen = [bracketed(name) for name in names]
        for name in chosen:
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"{shown(name)} is not a host name; write it without port, such as hooks.example.com"
                )
        self._any = ANY in chosen
        self._names = frozenset(name.rstrip(".") for name in chosen if not name.startswith("*"))
        self._endings = tuple(name[1:].rstrip(".") for name in chosen if name.startswith("*."))
        self.admit = lru_cache(maxsize=100)(self._admit)

    def _admit(self, host: bytes) -> bool:
        """Whether this is the Host of a request for us. The port is no part of a name."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].decode("ascii").lower().rstrip(".")
        return self._any or name in self._names or name.endswith(self._endings or "/")


def bracketed(name: str) -> str:
    """An IPv6 address as it stands in a Host header; other names as they are, in lower case."""
    lowered = name.strip().lower()
    return f"[{lowered}]" if lowered.count(":") > 1 and not lowered.startswith("[") else lowered
