"""What goes in and out: strict models, so that the OpenAPI description says exactly what is accepted.

All times are seconds since 1970, the database's clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, NotFound, shown
from holdfast.topics.rules.declaration import reader_name

NAME = r"^[^/\x00-\x1f\x7f]+$"
TEXT = r"^[^\x00]*$"
ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
LATEST = 32_503_680_000
"""The year 3000: no time of a message is beyond it."""

MOST = 1_000
"""So much is listed at most in one answer."""

Name = Annotated[str, Path(min_length=1, max_length=200, pattern=NAME)]
Id = Annotated[UUID, Path(description="An id, as every list shows it.")]
"""In a path it stands as {…:uuid}: what is no id leads nowhere."""

Count = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
After = Annotated[str | None, Query(pattern=ID, description="The last id of the page before.")]
Moment = Annotated[float | None, Query(ge=0, le=LATEST, description="Seconds since 1970.")]
Text = Annotated[str | None, Query(max_length=500, pattern=TEXT)]
ReaderName = Annotated[str | None, Query(min_length=1, max_length=401, pattern=r"^[^\x00-\x1f\x7f]+$")]

# `Seconds | None` would describe one of two alternatives, and leave the field itself without a unit.
Seconds = Annotated[float, Field(description="Seconds since 1970.")]
SecondsOrNone = Annotated[float | None, Field(description="Seconds since 1970.")]
Length = Annotated[float, Field(description="Seconds.")]
LengthOrNone = Annotated[float | None, Field(description="Seconds.")]
Json = Annotated[Any, Field(description="Any JSON value.")]


class Input(BaseModel):
    """What a request says: nothing that is not named, nothing of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False)


class Output(BaseModel):
    """What an answer says."""

    model_config = ConfigDict(frozen=True)


class InvalidField(Output):
    """A part of a request that does not fit."""

    path: str
    message: str


class ErrorDetail(Output):
    """Why something was refused: a word for programs and a sentence for people."""

    code: str
    message: str
    faults: list[InvalidField] | None = None


class ErrorBody(Output):
    """The one form of every error."""

    error: ErrorDetail


class Done(Output):
    """It happened."""

    ok: bool = True


class DoneCount(Done):
    """It happened to so many."""

    count: int


class DoneWithMessage(Done):
    """It happened, and made this message."""

    new_message_id: str


_WORDS = {
    400: "The body cannot be read.",
    401: "No token, or none that is known.",
    403: "The token's role or tenant does not allow it.",
    404: "There is no such thing.",
    409: "Its state does not allow it.",
    410: "The messages that this is about are gone.",
    413: "It is too large.",
    415: "The body is not JSON.",
    422: "The request does not fit.",
    429: "Too many at once, or too many wrong tokens from this address; try again later.",
    503: "The queue is full, or the database is away; try again later.",
}
_ALWAYS = (401, 403, 404, 422, 429, 503)
_WITH_BODY = (400, 413, 415)


def refusals(*codes: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route, beside those that every one has."""
    every = sorted({*codes, *_ALWAYS, *(_WITH_BODY if body else ())})
    return {code: {"model": ErrorBody, "description": _WORDS[code]} for code in every}


def seconds(moment: datetime) -> float:
    """A time of the database as the API tells it."""
    return moment.timestamp()


def seconds_or_none(moment: datetime | None) -> float | None:
    """The same for one that may not be."""
    return None if moment is None else moment.timestamp()


def existing(name: str, what: str = "queue") -> str:
    """A name from a path. One that nothing can have is one that nothing has."""
    try:
        return channel_name(name)
    except InvalidInput:
        raise NotFound(f"there is no {what} {shown(name)}") from None


def existing_reader(name: str | None) -> str | None:
    """The same for a queue, or a group as topic/group, that a list is to be about."""
    try:
        return None if name is None else reader_name(name)
    except InvalidInput:
        raise NotFound(f"there is no queue {shown(name)}") from None
