"""Every route of the server but the webhooks, for `create_app(hf, routers=ROUTERS)`."""

from __future__ import annotations

from fastapi import APIRouter

from holdfast.http import admin, health, metrics

ROUTERS: tuple[APIRouter, ...] = (*admin.ROUTERS, health.router, metrics.router)
