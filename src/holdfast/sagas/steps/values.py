"""What the rest of Holdfast may ask of a database about sagas."""

from __future__ import annotations

import msgspec


class NewSaga(msgspec.Struct, frozen=True):
    """One to be started, `delay` microseconds before it begins."""

    tenant: str
    name: str
    id: str
    data: bytes
    delay: int
    who: str
