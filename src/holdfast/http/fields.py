"""The header fields of a request."""

from __future__ import annotations

from collections.abc import Sequence


class Fields(dict[bytes, bytes]):
    """Values by name, in lower case. If a name came several times, they are joined, as HTTP allows anybody to do."""

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
