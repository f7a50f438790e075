"""`holdfast serve` under a service manager: what it tells systemd, over a real datagram socket."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.server.serving.loading import Sources
from holdfast.server.serving.workers import WorkerOrders, Workers
from tests.manager import Manager
from tests.server.serving.conftest import Desk
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

STUCK = """
from holdfast.server.serving.workers import Workers

Workers.stuck = lambda self: "holdfast-workers has ended"
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(str(tmp_path / "notify")) as manager:
        yield manager


def test_it_tells_of_start_reload_and_stop_and_pings_from_its_event_loop(desk: Desk, manager: Manager) -> None:
    server = desk.serve("--no-reload", **manager.environment(watchdog=0.4))
    ready = manager.next()
    assert len(server.consumers) == 1
    server.ready()
    works = f"STATUS=Serving Desk at {server.address}."
    assert ready == ["READY=1", works]
    assert server.get("health") == {"status": "ok"}
    assert [manager.next() for _ in range(3)] == [["WATCHDOG=1"]] * 3

    server.send(signal.SIGHUP)
    said = manager.until("RELOADING=1")
    assert (said[1].partition("=")[0], said[2]) == ("MONOTONIC_USEC", "STATUS=Reloading app.holdfast.")
    assert manager.until("READY=1") == ["READY=1", works]
    desk.write("queue Broken { ordering: sideways }")
    server.send(signal.SIGHUP)
    manager.until("RELOADING=1")
    assert manager.until("READY=1") == ["READY=1", f"{works} The last reload was refused: see the log."]

    desk.write(mark="!")
    module = desk.folder / "handlers.py"
    module.write_text(STUCK + module.read_text())  # What webhooks run is imported by the server.
    server.send(signal.SIGHUP)
    manager.until("STATUS=Stuck: holdfast-workers has ended")
    assert server.get("health") == {"status": "ok"}

    server.send(signal.SIGTERM)
    assert manager.until("STOPPING=1")[1] == "STATUS=Draining: requests and handlers have 30 s to finish."
    assert server.wait() == 0
    assert manager.rest() == []
    assert server.said.count("holdfast-workers has ended; the watchdog is not pinged any more") == 1


def test_consumers_that_nobody_looks_after_are_noticed() -> None:
    workers = Workers(WorkerOrders("sqlite:///no.db", "default", Sources("app.holdfast", None), 1.0))
    workers.start(wanted=False)
    assert workers.stuck() is None
    workers.ask_to_stop()  # Which ends the thread, as a fault would.
    eventually(lambda: workers.stuck() == "holdfast-workers has ended", "it is noticed")
