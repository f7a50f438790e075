"""Dead letters: the full copy of a message that ran out of attempts, and what its error history keeps."""

from __future__ import annotations

import re
import traceback
from typing import Any

import msgspec

from holdfast.core.message import Failure, Message, MessageId, clean_text, encode_json
from holdfast.core.message_type import MessageForm, misfit
from holdfast.core.times import Moment, WithTimes, text_of
from holdfast.errors import InvalidInput

HISTORY_LIMIT = 20
ERROR_LIMIT = 8_000
TRACEBACK = "Traceback (most recent call last):"

_OF_ORIGINAL = re.compile(r"at `\$\.original_message\.(body|headers|key|correlation_id|reply_to|topic)\b")
"""Where a misfit depends on the message."""

_history = msgspec.json.Decoder(list[Failure])


class DeadLetterRecord(WithTimes, msgspec.Struct, frozen=True):
    """A dead letter as `hf.dead_letters.list()` lists it. Times are datetimes in UTC, the database's clock.

    `error` begins with one sentence, such as "RuntimeError: guard rejected"; `traceback` is that of the last attempt,
    if it ended with an exception.
    """

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
    traceback: str | None = None

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


class BlockedKey(WithTimes, msgspec.Struct, frozen=True):
    """A key whose head has died, and how many wait behind it. `key` is None for all of a fifo queue."""

    key: str | None
    dead_id: str
    blocked_at_us: int
    waiting: int

    blocked_at = Moment()


class AuditRecord(WithTimes, msgspec.Struct, frozen=True):
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
    """The history with one more failure; only the last 20 are kept."""
    line = msgspec.structs.replace(failure, error=short_error(failure.error), at_us=at)
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


class ErrorText(msgspec.Struct, frozen=True):
    """What is kept of an error: text that begins with one sentence, and the traceback of an exception."""

    error: str
    traceback: str | None = None


def trouble_of(error: object) -> ErrorText:
    """What is kept of a text or an exception. A traceback that is handed over as text is taken apart."""
    if isinstance(error, BaseException):
        return ErrorText(short_error(_sentence(error)), short_traceback("".join(traceback.format_exception(error))))
    if not isinstance(error, str):
        raise InvalidInput(f"an error must be text or an exception, not {type(error).__name__}")
    if error.startswith(TRACEBACK) and (lines := error.rstrip().splitlines())[1:]:
        return ErrorText(short_error(lines[-1].strip()), short_traceback(error))
    return ErrorText(short_error(error))


def short_error(error: str) -> str:
    """An error that every store can keep: clean, and in its middle cut if it is very long."""
    return shortened(clean_text(error), ERROR_LIMIT)


def short_traceback(text: str) -> str:
    """The same for a traceback, of which the end says most."""
    text = clean_text(text).rstrip()
    return text if len(text) <= ERROR_LIMIT else "…" + text[-ERROR_LIMIT:]


def shortened(text: str, limit: int) -> str:
    """Of a text that is too long the beginning, which says what happened, and the end, which says why."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[: half - 3]} … {text[-half:]}"


def _sentence(error: BaseException) -> str:
    """The line of a traceback that names the exception, for those too whose traceback ends with something else."""
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    name = kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error).strip()
    except Exception:
        text = "<exception str() failed>"
    return f"{name}: {text}" if text else name
