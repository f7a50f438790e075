"""The life of messages on SQLite: each verb is one transaction, and most enqueues are one statement."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.settlement import Settlement
from holdfast.errors import StoreError
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Granted, Make
from holdfast.store.engine import expire_leases, history
from holdfast.store.engine import extend as extending
from holdfast.store.engine import insert as inserting
from holdfast.store.engine import settle as settling
from holdfast.store.sqlite import claim as claiming
from holdfast.store.sqlite.connection import SqliteDatabase
from holdfast.store.sqlite.errors import wants_a_closer_look


class SqliteMessages:
    """In, claimed, settled."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        if claiming.is_one_append(new):
            try:
                self._database.single(partial(claiming.append, new=new))
                return [None] * len(new)
            except StoreError as problem:
                if not wants_a_closer_look(problem.__cause__):
                    raise
        return self._take_in(new)

    def claim(self, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
        return self._database.write(partial(claiming.claim, request=request, make=make))

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self._database.write(lambda tx: settling.settle(tx, settlements))

    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]:
        return self._database.write(lambda tx: extending.extend(tx, settlements, micros))

    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int:
        if worker is None and not self._database.glance(lambda tx: history.is_due(tx, channel)):
            return 0
        return self._database.write(lambda tx: expire_leases.sweep(tx, channel, limit, worker))

    def _take_in(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        """Step by step. Messages past their time, in whose place these are, end in a transaction of their own."""
        stored, overdue = self._database.accept(lambda tx: (inserting.insert(tx, new), tx.overdue))
        for group in overdue:
            with suppress(StoreError):  # What is stored is stored; somebody else will end them.
                self._database.write(
                    partial(expire_leases.expire_group, group=group, limit=expire_leases.MOST_MADE_ROOM_FOR)
                )
        return stored
