"""`holdfast serve` as a process, with whatever it was told to serve."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.children import ROOT
from tests.acceptance.programs import GUARD, command_line, processes
from tests.acceptance.template import end_with

SECRET = "a secret that nobody guesses"
MAIN = "import sys; from holdfast.cli.main import main; sys.exit(main())"


class Served:
    """A server and its consumers, in a process group of their own. `said` is all that it wrote."""

    def __init__(self, folder: Path, *options: str, port: int = 0, **environment: str) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "serve", "app.holdfast", "--port", str(port), *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOOK_SECRET": SECRET, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=partial(end_with, os.getpid()),
        )
        self._is_silent = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def ready(self) -> Served:
        self.hears("ready; Ctrl-C stops")
        [line] = [line for line in self._lines if "admin API" in line]
        self.address = line.split("admin API ")[1].split("/admin")[0]
        self.port = int(self.address.rpartition(":")[2])
        return self

    def hears(self, what: str, times: int = 1) -> None:
        """Waits until it has said this."""
        with self._changed:
            self._changed.wait_for(lambda: self.said.count(what) >= times or self._is_silent, GUARD)
        assert self.said.count(what) >= times, f"never said {what!r}, but:\n{self.said}"

    @property
    def said(self) -> str:
        return "".join(self._lines)

    @property
    def consumers(self) -> list[int]:
        """The processes with consumers that are alive."""
        return [
            pid for pid in processes(self.process.pid) if b"holdfast.server.serving.worker_process" in command_line(pid)
        ]

    def deliver(self, name: str, payload: Any, **headers: str) -> httpx.Response:
        """A signed webhook."""
        body = json.dumps(payload).encode()
        signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        given = {"Content-Type": "application/json", "X-Signature": signature, **headers}
        return httpx.post(f"{self.address}/hook/{name}", content=body, headers=given, timeout=GUARD)

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.address}/{path}", timeout=GUARD).json()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once all that it and its consumers wrote has been read: they end with it."""
        code = self.process.wait(GUARD)
        self._listener.join(GUARD)
        return code

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._is_silent = True
            self._changed.notify_all()
