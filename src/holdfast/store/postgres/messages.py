"""The life of messages on PostgreSQL: what one statement can do is not wrapped in a transaction of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from holdfast.core.message import Duplicate, Lease, NewMessage
from holdfast.core.settlement import Settlement, each_acked
from holdfast.errors import StoreError
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Granted, Make
from holdfast.store.engine import expire_leases, history
from holdfast.store.engine import extend as extending
from holdfast.store.engine import insert as inserting
from holdfast.store.postgres import claim as claiming
from holdfast.store.postgres.connection import PostgresDatabase
from holdfast.store.postgres.errors import wants_a_closer_look


class PostgresMessages:
    """In, claimed, settled."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        if claiming.is_one_append_once(new):
            try:
                return self._database.single(lambda tx: claiming.append_once(tx, new))
            except StoreError as problem:
                if not wants_a_closer_look(problem.__cause__):
                    raise
        elif claiming.is_one_append(new):
            if not new[0].limited:
                self._database.single(partial(claiming.append, new=new))
                return [None] * len(new)
            if self._database.single(lambda tx: claiming.append_if_room(tx, new)):
                return [None] * len(new)
        return self._take_in(new)

    def claim(self, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
        if not request.ack and not request.done:
            return self._database.single(partial(claiming.claim, request=request, make=make))
        whole = claiming.whole_runs(request.ack, request.done)
        split = [one for one in request.ack if one.lease.token not in whole]
        applied = iter(self._settle(split))
        closed, claimed = self._database.single(lambda tx: claiming.close_and_claim(tx, request, make, whole))
        late = [one for one in request.ack if one.lease.token in whole and one.lease.token not in closed]
        applied_late = iter(self._settle(late))
        acked = []
        for one in request.ack:
            if one.lease.token in closed:
                acked.append(True)
            else:
                acked.append(next(applied_late if one.lease.token in whole else applied))
        lost = [[] if lease.token in closed else self._finish(lease) for lease in request.done]
        return ClaimResult(claimed.grants, acked, lost, claimed.silent)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Runs that are acked whole are closed by one statement; of the others one at a time is one statement too."""
        closed: set[int] = set()
        if whole := claiming.whole_runs(settlements):
            closed = self._database.single(lambda tx: claiming.close_whole(tx, whole, settlements))
        left = [settlement for settlement in settlements if settlement.lease.token not in closed]
        applied = iter(self._settle(left))
        return [settlement.lease.token in closed or next(applied) for settlement in settlements]

    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]:
        return self._database.write(lambda tx: extending.extend(tx, settlements, micros))

    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int:
        if worker is None and not self._database.glance(lambda tx: history.is_due(tx, channel)):
            return 0
        return self._database.write(lambda tx: expire_leases.sweep(tx, channel, limit, worker))

    def _take_in(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        """Step by step. Messages past their time, in whose place these are, end in a transaction of their own."""
        stored, overdue = self._database.write(lambda tx: (inserting.insert(tx, new), tx.overdue))
        for group in overdue:
            with suppress(StoreError):  # What is stored is stored; somebody else will end them.
                self._database.write(
                    partial(expire_leases.expire_group, group=group, limit=expire_leases.MOST_MADE_ROOM_FOR)
                )
        return stored

    def _finish(self, lease: Lease) -> list[int]:
        """A run that could not be closed whole; the places that were not its own any more."""
        return [member for member, held in enumerate(self._settle(each_acked([lease]))) if not held]

    def _settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if not settlements:
            return []
        parts = claiming.splits(settlements)
        simple = len(parts) == 1 and len(parts[0].indices) == len(settlements)
        run = self._database.single if simple else self._database.write
        return run(lambda tx: claiming.settle(tx, settlements))
