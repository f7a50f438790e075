"""Renewing leases, each under its token. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import run
from holdfast.core.settlement import Settlement
from holdfast.store.transaction import Row, Transaction


def extend(tx: Transaction, claims: Sequence[Settlement], micros: int) -> list[int | None]:
    """The new end of each claim's lease; None where it is lost, `NOT_RENEWED` where it is left to run out.

    A run has one lease for all of its members.
    """
    runs = _extend_runs(tx, [claim for claim in claims if claim.member is not None], micros)
    singles = sorted(
        {(claim.lease.group, claim.message_id, claim.lease.token) for claim in claims if claim.member is None}
    )
    extended = tx.each(
        "rows.extend",
        [{"group": group, "id": message_id, "token": token, "micros": micros} for group, message_id, token in singles],
    )
    ends = {single: row[0] for single, row in zip(singles, extended, strict=True) if row is not None}
    return [
        ends.get((claim.lease.group, claim.message_id, claim.lease.token))
        if claim.member is None
        else runs.get((claim.lease.token, claim.member))
        for claim in claims
    ]


def _extend_runs(tx: Transaction, claims: list[Settlement], micros: int) -> dict[tuple[int, int | None], int]:
    """A run is renewed for those of its members that are still held, never by one that has ended."""
    held = held_members(tx, claims)
    alive = sorted({claim.lease.token for claim in held})
    renewed = tx.each("runs.extend", [{"token": token, "micros": micros} for token in alive])
    ends = {token: row[0] for token, row in zip(alive, renewed, strict=True) if row is not None}
    return {(claim.lease.token, claim.member): ends[claim.lease.token] for claim in held}


def held_members(tx: Transaction, claims: Sequence[Settlement]) -> list[Settlement]:
    """Those members of runs whose claims still hold; their runs are locked until the transaction ends."""
    tokens = sorted({claim.lease.token for claim in claims})
    locked = dict(zip(tokens, tx.each("runs.lock", [{"token": token} for token in tokens]), strict=True))
    return [claim for claim in claims if (row := locked[claim.lease.token]) and not _is_settled(row, claim)]


def _is_settled(row: Row, claim: Settlement) -> bool:
    return claim.member is None or run.is_settled(row[1], claim.member)
