"""An outage: ten thousand signed alerts, a server that is killed in the middle, failures, dead letters, a replay.

At the end every alert that was accepted has become one incident, and only one.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import flood

HERE = Path(__file__).parent
QUEUE = "WebhookIngress"
PATIENCE = 120.0


def main() -> int:
    alerts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="holdfast-incidents-") as name, Outage(Path(name), alerts) as outage:
        outage.server.start()
        outage.flood()
        outage.work_off()
        outage.mend_and_replay()
        outage.server.stop()
        return outage.account()


class Outage:
    """What happens, step by step."""

    def __init__(self, folder: Path, alerts: int) -> None:
        self._folder = folder
        self._alerts = list(flood.alerts(alerts))
        self._secret = secrets.token_hex(16)
        self._catalog = folder / "catalog.txt"
        self._catalog.write_text("payments search login mail\n")
        self._sent = flood.Flood()
        with closing(sqlite3.connect(folder / "app.db")) as conn:
            conn.execute("CREATE TABLE incident (external_id TEXT, title TEXT, severity TEXT, source TEXT)")
            conn.commit()
        environment = {"PAGERDUTY_WEBHOOK_SECRET": self._secret, "CATALOG": str(self._catalog)}
        self.server = Server(folder, environment)

    def __enter__(self) -> Outage:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()

    def flood(self) -> None:
        """All alerts, over fifty connections; when half of them are in, the server is killed and started again."""
        tell(f"{len(self._alerts):,} signed alerts come in over {flood.CONNECTIONS} connections")
        half, restarting = len(self._alerts) // 2, threading.Event()

        def told(so_far: flood.Flood) -> None:
            if len(so_far.accepted) >= half and not restarting.is_set():
                restarting.set()
                tell(f"kill -9 of the server, after {len(so_far.accepted):,}; it is started again, and senders repeat")
                self.server.kill()
                threading.Thread(target=self.server.start, args=(self.server.port,)).start()

        began = time.monotonic()
        self._sent = asyncio.run(flood.send(self.server.port, "/hook/PagerDutyAlert", self._secret, self._alerts, told))
        answers = ", ".join(f"{count:,} × {status}" for status, count in sorted(self._sent.answers.items()))
        cut = f"{len(self._sent.cut)} had no answer at first, and were sent again"
        tell(f"{answers} in {time.monotonic() - began:.1f} s, the restart included; {cut}")

    def work_off(self) -> None:
        """Until nothing waits any more."""
        wait_for(lambda: self._waiting() == 0, lambda: f"{self._waiting():,} wait")
        dead = self._get(f"queues/{QUEUE}/dlq?n=1")["dead_letters"]
        tell(f"worked off; {self._dead():,} dead letters, the first: {dead[0]['error'].splitlines()[0]}")

    def mend_and_replay(self) -> None:
        """Someone adds the service, and replays what has died of its absence."""
        self._catalog.write_text("payments search login mail billing\n")
        tell("billing is added to the catalog, and all dead letters are replayed")
        self._post(f"queues/{QUEUE}/dlq/replay")
        wait_for(lambda: self._waiting() == 0 and self._dead() == 0, lambda: f"{self._dead():,} dead")

    def account(self) -> int:
        """Each alert that was accepted is one incident."""
        with closing(sqlite3.connect(self._folder / "app.db")) as conn:
            made = [row[0] for row in conn.execute("SELECT external_id FROM incident")]
        lost = self._sent.accepted.keys() - set(made)
        twice = len(made) - len(set(made))
        tell(f"accepted {len(self._sent.accepted):,}, incidents {len(made):,}, lost {len(lost)}, twice {twice}")
        fine = not lost and not twice and len(made) == len(self._alerts)
        tell("every alert has become one incident" if fine else "THIS SHOULD NOT BE")
        return 0 if fine else 1

    def _waiting(self) -> int:
        found = self._get(f"queues/{QUEUE}")
        return int(found["depth"]) + int(found["in_flight"])

    def _dead(self) -> int:
        return int(self._get(f"dlq/count?queue={QUEUE}&fresh=true")["count"])

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.server.address}/admin/{path}", timeout=30) as answer:
            return json.load(answer)

    def _post(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.server.address}/admin/{path}", b"{}", {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()


class Server:
    """`holdfast serve`, as a process."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, port: int = 0) -> None:
        holdfast = [sys.executable, "-c", "import sys; from holdfast.cli.main import main; sys.exit(main())"]
        options = {"--module": HERE / "handlers.py", "--db": f"sqlite:///{self._folder}/app.db", "--port": str(port)}
        self._process = subprocess.Popen(
            [*holdfast, "serve", HERE / "app.holdfast", *chain(*options.items()), "--log-level", "error"],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "/hook/" in line:
                self.port = int(line.split("127.0.0.1:")[1].split("/")[0])
            if line.startswith("ready"):
                break
            if port == 0:
                print(f"        {line}", end="")

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def wait_for(true: Callable[[], bool], progress: Callable[[], str]) -> None:
    """With a word now and then."""
    deadline, said = time.monotonic() + PATIENCE, time.monotonic()
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"still {progress()} after {PATIENCE:g} s")
        if time.monotonic() - said > 2:
            said = time.monotonic()
            tell(progress())
        time.sleep(0.1)


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
