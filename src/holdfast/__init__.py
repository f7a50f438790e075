"""Reliable messaging in the database you already have."""

from typing import TYPE_CHECKING, Any

from holdfast.claims import Claim
from holdfast.client import Holdfast
from holdfast.core.commitments import Commitment, CommitmentResult
from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord
from holdfast.core.lifecycle import State
from holdfast.core.message import Failure, Lease, Message, MessageStatus
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.retry import Backoff
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
    PreflightFailed,
    ProgramFailed,
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
    from holdfast.runtime.agents import exec_handler

__all__ = [
    "AlreadyReplayed",
    "AsyncClaim",
    "AsyncHoldfast",
    "AuditRecord",
    "Backoff",
    "BlockedKey",
    "Claim",
    "Commitment",
    "CommitmentResult",
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
    "PreflightFailed",
    "ProgramFailed",
    "QueueFull",
    "Receipt",
    "SchemaTooNew",
    "State",
    "Stats",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "TooLarge",
    "Unavailable",
    "UnknownQueue",
    "exec_handler",
]


def __getattr__(name: str) -> Any:
    """Loads what only some need when it is first asked for: others need not pay for it with every start."""
    if name in ("AsyncClaim", "AsyncHoldfast"):
        from holdfast import aio

        return getattr(aio, name)
    if name == "exec_handler":
        from holdfast.runtime import agents

        return agents.exec_handler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
