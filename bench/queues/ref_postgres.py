"""ref-pg: a bare table on psycopg, one row per message with a state and a lease. No retry, priority or dead letter.

The acks of a round go before its claim, in a statement of their own: in one statement the two can deadlock. Who waits
listens on a connection of its own, and an enqueue that rings notifies in its transaction.
"""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

LEASE = 300.0
Row = tuple[int, bytes]

_TABLE = """
CREATE TABLE IF NOT EXISTS job (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0,
    until timestamptz,
    body  bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS job_ready ON job (id) WHERE state = 0"""
_PUT = "INSERT INTO job (body) VALUES (%b)"
_PUT_AND_RING = "WITH put AS (INSERT INTO job (body) VALUES (%b)) SELECT pg_notify('job', '')"
_PUT_MANY = "INSERT INTO job (body) SELECT unnest(%b::bytea[])"
_CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT %b FOR UPDATE SKIP LOCKED
)
UPDATE job SET state = 1, until = clock_timestamp() + %b * interval '1 second'
FROM picked WHERE job.id = picked.id
RETURNING job.id, job.body"""
_ACK = "DELETE FROM job WHERE id = ANY(%b)"
_EXPIRE = "UPDATE job SET state = 0 WHERE state = 1 AND until < clock_timestamp()"

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class RefPostgres:
    def __init__(self, url: str, rings: bool = False) -> None:
        self._url = url
        self._put = _PUT_AND_RING if rings else _PUT
        self._ear: psycopg.Connection[Any] | None = None
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._cursor = self._connection.cursor(binary=True)
        self._execute = self._cursor.execute
        self._looked_for_expired = 0.0
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(1)")
            self._connection.execute(_TABLE, prepare=False)

    def enqueue(self, body: Any) -> None:
        self._execute(self._put, (encode(body),))

    def enqueue_many(self, bodies: Sequence[Any]) -> None:
        self._execute(_PUT_MANY, ([encode(body) for body in bodies],))

    def claim(self, n: int, ack: Sequence[Row] = (), wait: float = 0) -> list[Row]:
        deadline = time.monotonic() + wait
        while True:
            found = self._ack_and_claim(n, ack) if ack else self._claim(n)
            if found or time.monotonic() >= deadline:
                return found
            ack = ()
            self._take_back_expired()
            self._sleep(deadline - time.monotonic())

    def ack(self, claims: Sequence[Row]) -> None:
        self._execute(_ACK, ([number for number, _ in claims],))

    def bodies(self, claims: Sequence[Row]) -> list[Any]:
        return [decode(body) for _, body in claims]

    def left(self) -> int:
        return int(self._execute("SELECT count(*) FROM job").fetchall()[0][0])

    def close(self) -> None:
        if self._ear is not None:
            self._ear.close()
        self._connection.close()

    def _sleep(self, longest: float) -> None:
        """Until someone rings; not the first time, since somebody may have just done so."""
        if self._ear is None:
            self._ear = psycopg.connect(self._url, autocommit=True)
            self._ear.execute("LISTEN job")
            return
        for _ in self._ear.notifies(timeout=max(longest, 0), stop_after=1):
            pass

    def _claim(self, n: int) -> list[Row]:
        return self._execute(_CLAIM, (n, LEASE)).fetchall()

    def _ack_and_claim(self, n: int, ack: Sequence[Row]) -> list[Row]:
        self._execute("BEGIN")
        self.ack(ack)
        found = self._claim(n)
        self._execute("COMMIT")
        return found

    def _take_back_expired(self) -> None:
        if time.monotonic() - self._looked_for_expired > 1:
            self._looked_for_expired = time.monotonic()
            self._execute(_EXPIRE)
