"""Delivery through SQS, as a role: each verb is one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.deadletter import read_history
from holdfast.core.message import MessageId, id_text
from holdfast.core.pointer import Pointer
from holdfast.store import delivering
from holdfast.store.api import Channel, ClaimRequest
from holdfast.store.delivery_api import Death, HandOver, Overdue, Taken
from holdfast.store.roles import Database
from holdfast.store.transaction import Transaction


class DeliveriesRole:
    """Messages on their way through SQS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def hand_over(self, channel: Channel, limit: int, hold: int) -> HandOver:
        """Most of those who ask find nothing: they hold up nobody."""
        if not self._database.glance(lambda tx: delivering.is_due(tx, channel)):
            return self._database.glance(lambda tx: delivering.nothing_due(tx, channel))
        return self._database.write(lambda tx: delivering.hand_over(tx, channel, limit, hold))

    def confirm(self, channel: Channel, sent: Sequence[Pointer], unsent: Sequence[Pointer], patience: int) -> int:
        return self._database.write(lambda tx: delivering.confirm(tx, channel, sent, unsent, patience))

    def claim(self, request: ClaimRequest, channel: Channel, pointers: Sequence[Pointer], limit: int) -> Taken:
        return self._database.write(lambda tx: delivering.claim(tx, request, channel, pointers, limit))

    def are_over(self, group: int, pointers: Sequence[Pointer]) -> list[bool]:
        return self._database.read(lambda tx: delivering.are_over(tx, group, pointers))

    def overdue(self, channel: Channel) -> Overdue:
        return self._database.glance(lambda tx: delivering.overdue(tx, channel))

    def wait_longer(self, channel: Channel, limit: int, patience: int) -> int:
        return self._database.write(lambda tx: delivering.wait_longer(tx, channel, limit, patience))

    def send_again(self, channel: Channel, limit: int, away: int, waiting: int = 0) -> int:
        return self._database.write(lambda tx: delivering.send_again(tx, channel, limit, away, waiting))

    def fall_back(self, channel: Channel, limit: int, away: int) -> int:
        return self._database.write(lambda tx: delivering.fall_back(tx, channel, limit, away))


class DeathsRole:
    """Deaths that someone outside is told of."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unsent(self, channel: Channel, limit: int) -> list[Death]:
        return self._database.glance(lambda tx: _unsent(tx, channel, limit))

    def sent(self, dead_ids: Sequence[MessageId]) -> None:
        self._database.write(lambda tx: tx.each("delivery.sent", [{"id": one} for one in sorted(dead_ids)]))


def _unsent(tx: Transaction, channel: Channel, limit: int) -> list[Death]:
    found = tx.all("delivery.unsent", channel=channel.id, limit=limit)
    return [_death(channel, *row) for row in found]


def _death(
    channel: Channel, dead_id: MessageId, message_id: MessageId, attempts: int, error: str, errors: bytes, at: int
) -> Death:
    history = read_history(errors)
    worker, traceback = (history[-1].worker, history[-1].traceback) if history else ("", None)
    return Death(dead_id, id_text(message_id), worker, attempts, channel.spec.max_attempts, error, traceback, at)
