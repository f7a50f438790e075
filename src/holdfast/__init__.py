"""Reliable messaging in the database you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.claims import Claim
from holdfast.client import Holdfast
from holdfast.core.command import Command, CommandParameter
from holdfast.core.commitments import Commitment, CommitmentResult
from holdfast.core.crew import Attachment, ConsumerStatus, PoolStatus, Work
from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord
from holdfast.core.given import DEFAULT
from holdfast.core.lifecycle import State
from holdfast.core.message import Failure, Lease, Message, MessageStatus
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.picking import Expression
from holdfast.core.retry import Backoff
from holdfast.core.saga import SagaEvent, SagaStatus, Step, StepStatus, Wait
from holdfast.core.schedule import Schedule
from holdfast.core.stats import Stats
from holdfast.core.topic import GroupStatus
from holdfast.errors import (
    AlreadyReplayed,
    CursorOutOfRange,
    DeliveryFailed,
    EngineConflict,
    ExpressionTooCostly,
    GroupCanceled,
    HoldfastError,
    IdempotencyConflict,
    IllegalMove,
    InvalidBody,
    InvalidInput,
    LeaseLost,
    NetworkFileSystem,
    NoAnswer,
    NoSubscribers,
    NotFound,
    PreflightFailed,
    ProgramFailed,
    QueueFull,
    RequestDied,
    SchemaMismatch,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    TooLarge,
    Unavailable,
    UnknownCommand,
    UnknownGroup,
    UnknownQueue,
    UnknownTopic,
)
from holdfast.outcomes import Cancel, DeadLetter, Retry, Snooze
from holdfast.outgoing import Outgoing
from holdfast.receipts import Receipt

if TYPE_CHECKING:
    from holdfast.aio import AsyncClaim, AsyncHoldfast
    from holdfast.runtime.agents import exec_handler
    from holdfast.runtime.consumer import Consumer
    from holdfast.runtime.context import Context
__all__ = [
    "DEFAULT",
    "AlreadyReplayed",
    "AsyncClaim",
    "AsyncHoldfast",
    "Attachment",
    "AuditRecord",
    "Backoff",
    "BlockedKey",
    "Cancel",
    "Claim",
    "Command",
    "CommandParameter",
    "Commitment",
    "CommitmentResult",
    "Consumer",
    "ConsumerStatus",
    "Context",
    "CursorOutOfRange",
    "DeadLetter",
    "DeadLetterRecord",
    "DeliveryFailed",
    "EngineConflict",
    "Expression",
    "ExpressionTooCostly",
    "Failure",
    "GroupCanceled",
    "GroupStatus",
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
    "NoAnswer",
    "NoSubscribers",
    "NotFound",
    "Notice",
    "Outgoing",
    "OwnerSpec",
    "PoolStatus",
    "PreflightFailed",
    "ProgramFailed",
    "QueueFull",
    "Receipt",
    "RequestDied",
    "Retry",
    "SagaEvent",
    "SagaStatus",
    "Schedule",
    "SchemaMismatch",
    "SchemaTooNew",
    "Snooze",
    "State",
    "Stats",
    "Step",
    "StepStatus",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "TooLarge",
    "Unavailable",
    "UnknownCommand",
    "UnknownGroup",
    "UnknownQueue",
    "UnknownTopic",
    "Wait",
    "Work",
    "exec_handler",
]


_LATE = {
    "AsyncClaim": "holdfast.aio",
    "AsyncHoldfast": "holdfast.aio",
    "Consumer": "holdfast.runtime.consumer",
    "Context": "holdfast.runtime.context",
    "exec_handler": "holdfast.runtime.agents",
}


def __getattr__(name: str) -> Any:
    """Loads what not everyone uses when it is first asked for: others need not pay for it with every start."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
