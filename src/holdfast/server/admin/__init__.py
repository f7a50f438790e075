"""The admin API: what an operator can do with a client, over HTTP. One router per noun; no rule of its own."""

from __future__ import annotations

from fastapi import APIRouter

from holdfast.audit import admin
from holdfast.consumers import admin as crew
from holdfast.dead_letters.admin import dead_letters
from holdfast.messages import admin as messages
from holdfast.notices import admin as notices
from holdfast.queues import admin as queues
from holdfast.sagas import admin as sagas
from holdfast.schedules import admin as schedules
from holdfast.server.admin import events, tasks
from holdfast.topics import admin as topics

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
    admin.router,
    events.router,
    tasks.router,
)
"""For `app.include_router`. They need `app.state.auth`, and the handlers of `holdfast.server.error_responses`."""
