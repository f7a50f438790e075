"""The header fields of a request, and which of those of a webhook delivery are stored with its message."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import lru_cache

_SECRET = re.compile(rb"authorization|cookie|signature|hmac|secret|token|password|api-?key|credential")
"""Headers with such a name are never stored, whatever a webhook says."""


class Fields(dict[bytes, bytes]):
    """Values by name, in lower case. Fields of the same name are joined, as HTTP allows."""

    repeated: frozenset[bytes] = frozenset()

    def __init__(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(headers)
        if len(self) < len(headers):
            self._join(headers)

    def single(self, name: bytes) -> bytes | None:
        """The value of a name that came once."""
        return self.get(name) if name not in self.repeated else None

    def _join(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            values.setdefault(name, []).append(value)
        self.repeated = frozenset(name for name, found in values.items() if len(found) > 1)
        self.update((name, b", ".join(values[name])) for name in self.repeated)


def stored_headers(fields: Fields, allowed: Set[str] | None, signature: bytes | None) -> dict[str, str]:
    """The headers that are stored with a delivery: those that are `allowed` (None: all), but no secret and no
    `signature`."""
    stored = {}
    for raw, value in fields.items():
        name = _public_name(raw)
        if name is not None and raw != signature and (allowed is None or name in allowed):
            stored[name] = value.decode("latin-1")
    return stored


@lru_cache(maxsize=1_000)
def _public_name(raw: bytes) -> str | None:
    """The name of a header as text, or None if it says that the value is a secret."""
    return None if _SECRET.search(raw) else raw.decode("latin-1")
