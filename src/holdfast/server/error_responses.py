"""What a request is refused with: one form for every error, and never more than its text says."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from holdfast.errors import (
    AlreadyReplayed,
    CursorOutOfRange,
    ExpressionTooCostly,
    HoldfastError,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    NoSubscribers,
    NotFound,
    QueueFull,
    StoreError,
    TooLarge,
    UnknownGroup,
    UnknownQueue,
    UnknownTopic,
)

log = logging.getLogger("holdfast.server")

RETRY_AFTER = 5
"""Seconds after which a sender may try again what was refused for now."""

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_type",
    421: "wrong_host",
    422: "invalid",
    429: "too_many",
    431: "headers_too_large",
    500: "internal",
    501: "not_implemented",
    503: "unavailable",
    505: "http_version",
}

KINDS: tuple[tuple[type[HoldfastError], int, str], ...] = (
    (TooLarge, 413, "too_large"),
    (InvalidInput, 422, "invalid"),
    (ExpressionTooCostly, 422, "too_costly"),
    (UnknownQueue, 404, "unknown_queue"),
    (UnknownGroup, 404, "unknown_group"),
    (UnknownTopic, 404, "unknown_topic"),
    (NotFound, 404, "not_found"),
    (CursorOutOfRange, 410, "out_of_range"),
    (IdempotencyConflict, 409, "idempotency_conflict"),
    (AlreadyReplayed, 409, "already_replayed"),
    (LeaseLost, 409, "lease_lost"),
    (NoSubscribers, 409, "no_subscribers"),
    (QueueFull, 503, "queue_full"),
    (StoreError, 503, "store_unavailable"),
)
"""Errors of ours that are an answer; the first that fits counts. All others are bugs."""


class JsonAnswer(Response):
    """A value as JSON."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status_code
        self.background = None
        self.body = msgspec.json.encode(content)
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), _JSON]
        if headers:
            self.raw_headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


_JSON = (b"content-type", b"application/json")


class Refusal(Exception):
    """Ends a request with this status, `{"error": {"code", "message"}}` and these headers."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or CODES.get(status, "error")
        self.message = message
        self.headers = dict(headers or {})
        self.details = details

    def answer(self) -> JsonAnswer:
        """The response that says so."""
        body = {"error": {"code": self.code, "message": self.message, **self.details}}
        return JsonAnswer(body, self.status, headers=self.headers)


def for_now(message: str, code: str) -> Refusal:
    """503 with the time after which to try again."""
    return Refusal(503, message, code=code, headers={"Retry-After": str(RETRY_AFTER)})


def refusal_of(problem: HoldfastError) -> Refusal:
    """What an error of ours means to whoever asked."""
    for kind, status, code in KINDS:
        if isinstance(problem, kind):
            if status != 503:
                return Refusal(status, str(problem), code=code)
            if isinstance(problem, QueueFull):
                return for_now(str(problem), code)
            log.warning("the database cannot be used: %s", problem)  # The sender has no use for its address or state.
            return for_now("the database cannot be used at the moment; try again later", code)
    log.error("a request failed", exc_info=problem)
    return _bug()


async def on_refusal(request: Request, problem: Exception) -> Response:
    """For `Refusal`."""
    assert isinstance(problem, Refusal)
    return problem.answer()


async def on_error_of_ours(request: Request, problem: Exception) -> Response:
    """For `HoldfastError`."""
    assert isinstance(problem, HoldfastError)
    return refusal_of(problem).answer()


async def on_http_error(request: Request, problem: Exception) -> Response:
    """For what the framework refuses by itself: 404, 405 with its Allow, and the like."""
    assert isinstance(problem, HTTPException)
    headers = _allowed(request) if problem.status_code == 405 else problem.headers
    return Refusal(problem.status_code, str(problem.detail), headers=headers).answer()


def _allowed(request: Request) -> dict[str, str]:
    """The methods of all routes of this path; the framework names those of the first."""
    scope = request.scope
    found = [route for route in _every(scope["app"].routes) if route.matches(scope)[0] is not Match.NONE]
    return {"Allow": ", ".join(sorted({method for route in found for method in getattr(route, "methods", ()) or ()}))}


def _every(routes: Iterable[Any]) -> Iterator[Any]:
    """Newer versions of the framework keep included routers as they are, older ones only their routes."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from [route] if inner is None else _every(inner.routes)


async def on_invalid(request: Request, problem: Exception) -> Response:
    """For requests that do not fit a route's model. What was sent is not sent back."""
    assert isinstance(problem, RequestValidationError)
    faults = [{"path": ".".join(map(str, fault["loc"])), "message": fault["msg"]} for fault in problem.errors()]
    first = faults[0] if faults else {"path": "", "message": "it does not fit"}
    return Refusal(422, f"{first['path']}: {first['message']}", faults=faults[:20]).answer()


async def on_bug(request: Request, problem: Exception) -> Response:
    """For everything else. The log has the trace, the answer has not."""
    return _bug().answer()


def answer_to(problem: BaseException) -> Response:
    """The same outside of the framework, which has not logged anything yet."""
    log.error("a request failed", exc_info=problem)
    return _bug().answer()


def _bug() -> Refusal:
    return Refusal(500, "something went wrong here; the server's log says what")


HANDLERS: dict[Any, Any] = {
    Refusal: on_refusal,
    HoldfastError: on_error_of_ours,
    HTTPException: on_http_error,
    RequestValidationError: on_invalid,
    Exception: on_bug,
}
