"""Dead letters: the full copy of a message that ran out of attempts, and what its error history keeps."""

from __future__ import annotations

import re
import traceback
from typing import Any

import msgspec

from holdfast.core.message import Failure, Message, MessageId, clean_text, encode_json
from holdfast.core.message_form import MessageForm, misfit
from holdfast.core.moments import Moment, Timed, text_of
from holdfast.errors import InvalidInput

HISTORY_LIMIT = 20
ERROR_LIMIT = 8_000

_OF_ORIGINAL = re.compile(r"at `\$\.original_message\.(body|headers|key|correlation_id|reply_to|topic)\b")
"""Where a misfit depends on the message."""

_history = msgspec.json.Decoder(list[Failure])


class DeadLetterRecord(Timed, msgspec.Struct, frozen=True):
    """A dead letter as `hf.dead_letters()` lists it. Times are datetimes in UTC, the database's clock."""

    id: str
    queue: str
    message: Message
    error: str
    attempts: int
    failed_at_us: int
    history: list[Failure]
    replayed_as: str | None = None
    replay_state: str | None = None
    replays: int = 0

    failed_at = Moment()


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters an act is about. `fresh` leaves out those that were replayed."""

    queue: str | None = None
    error: str | None = None
    key: str | None = None
    since: int | None = None
    before: int | None = None
    fresh: bool = False


def told(chosen: Selection) -> dict[str, Any]:
    """What was asked for, as the audit keeps it."""
    times = {name: text_of(at) for name in ("since", "before") if (at := getattr(chosen, name)) is not None}
    return {name: value for name, value in msgspec.structs.asdict(chosen).items() if value} | times


class BlockedKey(Timed, msgspec.Struct, frozen=True):
    """A key whose head has died, and how many wait behind it. `key` is None for all of a fifo queue."""

    key: str | None
    dead_id: str
    blocked_at_us: int
    waiting: int

    blocked_at = Moment()


class AuditRecord(Timed, msgspec.Struct, frozen=True):
    """An act of an operator: who, what, when, how many. `about` says which ones were chosen."""

    id: int
    at_us: int
    actor: str
    act: str
    queue: str | None
    about: dict[str, Any]
    count: int

    at = Moment()


def read_history(raw: bytes | None) -> list[Failure]:
    """The stored error history, oldest first."""
    return _history.decode(raw) if raw else []


def add_to_history(raw: bytes | None, failure: Failure, at: int) -> bytes:
    """The history with one more failure; only the last 20 are kept, each error's end (where a traceback says most)."""
    line = Failure(failure.attempt, failure.worker, short_error(failure.error), at)
    return encode_json([*read_history(raw), line][-HISTORY_LIMIT:])


def untimed_history(failure: Failure) -> bytes:
    """The history of a first failure up to its time, for a database that fills that in and closes it."""
    return add_to_history(None, failure, 0).removesuffix(b"0}]")


def envelope(message_id: str, queue: str, message: Message, error: str, attempts: int, failed_at: int) -> bytes:
    """The body sent to the queue that `dead_letter` names."""
    original: dict[str, Any] = {
        "id": message_id,
        "queue": queue,
        "body": msgspec.Raw(message.raw_body),
        "headers": message.headers,
        "priority": message.priority,
        "key": message.key,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "topic": message.topic,
        "enqueued_at": text_of(message.enqueued_at_us),
    }
    return msgspec.json.encode(
        {
            "original_message": original,
            "failed_at": text_of(failed_at),
            "error": short_error(error),
            "attempts": attempts,
        },
    )


def copy_misfit(form: MessageForm, queue: str) -> str | None:
    """Why no dead letter of this queue could have a copy of this type; None if one could.

    What stands in the original message differs from one to the next, so only what is the same in all of them counts.
    """
    for text, headers in ((None, None), ("x", b'{"x": "x"}')):
        sample = Message(MessageId(16), 0, b"null", headers, text, text, text, text, None, 0)
        reason = misfit(form, envelope(sample.id, queue, sample, "", 1, 0))
        if reason is not None and not _OF_ORIGINAL.search(reason):
            return reason
    return None


def short_error(error: str) -> str:
    """An error that every store can keep: clean, and cut to its end if it is very long."""
    error = clean_text(error)
    return error if len(error) <= ERROR_LIMIT else "…" + error[-ERROR_LIMIT:]


def error_text(error: object) -> str:
    """What is kept of an error: its own text, or for an exception its traceback."""
    if isinstance(error, str):
        return short_error(error)
    if isinstance(error, BaseException):
        return short_error("".join(traceback.format_exception(error)).rstrip())
    raise InvalidInput(f"an error must be text or an exception, not {type(error).__name__}")
