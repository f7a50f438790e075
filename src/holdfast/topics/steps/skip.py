"""Messages that a group skips, when it comes to them. Shared by both stores; PostgreSQL claims in its functions."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.message import MessageId
from holdfast.store.transaction import Transaction


def skipped(tx: Transaction, group: int) -> set[MessageId]:
    """What a group is done with before it came to it."""
    return {message_id for (message_id,) in tx.all("seeking.skipped", group=group)}


def pass_by(tx: Transaction, group: int, passed: Iterable[MessageId]) -> None:
    """The group has come to these, and gone on."""
    tx.each("seeking.pass_by", [{"group": group, "id": message_id} for message_id in passed])
