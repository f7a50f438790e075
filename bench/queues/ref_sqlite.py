"""ref-sqlite: a bare table on apsw, one row per message with a state and a lease. No retry, priority or dead letter.

There is no index beside the primary key: acked rows are gone and only the few leased ones are passed over, so the scan
for ready rows starts where they are. A lease that ran out is taken back once nothing is ready. Who waits sleeps at a
socket beside the file, and an enqueue that rings sends a datagram there.
"""

import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import apsw
import msgspec

LEASE = 300.0
Row = tuple[int, bytes]

_TABLE = """
CREATE TABLE IF NOT EXISTS job (
    id    INTEGER PRIMARY KEY,
    state INTEGER NOT NULL DEFAULT 0,
    until REAL,
    body  BLOB NOT NULL
)"""
_PUT = "INSERT INTO job (body) VALUES (?)"
_CLAIM = """
UPDATE job SET state = 1, until = ?
WHERE id IN (SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT ?)
RETURNING id, body"""
_ACK = "DELETE FROM job WHERE id = ?"
_EXPIRE = "UPDATE job SET state = 0 WHERE state = 1 AND until < ?"

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class RefSqlite:
    def __init__(self, url: str, rings: bool = False) -> None:
        path = url.removeprefix("sqlite:///")
        self._connection = apsw.Connection(path)
        self._connection.set_busy_handler(_wait_for_the_lock)
        # Otherwise SQLite plans the claim anew for every value of its LIMIT.
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._execute = self._connection.execute
        self._looked_for_expired = 0.0
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _TABLE):
            self._insist(statement)
        self._rings = rings
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._bell, self._is_bound = path + "-bell", False

    def _insist(self, statement: str) -> None:
        """Two that open a new file at once are told that it is busy, whatever a handler says."""
        while True:
            with suppress(apsw.BusyError):
                self._execute(statement)
                return
            _wait_for_the_lock(0)

    def enqueue(self, body: Any) -> None:
        self._execute(_PUT, (encode(body),))
        if self._rings:
            with suppress(OSError):  # Nobody sleeps.
                self._socket.sendto(b"!", self._bell)

    def enqueue_many(self, bodies: Sequence[Any]) -> None:
        self._execute("BEGIN IMMEDIATE")
        self._connection.executemany(_PUT, [(encode(body),) for body in bodies])
        self._execute("COMMIT")

    def claim(self, n: int, ack: Sequence[Row] = (), wait: float = 0) -> list[Row]:
        deadline = time.monotonic() + wait
        while True:
            found = self._claim(n, ack)
            if found or time.monotonic() >= deadline:
                return found
            ack = ()
            self._sleep(deadline - time.monotonic())

    def ack(self, claims: Sequence[Row]) -> None:
        self._execute("BEGIN IMMEDIATE")
        self._connection.executemany(_ACK, [(number,) for number, _ in claims])
        self._execute("COMMIT")

    def bodies(self, claims: Sequence[Row]) -> list[Any]:
        return [decode(body) for _, body in claims]

    def left(self) -> int:
        return int(self._execute("SELECT count(*) FROM job").fetchall()[0][0])  # type: ignore[arg-type]

    def close(self) -> None:
        self._socket.close()
        self._connection.close()

    def _sleep(self, longest: float) -> None:
        """Until someone rings; not the first time, since somebody may have just done so."""
        if not self._is_bound:
            self._socket.bind(self._bell)
            self._is_bound = True
            return
        select.select([self._socket], [], [], max(longest, 0))
        with suppress(BlockingIOError):
            while self._socket.recv(16):
                pass

    def _claim(self, n: int, ack: Sequence[Row]) -> list[Row]:
        now = time.time()
        self._execute("BEGIN IMMEDIATE")
        if ack:
            self._connection.executemany(_ACK, [(number,) for number, _ in ack])
        found: list[Any] = self._execute(_CLAIM, (now + LEASE, n)).fetchall()
        if not found and now - self._looked_for_expired > 1:
            self._looked_for_expired = now
            self._execute(_EXPIRE, (now,))
        self._execute("COMMIT")
        return found


def _wait_for_the_lock(_: int) -> bool:
    time.sleep(0.0002)
    return True
