"""How much a server takes from one who asks, before it knows who that is."""

from __future__ import annotations

import msgspec

from holdfast.errors import InvalidInput


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a server. What is beyond is answered (431, 413, 408, 503) and hung up on.

    - `headers` and `header_bytes`: how many a request may have, and how long they may be together, with the path.
    - `body_bytes`: of any request; a webhook may allow less, or more, by its own `max_size`.
    - `header_seconds` and `body_seconds`: how long each may take to arrive.
    - `idle_seconds`: how long a connection is kept between two requests.
    - `connections`: at the same time.
    """

    headers: int = 100
    header_bytes: int = 32_768
    body_bytes: int = 1_048_576
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 5.0
    connections: int = 2_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise InvalidInput(f"the limit {name} must be above 0")
