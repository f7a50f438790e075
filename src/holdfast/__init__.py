"""Reliable messaging in the database you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.client.claim import Claim
from holdfast.client.client import Holdfast
from holdfast.client.middleware import Outgoing
from holdfast.client.receipts import Receipt
from holdfast.commands.rules import Command, CommandParameter
from holdfast.commitments.rules import Commitment, CommitmentResult
from holdfast.consumers.rules import Attachment, ConsumerStatus, PoolStatus, Work
from holdfast.core.dead_letter import AuditRecord, BlockedKey, DeadLetterRecord
from holdfast.core.given import DEFAULT
from holdfast.core.lifecycle import State
from holdfast.core.message import Failure, Lease, Message, MessageStatus
from holdfast.core.retry import Backoff
from holdfast.core.stats import Stats
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
from holdfast.notices.rules import Notice, OwnerSpec
from holdfast.sagas.rules.data_selection import Expression
from holdfast.sagas.rules.declaration import SagaEvent, SagaStatus, Step, StepStatus, Wait
from holdfast.schedules.rules import Schedule
from holdfast.topics.rules.declaration import GroupStatus
from holdfast.worker.outcomes import Cancel, DeadLetter, Retry, Snooze

if TYPE_CHECKING:
    from holdfast.client.async_client import AsyncClaim, AsyncHoldfast
    from holdfast.worker.consumer import Consumer
    from holdfast.worker.context import Context
    from holdfast.worker.programs.exec_handler import exec_handler
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
    "AsyncClaim": "holdfast.client.async_client",
    "AsyncHoldfast": "holdfast.client.async_client",
    "Consumer": "holdfast.worker.consumer",
    "Context": "holdfast.worker.context",
    "exec_handler": "holdfast.worker.programs.exec_handler",
}


def __getattr__(name: str) -> Any:
    """Loads what not everyone uses when it is first asked for: others need not pay for it with every start."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
