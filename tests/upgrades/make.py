"""Make the databases of a release: `python -m tests.upgrades.make 0.1`, on the commit of the release.

See README.md beside this file.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.servers import PostgresServer, installation
from tests.upgrades.filling import fill, observe

FOLDER = Path(__file__).parent
OLDEST_POSTGRES = "16"
"""The oldest in the wheel: newer servers read what its pg_dump writes."""


def main() -> None:
    folder = FOLDER / sys.argv[1]
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "work.db"
        told = {"sqlite": made(f"sqlite:///{path}")}
        (folder / "sqlite.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    with PostgresServer(version=OLDEST_POSTGRES) as server:
        told["postgres"] = made(server.url())
        with psycopg.connect(server.url()) as connection:
            # What is visible to a snapshot goes by the numbers of transactions: those in the dump must be over.
            [told["postgres"]["transactions"]] = connection.execute(
                "SELECT pg_current_xact_id()::text::bigint"
            ).fetchone() or [0]
        (folder / "postgres.sql.gz").write_bytes(gzip.compress(dump(server), mtime=0))
    (folder / "expected.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def made(url: str) -> dict[str, Any]:
    """Fill a database. Return what is needed to find everything again, and what a client shows of it."""
    clock = FakeClock()
    with ExitStack() as clients:
        client = opener(clients, url, clock)
        found = fill(client, clock)
    with ExitStack() as clients:
        found["shown"] = observe(opener(clients, url, clock), found["ids"])
    return {"now": clock(), **found}


def opener(clients: ExitStack, url: str, clock: FakeClock) -> Callable[..., Holdfast]:
    """Opens clients that live by this clock until the stack is closed."""
    return lambda **settings: clients.enter_context(
        Holdfast(url, **{"clock": clock, "actor": "ops", "sweep_every": 0, **settings})
    )


def dump(server: PostgresServer) -> bytes:
    """The database as SQL that any driver can run: psql's own commands are left out."""
    command = [
        installation(OLDEST_POSTGRES) / "bin" / "pg_dump",
        *("--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", server.url()),
    ]
    done = subprocess.run(command, check=True, capture_output=True)
    return b"".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith(b"\\"))


if __name__ == "__main__":
    main()
