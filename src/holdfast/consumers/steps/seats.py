"""Seats: at most so many consumers of a pool at a time, in whatever process they run. Shared by both stores."""

from __future__ import annotations

from holdfast.core.message import MessageId
from holdfast.store.api import Seat
from holdfast.store.transaction import Row, Transaction


def take(tx: Transaction, token: MessageId, tenant: str, pool: str, worker: str, most: int, term: int) -> Seat | None:
    """The lowest free number, or None if `most` seats are held."""
    tx.one("seats.hold", tenant=tenant, pool=pool)
    if tx.again:
        mine = tx.one("seats.mine", tenant=tenant, pool=pool, token=token)
        if mine is not None:
            return _seat(mine)
    found = tx.one("seats.take", tenant=tenant, pool=pool, worker=worker, most=most, term=term, token=token)
    return None if found is None else _seat(found)


def keep(tx: Transaction, tenant: str, pool: str, seat: Seat, term: int) -> bool:
    """Renews it; False if it was lost."""
    tx.one("seats.hold", tenant=tenant, pool=pool)
    return tx.run("seats.keep", tenant=tenant, pool=pool, number=seat.number, token=seat.token, term=term) > 0


def leave(tx: Transaction, tenant: str, pool: str, seat: Seat) -> bool:
    """Gives it back; False if someone else has it, or it was given back before."""
    gone = tx.run("seats.leave", tenant=tenant, pool=pool, number=seat.number, token=seat.token) > 0
    return gone or tx.again  # An earlier try, whose answer got lost, has done it.


def taken(tx: Transaction, tenant: str, pool: str) -> list[Seat]:
    """Those that are held now, by number."""
    return [_seat(row) for row in tx.all("seats.taken", tenant=tenant, pool=pool)]


def _seat(row: Row) -> Seat:
    number, worker, token, until = row
    return Seat(number, worker, MessageId(token), until)
