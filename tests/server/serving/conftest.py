"""A folder with a spec and a module, and what serves them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.server.serving.served import Served

SPEC = """
app Desk {{
  queue Tickets {{
    message_type {{ payload: json headers: map<string, string> source_ip: string received_at: time }}
    delivery {{ max_attempts: 2 initial_backoff_ms: 50 max_backoff_ms: 100 dead_letter_queue: Graves }}
    map_to: command Ticket.Open {{ title: payload.title }}
  }}
  queue Graves {{}}
  webhook Alerts {{
    queue: Tickets
    idempotency_key: payload.id
    verify_hmac {{ header: "X-Signature" secret_env: "HOOK_SECRET" }}
  }}
  webhook Direct {{
    command: Ticket.Open {{ title: payload.title }}
    verify_hmac {{ header: "X-Signature" secret_env: "HOOK_SECRET" }}
  }}
  {more}
}}
"""

MODULE = """
import os, pathlib, time

LOG = pathlib.Path(__file__).with_name("opened.txt")

def register(hf):
    @hf.command("Ticket.Open")
    def open_ticket(title: str):
        if title == "impossible":
            raise RuntimeError("this can never be done")
        if title == "slow":
            LOG.with_name("begun.txt").touch()
            while not LOG.with_name("go.txt").exists():
                time.sleep(0.01)
        if title == "deadly":
            os.kill(os.getpid(), 9)
        with LOG.open("a") as log:
            log.write(title + "{mark}\\n")
        return {{"opened": title}}
"""


class Desk:
    """The files, and the processes that serve them."""

    def __init__(self, folder: Path, db: str) -> None:
        self.folder = folder
        self.db = db
        self._running: list[Served] = []
        self.write()

    def write(self, more: str = "", mark: str = "") -> None:
        self.replace("app.holdfast", SPEC.format(more=more))
        self.replace("handlers.py", MODULE.format(mark=mark))

    def replace(self, name: str, text: str) -> None:
        """At once: a server that watches the file never sees half of it."""
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.replace(self.folder / name)

    def serve(self, *options: str, port: int = 0, **environment: str) -> Served:
        served = Served(self.folder, "--db", self.db, "--module", "handlers.py", *options, port=port, **environment)
        self._running.append(served)
        return served

    @property
    def opened(self) -> list[str]:
        log = self.folder / "opened.txt"
        return log.read_text().split() if log.exists() else []

    def end(self) -> None:
        for served in self._running:
            served.end()


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/desk.db"


@pytest.fixture
def desk(tmp_path: Path, db: str) -> Iterator[Desk]:
    desk = Desk(tmp_path, db)
    yield desk
    desk.end()


@pytest.fixture
def look(db: str) -> Iterator[Callable[[], Holdfast]]:
    """A client of the same database, once there is one."""
    opened: list[Holdfast] = []

    def look() -> Holdfast:
        opened.append(Holdfast(db))
        return opened[-1]

    yield look
    for client in opened:
        client.close()
