"""Reliable messaging in the database you already have."""

from typing import TYPE_CHECKING, Any

from holdfast.claims import Claim
from holdfast.client import Holdfast
from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord
from holdfast.core.lifecycle import State
from holdfast.core.message import Failure, Lease, Message, MessageStatus
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.retry import Backoff
from holdfast.core.schedule import Schedule
from holdfast.core.stats import Stats
from holdfast.errors import (
    AlreadyReplayed,
    EngineConflict,
    HoldfastError,
    IdempotencyConflict,
    IllegalMove,
    InvalidBody,
    InvalidInput,
    LeaseLost,
    NetworkFileSystem,
    NotFound,
    QueueFull,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    TooLarge,
    Unavailable,
    UnknownQueue,
)
from holdfast.receipts import Receipt

if TYPE_CHECKING:
    from holdfast.aio import AsyncClaim, AsyncHoldfast

__all__ = [
    "AlreadyReplayed",
    "AsyncClaim",
    "AsyncHoldfast",
    "AuditRecord",
    "Backoff",
    "BlockedKey",
    "Claim",
    "DeadLetterRecord",
    "EngineConflict",
    "Failure",
    "Holdfast",
    "HoldfastError",
    "IdempotencyConflict",
    "IllegalMove",
    "InvalidBody",
    "InvalidInput",
    "Lease",
    "LeaseLost",
    "Message",
    "MessageStatus",
    "NetworkFileSystem",
    "NotFound",
    "Notice",
    "OwnerSpec",
    "QueueFull",
    "Receipt",
    "Schedule",
    "SchemaTooNew",
    "State",
    "Stats",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "TooLarge",
    "Unavailable",
    "UnknownQueue",
]


def __getattr__(name: str) -> Any:
    """Loads what is for asyncio when it is first asked for: others need not pay for it with every start."""
    if name in ("AsyncClaim", "AsyncHoldfast"):
        from holdfast import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
