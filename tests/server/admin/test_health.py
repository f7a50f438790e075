"""Liveness and readiness."""

import asyncio
import threading

import httpx
import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.errors import Unavailable
from holdfast.server import health
from holdfast.worker.maintenance import leader
from tests.server.admin.conftest import Ask, asking, build
from tests.waiting import LONGEST, eventually

pytestmark = [pytest.mark.on_postgres, pytest.mark.above_the_stores]


def test_it_lives_and_is_ready(hf: Holdfast, ask: Ask) -> None:
    hf.queues.list()
    assert ask("GET", "/health") == {"status": "ok"}
    assert ask("GET", "/ready") == {"ready": True, "database": "ok", "schema_version": "ok", "maintenance": "ok"}


def test_it_is_not_ready_before_it_is_migrated(empty_url: str) -> None:
    with Holdfast(empty_url, strict=True) as hf:
        assert asking(build(hf))("GET", "/ready", 503)["schema_version"] == "behind"


def test_it_is_not_ready_without_its_database(app: FastAPI, ask: Ask) -> None:
    app.state.auth.tenants.hf = Holdfast("postgresql://nowhere@127.0.0.1:1/x", strict=True, patience=0.1)
    found = ask("GET", "/ready", 503)
    assert (found["ready"], found["database"]) == (False, "failing")
    assert ask("GET", "/health") == {"status": "ok"}, "a restart would not help"


def test_a_database_that_hangs_is_not_waited_for(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(health, "PATIENCE", 0.1)
    monkeypatch.setattr(health.Probe, "_schema", lambda probe: str(hangs.wait(LONGEST)))

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            answer = await http.get("/ready")
        hangs.set()  # The loop ends with its threads.
        return answer

    answer = asyncio.run(send())
    assert (answer.status_code, answer.json()["database"]) == (503, "silent")


def test_it_is_not_ready_while_maintenance_fails(app: FastAPI, hf: Holdfast, ask: Ask) -> None:
    hf.queues.list()
    app.state.maintenance = lambda: "the disk is full"
    assert ask("GET", "/ready", 503)["maintenance"] == "failing"


def test_it_is_not_ready_when_it_is_about_to_stop(app: FastAPI, hf: Holdfast, ask: Ask) -> None:
    hf.queues.list()
    app.state.stopping.set()
    assert ask("GET", "/ready", 503)["ready"] is False


def test_a_keeper_that_fails_for_a_while_says_so(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "TERM", 0.0)
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.01)
    kept = leader.Keeper(hf, "w", lambda: None)
    fails = True

    def lead(*_: object) -> bool:
        if fails:
            raise Unavailable("it is away")
        return True

    monkeypatch.setattr(type(internals(hf).store.leaders), "lead", lead)
    kept.start()
    eventually(lambda: kept.trouble() == "it is away")
    fails = False
    eventually(lambda: kept.trouble() is None)
    kept.stop()


def test_a_running_server_stays_ready_when_a_newer_release_migrates_and_a_new_one_is_not(
    hf: Holdfast, ask: Ask
) -> None:
    hf.queues.list()
    internals(hf).store.database.write(lambda tx: tx.run("schema.record", number=99, name="099_next", digest="cafe"))  # type: ignore[attr-defined]
    found = ask("GET", "/ready")
    assert (found["ready"], found["schema_version"]) == (True, "ahead")
    with Holdfast(hf.settings.url, strict=True) as started_late:
        found = asking(build(started_late))("GET", "/ready", 503)
    assert (found["ready"], found["schema_version"]) == (False, "ahead")
