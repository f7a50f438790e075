"""Every error Holdfast raises on purpose. A class's docstring is its default message.

HoldfastError
├── InvalidInput          a name, body, duration or setting that cannot be accepted (also a ValueError)
│   └── TooLarge          a message above the queue's max_size
├── InvalidBody           a claimed message does not fit its queue's message type
├── QueueFull             the queue has as many messages waiting as it may have; nothing was stored
├── IdempotencyConflict   the key was used before for another body; nothing was stored
├── UnknownQueue          strict mode: the queue was never declared
├── UnknownCommand        no command has this name
├── UnknownGroup          nobody has subscribed under this name
│   └── GroupCanceled     it was canceled, which is final
├── NoSubscribers         no live group wants what is published, and the topic refuses that; nothing was stored
├── CursorOutOfRange      retention took messages from a dead group; someone has to decide
├── LeaseLost             the claim is no longer yours; nothing was changed
├── DeliveryFailed        SQS refused or is out of reach; the messages are safe in the database
├── NotFound              no dead letter with this id, no schedule of this name
│   └── UnknownTopic      no topic or queue has this name; nothing was stored
├── AlreadyReplayed       this dead letter has had its one replay
├── ProgramFailed         a program that was run for a message did not do its work
├── NoAnswer              nobody answered in time what was asked (also a TimeoutError)
├── RequestDied           what was asked became a dead letter
├── PreflightFailed       what has to be there before the first claim is not
├── ExpressionTooCostly   an expression of a spec would take too many steps, or make too much, for this message
├── IllegalMove           a message cannot go from this state to that one (a bug in Holdfast)
└── StoreError            the database refused or is out of reach
    ├── Unavailable       it did not come back within the client's patience
    ├── StoreFull         no room left on the disk
    ├── StoreCorrupt      the file is damaged or not a database
    ├── EngineConflict    two SQLite libraries on one file in one process
    ├── NetworkFileSystem the SQLite file is not on a local disk
    ├── SchemaMismatch    the database was made by other migrations than those of this Holdfast
    └── SchemaTooNew      the database was migrated by a newer Holdfast
"""

from __future__ import annotations

import reprlib

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """A refused value as an error quotes it: recognisable, and never a page long."""
    try:
        return _short.repr(value)
    except Exception:
        return f"a value of the type {type(value).__name__}"


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class InvalidInput(HoldfastError, ValueError):
    """This value cannot be accepted."""


class TooLarge(InvalidInput):
    """The message is larger than its queue allows."""


class InvalidBody(HoldfastError):
    """The message does not fit the message type of its queue."""


class QueueFull(HoldfastError):
    """The queue has as many messages waiting as it may have; nothing was stored. Try again later."""


class IdempotencyConflict(HoldfastError):
    """The idempotency key was used before for another body; nothing was stored."""


class UnknownQueue(HoldfastError):
    """The queue was never declared, and this client is strict: declare it first with hf.queue(name)."""


class UnknownCommand(HoldfastError):
    """No command has this name."""


class UnknownGroup(HoldfastError):
    """Nobody has subscribed under this name."""


class GroupCanceled(UnknownGroup):
    """The group was canceled, which is final: remove it with hf.groups.remove(), or subscribe under another name."""


class NoSubscribers(HoldfastError):
    """No live group of this topic wants the message, and the topic refuses messages that no group would get."""


class CursorOutOfRange(HoldfastError):
    """Messages that a group has not claimed were removed by the topic's retention since it was found dead.

    `group` is its address.
    """

    group: str = ""


class LeaseLost(HoldfastError):
    """The lease is over and the message belongs to someone else, or is finished; this try has changed nothing."""


class DeliveryFailed(HoldfastError):
    """SQS refused, or is out of reach. The messages are safe in the database, and delivered when it is back."""


class NotFound(HoldfastError):
    """There is nothing with this id."""


class UnknownTopic(NotFound):
    """There is no topic of this name: declare it first with hf.topic(name)."""


class AlreadyReplayed(HoldfastError):
    """This dead letter was replayed before; a death can be replayed once."""


class ProgramFailed(HoldfastError):
    """A program that was run for a message did not do its work."""


class NoAnswer(HoldfastError, TimeoutError):
    """Nobody has answered in time."""


class RequestDied(HoldfastError):
    """What was asked is a dead letter; nobody will answer it."""


class PreflightFailed(HoldfastError):
    """What a consumer needs is not there; it claims nothing."""


class ExpressionTooCostly(HoldfastError):
    """The expression would take too many steps, or make too much, for this message; no retry will change it."""


class IllegalMove(HoldfastError):
    """A message cannot move this way."""


class StoreError(HoldfastError):
    """The database refused the operation."""


class Unavailable(StoreError):
    """The database cannot be reached; what was asked may or may not have happened."""


class StoreFull(StoreError):
    """The disk or the database is full; nothing was written. Free some space, no restart is needed."""


class StoreCorrupt(StoreError):
    """The file is damaged or is not a database."""


class EngineConflict(StoreError):
    """Two SQLite libraries use this file in this process, which breaks its locks and can delete its write-ahead log."""


class NetworkFileSystem(StoreError):
    """The SQLite file is on a network file system, where its log does not work; put it on a local disk."""


class SchemaMismatch(StoreError):
    """The database was made by other migrations than those of this Holdfast, so its tables may be others."""


class SchemaTooNew(StoreError):
    """The database was migrated by a newer Holdfast; upgrade this installation."""
