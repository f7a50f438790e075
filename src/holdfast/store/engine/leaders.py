"""Leaders: for each duty one worker at a time, for as long as it renews its lease. Shared by both stores."""

from __future__ import annotations

from holdfast.store.transaction import Transaction


def is_settled(tx: Transaction, tenant: str, duty: str, worker: str, term: int) -> bool | None:
    """Whether this worker leads, as far as a look can tell; None if the lease is to be taken or renewed.

    It is renewed in the second half of its term: who asks twice per term keeps it, and most asking only reads. A lease
    that lasts for more than two terms was taken by a clock that was set back since: anybody may take it, or else nobody
    would lead for hours if its holder died.
    """
    found = tx.one("leaders.look", tenant=tenant, duty=duty, worker=worker)
    if found is None:
        return None
    mine, left = found
    if not 0 < left <= 2 * term:
        return None
    if mine:
        return True if left > term // 2 else None
    return False


def lead(tx: Transaction, tenant: str, duty: str, worker: str, term: int) -> bool:
    """Takes or renews the lease if it is free, lapsed, too long or this worker's own."""
    return tx.one("leaders.lead", tenant=tenant, duty=duty, worker=worker, term=term) is not None


def step_down(tx: Transaction, tenant: str, duty: str, worker: str) -> None:
    """Lets the next one lead at once."""
    tx.run("leaders.step_down", tenant=tenant, duty=duty, worker=worker)
