"""Receipts of commands: whoever comes second under a key gets what the first one gave back. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.commands.rules import CommandKey, CommandReceipt
from holdfast.core.message import NewMessage
from holdfast.store.engine import insert
from holdfast.store.transaction import Transaction


def find(tx: Transaction, of: CommandKey) -> tuple[str, bytes | None]:
    """The key that a run is known by, and what it gave back if there was one."""
    found = tx.one("commands.find", tenant=of.tenant, command=of.command, key=of.key, id=of.message_id)
    assert found is not None, "a key is always one row"
    key, result = found
    return key, result


def begin(tx: Transaction, of: CommandKey) -> tuple[str, bytes | None]:
    """The same; without a result, the run is the caller's until its transaction ends. Waits for a rival's."""
    while True:
        key, result = find(tx, of)
        if result is not None or tx.one("commands.take", **_place(of, key), window=of.window):
            return key, result


def finish(tx: Transaction, receipt: CommandReceipt) -> None:
    """What was begun is done, if the transaction commits."""
    tx.run("commands.finish", **_place(receipt.of, receipt.of.key), result=receipt.result, window=receipt.of.window)


def keep(tx: Transaction, receipts: Sequence[CommandReceipt]) -> None:
    """Writes them in one order everywhere, so that rivals with several of them cannot wait for each other."""
    ordered = sorted(receipts, key=lambda one: (one.of.command, one.of.key))
    tx.each(
        "commands.keep",
        [{**_place(one.of, one.of.key), "result": one.result, "window": one.of.window} for one in ordered],
    )


def conclude(tx: Transaction, receipt: CommandReceipt, following: Sequence[NewMessage]) -> None:
    """Keeps what a command returned, and stores the messages that it sent."""
    keep(tx, [receipt])
    if following:
        insert.insert(tx, following)


def forget(tx: Transaction, tenant: str, limit: int) -> int:
    """Removes some whose time is over; how many."""
    return tx.run("commands.outdated", tenant=tenant, limit=limit)


def _place(of: CommandKey, key: str) -> dict[str, str]:
    return {"tenant": of.tenant, "command": of.command, "key": key}
