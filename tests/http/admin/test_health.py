"""Liveness and readiness."""

import threading
import time

import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.errors import Unavailable
from holdfast.http import health
from holdfast.runtime.maintenance import keeper
from tests.http.admin.conftest import Ask, asking, build


def test_it_lives_and_is_ready(hf: Holdfast, ask: Ask) -> None:
    hf.queues()
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


def test_a_database_that_hangs_is_not_waited_for(
    app: FastAPI, hf: Holdfast, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(health, "PATIENCE", 0.1)
    monkeypatch.setattr(health.Probe, "_schema", lambda probe: str(answers.wait(5)))
    assert ask("GET", "/ready", 503)["database"] == "silent"
    answers.set()


def test_it_is_not_ready_while_maintenance_fails(app: FastAPI, hf: Holdfast, ask: Ask) -> None:
    hf.queues()
    app.state.maintenance = lambda: "the disk is full"
    assert ask("GET", "/ready", 503)["maintenance"] == "failing"


def test_it_is_not_ready_when_it_is_about_to_stop(app: FastAPI, hf: Holdfast, ask: Ask) -> None:
    hf.queues()
    app.state.stopping.set()
    assert ask("GET", "/ready", 503)["ready"] is False


def test_a_keeper_that_fails_for_a_while_says_so(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "TERM", 0.0)
    monkeypatch.setattr(keeper, "LOOK_EVERY", 0.01)
    kept = keeper.Keeper(hf, "w", lambda: None)
    fails = True

    def lead(*_: object) -> bool:
        if fails:
            raise Unavailable("it is away")
        return True

    monkeypatch.setattr(type(hf.store.leaders), "lead", lead)
    kept.start()
    until(lambda: kept.trouble() == "it is away")
    fails = False
    until(lambda: kept.trouble() is None)
    kept.stop()


def until(is_so: object) -> None:
    deadline = time.monotonic() + 60
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)
