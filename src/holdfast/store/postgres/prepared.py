"""Single statements, by libpq's own calls.

A cursor of psycopg's works out anew what each statement needs: which parameters it has, how each is written, whether it
was prepared. Where a message comes now and then and nothing is in the processor's caches, that takes as long as the way
to the server and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Self

import psycopg
from psycopg import errors, generators
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

MOST_PREPARED = 100
"""Statements that a connection keeps; what comes beyond is planned each time."""

_PARAMETER = re.compile(rb"%\(([a-z_]+)\)b")
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

Row = tuple[Any, ...]


class Prepared:
    """A connection's statements, each prepared when it first comes. To be used as its cursors are, outside of
    transactions: one that the server does not know any more is prepared again, and run again."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self._types = Transformer(connection)
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._count = 0
        self._answers: list[PGresult] = []

    @property
    def rowcount(self) -> int:
        return self._answers[0].command_tuples or 0

    def execute(
        self,
        query: bytes,
        parameters: Mapping[str, Any] | None = None,
        /,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        self._answers = [self._answer(query, parameters or {})]
        return self

    def executemany(self, query: bytes, parameters: Iterable[Mapping[str, Any]], /, *, returning: bool = False) -> None:
        self._answers = [self._answer(query, one) for one in parameters]

    def fetchall(self) -> list[Row]:
        answer = self._answers[0]
        self._types.set_pgresult(answer)
        return self._types.load_rows(0, answer.ntuples, tuple)

    def fetchone(self) -> Row | None:
        return next(iter(self.fetchall()), None)

    def nextset(self) -> bool | None:
        self._answers = self._answers[1:]
        return bool(self._answers) or None

    def _answer(self, query: bytes, parameters: Mapping[str, Any]) -> PGresult:
        text, names = numbered(query)
        values = self._types.dump_sequence([parameters[name] for name in names], [PyFormat.BINARY] * len(names))
        statement = query, self._types.types or ()
        name = self._names.get(statement)
        if name is not None:
            try:
                return self._run(name, values)
            except errors.InvalidSqlStatementName:  # psycopg forgets all of them after a ROLLBACK.
                self._names.clear()
        if len(self._names) < MOST_PREPARED:
            return self._run(self._prepare(statement, text), values)
        self._connection.pgconn.send_query_params(text, values, self._types.types, self._types.formats, Format.BINARY)
        return self._wait()

    def _run(self, name: bytes, values: Sequence[Buffer | None]) -> PGresult:
        self._connection.pgconn.send_query_prepared(name, values, self._types.formats, Format.BINARY)
        return self._wait()

    def _prepare(self, statement: tuple[bytes, tuple[int, ...]], text: bytes) -> bytes:
        self._count += 1
        name = b"holdfast_%d" % self._count
        self._connection.pgconn.send_prepare(name, text, statement[1])
        self._wait()
        self._names[statement] = name
        return name

    def _wait(self) -> PGresult:
        """As psycopg does it: whoever is interrupted has the statement canceled."""
        answer: PGresult = self._connection.wait(generators.execute(self._connection.pgconn))[-1]
        if answer.status not in _DONE:
            raise errors.error_from_result(answer, self._connection.info.encoding)
        return answer


@cache
def numbered(query: bytes) -> tuple[bytes, list[str]]:
    """A query whose parameters are numbers, as libpq wants it, and their names in that order."""
    names: list[str] = []

    def number(found: re.Match[bytes]) -> bytes:
        name = found[1].decode()
        if name not in names:
            names.append(name)
        return b"$%d" % (names.index(name) + 1)

    return _PARAMETER.sub(number, query).replace(b"%%", b"%"), names
