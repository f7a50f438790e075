"""What the rest of Holdfast may ask of a database about sagas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.core.saga import SagaSpec, SagaStatus
from holdfast.errors import HoldfastError


class NewSaga(msgspec.Struct, frozen=True):
    """One to be started, `delay` microseconds before it begins."""

    tenant: str
    name: str
    id: str
    data: bytes
    delay: int
    who: str


class SagaDefinitions(Protocol):
    """What new sagas consist of."""

    def find(self, tenant: str, name: str) -> SagaSpec | None: ...
    def names(self, tenant: str) -> list[str]: ...


class Sagas(Protocol):
    """Several steps that all happen, or are undone. `advance` does what time has to do with them."""

    def declare(self, tenant: str, name: str, spec: SagaSpec) -> int: ...
    def start(self, new: Sequence[NewSaga]) -> list[HoldfastError | None]:
        """Begins each that can be; for the others, why not."""

    def signal(self, tenant: str, saga_id: str, name: str, data: bytes, who: str) -> bool: ...
    def cancel(self, tenant: str, saga_id: str, reason: str | None, who: str) -> bool: ...
    def decide(
        self, tenant: str, saga_id: str, act: str, step: str, reason: str | None, output: bytes, who: str
    ) -> bool: ...
    def is_due(self, tenant: str) -> bool: ...
    def advance(self, tenant: str, limit: int) -> int: ...
    def next_due(self, tenant: str) -> float | None: ...
    def find(
        self, tenant: str, status: str | None, name: str | None, limit: int, after: str | None
    ) -> list[SagaStatus]: ...
    def count(self, tenant: str, most: int) -> dict[str, int]:
        """How many there are of each status that is no end, up to `most` of each."""

    def status(self, tenant: str, saga_id: str) -> SagaStatus | None: ...
