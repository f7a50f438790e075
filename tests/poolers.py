"""Debian's PgBouncer in transaction mode, in front of a server of the tests."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg
import pytest

import dev
from tests.servers import HOST, die_with, free_port, unprivileged

UNPACKED = Path(sys.prefix) / "pgbouncer"
"""Where dev.py puts it on a machine that has none."""

MISSING = """PgBouncer could not be downloaded for the tests: see .dev-setup.log. By hand: apt-get install pgbouncer, or
HOLDFAST_TEST_PGBOUNCER=/path/to/pgbouncer."""

SETTINGS = {
    "listen_addr": HOST,
    "unix_socket_dir": "",
    "auth_type": "any",
    "admin_users": "postgres",
    "pool_mode": "transaction",
    "max_client_conn": "300",
    "default_pool_size": "8",
    # The next transaction of a client is run by another session, whenever there is one.
    "server_round_robin": "1",
    "server_login_retry": "1",
}


class Pooler:
    """Sessions of one server, shared by all who come. `settings` adds to, or overrides, those above."""

    def __init__(self, server_port: int, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.server_port = server_port
        self.settings = {**SETTINGS, **(settings or {}), "listen_port": str(self.port)}
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pooler-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str, direct: bool = False) -> str:
        """As users write it; with the server's own address beside it, if wanted."""
        pooled = f"postgresql://postgres@{HOST}:{self.port}/{database}?pooler=transaction"
        own = f"postgresql://postgres@{HOST}:{self.server_port}/{database}"
        return f"{pooled}&direct={quote(own, safe='')}" if direct else pooled

    def show(self, what: str) -> list[dict[str, Any]]:
        """What its console says: `pools`, `servers`, `stats`."""
        with psycopg.connect(
            f"postgresql://postgres@{HOST}:{self.port}/pgbouncer",
            autocommit=True,
            cursor_factory=psycopg.ClientCursor,
            row_factory=psycopg.rows.dict_row,
        ) as console:
            return console.execute(f"SHOW {what}").fetchall()

    def _start(self) -> None:
        insist()
        program, environment = hand_over(found(), self._folder)
        lines = [f"{name} = {value}" for name, value in self.settings.items()]
        server = f"* = host={HOST} port={self.server_port} user=postgres"
        config = self._folder / "pgbouncer.ini"
        config.write_text("\n".join(["[databases]", server, "[pgbouncer]", *lines, ""]))
        self._folder.chmod(0o755)
        config.chmod(0o644)
        with (self._folder / "log").open("wb") as log:
            options = unprivileged()
            self._process = subprocess.Popen(
                [program, config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(die_with, os.getpid()),
                **{**options, "env": {**options["env"], **environment}},
            )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 30
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection((HOST, self.port), 1).close()
            except OSError:
                time.sleep(0.02)  # sleeps: a pooler that is starting; the loop has its own deadline
            else:
                return
        raise RuntimeError(f"PgBouncer did not start:\n{(self._folder / 'log').read_text(errors='replace')}")


def found() -> Path:
    """The program: one that was named, that of the machine, or the one that dev.py has fetched."""
    named = os.environ.get("HOLDFAST_TEST_PGBOUNCER")
    installed = named or shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return Path(installed or UNPACKED / "usr/sbin/pgbouncer")


def is_there() -> bool:
    """Whether there is one."""
    return found().exists()


def insist() -> None:
    """Fetch one if there is none. Only where that fails, the tests behind a pooler are skipped."""
    if not is_there():
        dev.fetch_pooler()
    if not is_there():
        pytest.skip(MISSING)


def hand_over(program: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """One that was only unpacked goes, with its libraries, to where an unprivileged user can reach it."""
    if not program.is_relative_to(UNPACKED):
        return program, {}
    for file in [program, *UNPACKED.rglob("*.so.*")]:
        shutil.copy(file, folder / file.name)
    (folder / program.name).chmod(0o755)
    return folder / program.name, {"LD_LIBRARY_PATH": str(folder)}
