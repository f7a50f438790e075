"""What may be asked of a database about commands; a part of `api.py`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from holdfast.core.command import CommandKey, CommandReceipt
from holdfast.core.message import NewMessage


class Commands(Protocol):
    """What commands have done: the key that a run is known by, and what it gave back."""

    def find(self, of: CommandKey) -> tuple[str, bytes | None]: ...
    def keep(self, receipt: CommandReceipt, following: Sequence[NewMessage]) -> None: ...
    def forget(self, tenant: str, limit: int) -> int: ...


class Lending(Protocol):
    """Connections of the driver for code that is not ours, each with a transaction that ends with the block."""

    def __call__(self) -> AbstractContextManager[Any]: ...
    def awaited(self) -> AbstractAsyncContextManager[Any]: ...
