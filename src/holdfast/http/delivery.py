"""`POST /hook/{name}` as the OpenAPI document tells of it, since deliveries go past the framework that writes that."""

from __future__ import annotations

from typing import Any

_WORDS = {
    200: "It was delivered before and has ended, is of no interest, or its command has run.",
    202: "It is in the queue.",
    400: "It is no JSON, or does not fit the message type.",
    401: "The signature is missing or not right.",
    403: "This webhook takes nothing from this address.",
    404: "There is no such webhook.",
    408: "It did not arrive in time.",
    409: "The command says that it conflicts with something.",
    413: "The body is too large.",
    415: "The body is of a type that this webhook does not take.",
    422: "An expression of the spec cannot be computed for it.",
    500: "The command has failed.",
    503: "The queue is full, or the database is away: try again later.",
}

_ANSWER = {
    "type": "object",
    "properties": {
        "queued": {"type": "boolean"},
        "duplicate": {"type": "boolean"},
        "filtered": {"type": "boolean"},
        "ok": {"type": "boolean"},
        "id": {"type": "string", "format": "uuid"},
        "idempotency_key": {"type": ["string", "null"]},
        "state": {"type": "string"},
        "result": {},
    },
}

_REFUSED = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "path": {"type": "string"}},
        }
    },
}


def _response(code: int, words: str) -> dict[str, Any]:
    schema = _ANSWER if code < 400 else _REFUSED
    return {"description": words, "content": {"application/json": {"schema": schema}}}


DELIVERY: dict[str, Any] = {
    "post": {
        "tags": ["webhooks"],
        "summary": "Deliver",
        "description": "A delivery of a webhook. It needs no token, but the signature that the webhook asks for.",
        "operationId": "deliver",
        "security": [],
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}],
        "requestBody": {
            "required": True,
            "description": "Whatever the sender says; forms only where the webhook takes them.",
            "content": {"application/json": {"schema": {}}},
        },
        "responses": {str(code): _response(code, words) for code, words in _WORDS.items()},
    }
}
"""Of `paths`."""
