"""Reliable messaging in the database you already have."""

from holdfast.aio import AsyncClaim, AsyncHoldfast
from holdfast.claims import Claim
from holdfast.client import Holdfast, Receipt
from holdfast.core.deadletter import DeadLetterRecord
from holdfast.core.lifecycle import State
from holdfast.core.message import Failure, Lease, Message, MessageStatus
from holdfast.core.retry import Backoff
from holdfast.errors import (
    AlreadyReplayed,
    EngineConflict,
    HoldfastError,
    IllegalMove,
    InvalidInput,
    LeaseLost,
    NotFound,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreFull,
    Unavailable,
    UnknownQueue,
)
from holdfast.store.api import Stats

__all__ = [
    "AlreadyReplayed",
    "AsyncClaim",
    "AsyncHoldfast",
    "Backoff",
    "Claim",
    "DeadLetterRecord",
    "EngineConflict",
    "Failure",
    "Holdfast",
    "HoldfastError",
    "IllegalMove",
    "InvalidInput",
    "Lease",
    "LeaseLost",
    "Message",
    "MessageStatus",
    "NotFound",
    "Receipt",
    "SchemaTooNew",
    "State",
    "Stats",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "Unavailable",
    "UnknownQueue",
]
