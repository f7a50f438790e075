"""A Redis server that has written every command to the disk before it answers, with its data in a fresh folder."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from os import getpid
from pathlib import Path

from bench.places import FOLDER
from bench.processes import Failed
from tests.servers import HOST, die_with, free_port

START_SECONDS = 20.0
SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": "", "bind": HOST, "daemonize": "no"}


@contextmanager
def redis_server() -> Iterator[str]:
    """Its URL."""
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="redis-", dir=FOLDER))
    port = free_port()
    options = [part for name, value in SETTINGS.items() for part in (f"--{name}", value)]
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--dir", folder, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(die_with, getpid()),
    )
    try:
        _wait_for(port)
        yield f"redis://{HOST}:{port}/0"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise Failed(f"redis-server did not answer within {START_SECONDS:.0f} s")
