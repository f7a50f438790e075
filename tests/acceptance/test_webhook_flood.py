"""A flood of webhooks over fifty connections, and a server that is killed in the middle of it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import Holdfast, State
from tests.acceptance.children import ROOT
from tests.long import size
from tests.server.serving.served import SECRET, Served
from tests.waiting import eventually

ALERTS = size(500, 2000, "HOLDFAST_ALERTS")
PATIENCE = 600.0

SPEC = """
app Desk {
  queue Alerts {
    message_type { payload: json }
    delivery { lease: 3s max_attempts: 20 }
    map_to: command Alert.Log { number: payload.incident.id }
  }
  consumer alerts { queues: [Alerts] concurrency: 8 }
  webhook PagerDuty {
    queue: Alerts
    idempotency_key: payload.incident.id
    verify_hmac { header: "X-PagerDuty-Signature" secret_env: "HOOK_SECRET" }
  }
}
"""

MODULE = """
import os

LOG = os.open("log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def register(hf):
    @hf.command("Alert.Log")
    def log(number: str, context):
        os.write(LOG, f"{context.message.id} {context.attempt} {number}\\n".encode())
"""


class Desk:
    """A server that can be killed, with all that belongs to it, and is then started again at the same port.

    A socket that never listens keeps the port while no server has it. Otherwise someone could get it in between: even a
    sender, which connects to itself when the system happens to choose that port for its own end.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port: int = self._kept.getsockname()[1]
        (folder / "app.holdfast").write_text(SPEC)
        (folder / "handlers.py").write_text(MODULE)
        self._folder, self._url = folder, url
        self._server = self._served()
        self._server.ready()

    def _served(self) -> Served:
        return Served(self._folder, "--db", self._url, "--module", "handlers.py", port=self.port)

    def kill_and_start(self) -> None:
        self._kill()
        self._server = self._served()

    def end(self) -> None:
        self._kill()
        self._kept.close()

    def _kill(self) -> None:
        os.killpg(self._server.process.pid, signal.SIGKILL)
        self._server.process.wait()

    @property
    def log(self) -> list[tuple[str, int, str]]:
        """What the command was run for: the message, the attempt, the alert."""
        lines = (self._folder / "log.txt").read_text().splitlines()
        return [(id, int(attempt), number) for id, attempt, number in map(str.split, lines)]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else f"sqlite:///{tmp_path}/d.db"


@pytest.fixture
def desk(tmp_path: Path, url: str) -> Iterator[Desk]:
    desk = Desk(tmp_path, url)
    yield desk
    desk.end()


@pytest.fixture
def flood(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The senders of `examples/incidents`, who repeat what was not answered."""
    spec = importlib.util.spec_from_file_location("flood", ROOT / "examples" / "incidents" / "flood.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "flood", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PATIENCE", PATIENCE)
    return module


def test_what_was_accepted_is_worked_on_once_per_attempt_whatever_is_killed(
    desk: Desk, url: str, flood: ModuleType
) -> None:
    killed: list[bool] = []

    def told(so_far: object) -> None:
        if len(so_far.accepted) >= ALERTS // 2 and not killed:  # type: ignore[attr-defined]
            killed.append(True)
            desk.kill_and_start()  # Not in a thread: what it starts ends with the thread that started it.

    sent = asyncio.run(flood.send(desk.port, "/hook/PagerDuty", SECRET, list(flood.alerts(ALERTS)), told))
    assert killed
    assert len(sent.accepted) == ALERTS
    assert {len(ids) for ids in sent.accepted.values()} == {1}, "an alert has one id, however often it was delivered"
    ids = {number: id for number, (id,) in sent.accepted.items()}
    with Holdfast(url) as hf:
        _wait_until_all_is_done(hf)
        assert all(hf.status(id).state == State.SUCCEEDED for id in ids.values())  # type: ignore[union-attr]
    log = desk.log
    assert {number: id for id, _, number in log} == ids, "all were worked on, and nothing else"
    runs = Counter((id, attempt) for id, attempt, _ in log)
    assert [run for run, times in runs.items() if times > 1] == []
    repeated = len(log) - len(ids)
    print(f"{ALERTS:,} alerts, {len(sent.cut)} cut off, {repeated} run again after the kill")


def _wait_until_all_is_done(hf: Holdfast) -> None:
    def is_done() -> bool:
        stats = hf.stats("Alerts")
        return stats.pending + stats.processing == 0

    eventually(is_done, "all alerts are done", within=PATIENCE)
