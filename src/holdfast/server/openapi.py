"""The OpenAPI document: what FastAPI writes, with the webhooks, which go past it, and links between the answers.

A link says that what one answer names is what another request asks for. Whoever asks for the document needs a token.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI

from holdfast.server.auth import Access, require
from holdfast.server.webhooks.hook import HOOK_PATH

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
"""The entry of `paths` for deliveries."""

Given = dict[str, str]
"""The parameters of a request, each with the place in an answer, or in the request before, that it is taken from."""

_QUEUE: Given = {"name": "$response.body#/queues/0/name"}
_SAME_QUEUE: Given = {"name": "$request.path.name"}
_DEAD_OF_QUEUE: Given = {"name": "$request.path.name", "dead_id": "$response.body#/dead_letters/0/id"}
_SAME_DEAD_OF_QUEUE: Given = {"name": "$request.path.name", "dead_id": "$response.body#/id"}
_DEAD: Given = {"dead_id": "$response.body#/dead_letters/0/id"}
_GROUP: Given = {"topic": "$response.body#/name", "group": "$response.body#/groups/0/group"}
_SAME_GROUP: Given = {"topic": "$response.body#/topic", "group": "$response.body#/group"}
_LISTED_MESSAGE: Given = {"message_id": "$response.body#/messages/0/id"}
_SCHEDULE: Given = {"name": "$response.body#/schedules/0/name"}
_SAME_SCHEDULE: Given = {"name": "$request.path.name"}
_TASK: Given = {"task_id": "$response.body#/id"}
_MESSAGE: Given = {"message_id": "$response.body#/id"}

LINKS: dict[str, dict[str, Given]] = {
    "create_task": {"get_task": _TASK, "cancel_task": _TASK, "get_message": _MESSAGE, "cancel_message": _MESSAGE},
    "get_task": {"cancel_task": _TASK, "get_message": _MESSAGE, "list_commitments": _MESSAGE},
    "cancel_task": {"get_task": {"task_id": "$request.path.task_id"}},
    "list_queues": {
        "get_queue": _QUEUE,
        "peek_queue": _QUEUE,
        "list_dead_letters": _QUEUE,
        "list_blocked_keys": _QUEUE,
    },
    "get_queue": {"pause_queue": _SAME_QUEUE, "peek_queue": _SAME_QUEUE, "list_dead_letters": _SAME_QUEUE},
    "pause_queue": {"resume_queue": _SAME_QUEUE, "get_queue": _SAME_QUEUE},
    "peek_queue": {"get_message": _LISTED_MESSAGE, "cancel_message": _LISTED_MESSAGE},
    "search_messages": {"get_message": _LISTED_MESSAGE, "cancel_message": _LISTED_MESSAGE},
    "get_message": {"cancel_message": _MESSAGE, "list_commitments": _MESSAGE},
    "cancel_message": {"get_message": {"message_id": "$request.path.message_id"}},
    "list_dead_letters": {
        "get_dead_letter": _DEAD_OF_QUEUE,
        "replay_dead_letter": _DEAD_OF_QUEUE,
        "delete_dead_letter": _DEAD_OF_QUEUE,
    },
    "get_dead_letter": {"replay_dead_letter": _SAME_DEAD_OF_QUEUE, "delete_dead_letter": _SAME_DEAD_OF_QUEUE},
    "list_all_dead_letters": {
        "find_dead_letter": _DEAD,
        "replay_any_dead_letter": _DEAD,
        "delete_any_dead_letter": _DEAD,
    },
    "list_topics": {"get_topic": {"topic": "$response.body#/topics/0"}},
    "get_topic": {"get_group": _GROUP, "peek_group": _GROUP, "pause_group": _GROUP},
    "get_group": {"pause_group": _SAME_GROUP, "resume_group": _SAME_GROUP, "remove_group": _SAME_GROUP},
    "list_schedules": {"get_schedule": _SCHEDULE, "pause_schedule": _SCHEDULE, "trigger_schedule": _SCHEDULE},
    "get_schedule": {"resume_schedule": _SAME_SCHEDULE, "remove_schedule": _SAME_SCHEDULE},
    "list_sagas": {"get_saga": {"saga_id": "$response.body#/sagas/0/id"}},
    "get_saga": {"cancel_saga": {"saga_id": "$response.body#/id"}},
    "list_notices": {"acknowledge_notice": {"notice_id": "$response.body#/notices/0/id"}},
}
"""By operation, what may follow it."""


def serve_openapi(api: FastAPI) -> None:
    """Add the route of the document, for those who may read."""

    @api.get("/openapi.json", include_in_schema=False)
    def openapi(access: Annotated[Access, Depends(require("read"))]) -> dict[str, Any]:
        document = api.openapi()
        document["paths"].setdefault(HOOK_PATH, DELIVERY)
        return _linked(document)


def _linked(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, in which good answers say what follows."""
    for operation in (one for path in document["paths"].values() for one in path.values()):
        following = LINKS.get(operation["operationId"], {})
        links = {target: {"operationId": target, "parameters": given} for target, given in following.items()}
        for status, response in operation["responses"].items():
            if links and status.startswith("2"):
                response["links"] = links
    return document
