"""The admin API: what an operator can do with a client, over HTTP. One router per noun; no rule of its own."""

from __future__ import annotations

from fastapi import APIRouter

from holdfast.http.admin import (
    audit,
    crew,
    dead_letters,
    events,
    messages,
    notices,
    queues,
    sagas,
    schedules,
    tasks,
    topics,
)

ROUTERS: tuple[APIRouter, ...] = (
    queues.router,
    dead_letters.of_queue,
    dead_letters.of_all,
    messages.router,
    topics.router,
    crew.router,
    schedules.router,
    sagas.router,
    notices.router,
    audit.router,
    events.router,
    tasks.router,
)
"""For `app.include_router`. They need `app.state.auth`, and the handlers of `holdfast.http.answers`."""
