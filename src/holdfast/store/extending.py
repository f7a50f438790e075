"""Renewing leases, each under its token. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import run
from holdfast.core.message import MessageId
from holdfast.core.settlement import Settlement
from holdfast.store.transaction import Transaction


def extend(tx: Transaction, claims: Sequence[Settlement], micros: int) -> list[int | None]:
    """The new end of each claim's lease, or None where it is lost. A run has one lease for all of its members."""
    tokens = sorted({claim.lease.token for claim in claims if claim.member is not None})
    renewed = tx.each("runs.extend", [{"token": token, "micros": micros} for token in tokens])
    runs = {token: row for token, row in zip(tokens, renewed, strict=True) if row is not None}
    singles = sorted(
        {(claim.lease.group, claim.message_id, claim.lease.token) for claim in claims if claim.member is None}
    )
    extended = tx.each(
        "rows.extend",
        [{"group": group, "id": message_id, "token": token, "micros": micros} for group, message_id, token in singles],
    )
    ends = {single: row[0] for single, row in zip(singles, extended, strict=True) if row is not None}
    return [_end(claim, runs, ends) for claim in claims]


def _end(
    claim: Settlement, runs: dict[int, tuple[int, bytes | None]], singles: dict[tuple[int, MessageId, int], int]
) -> int | None:
    if claim.member is None:
        return singles.get((claim.lease.group, claim.message_id, claim.lease.token))
    until, bits = runs.get(claim.lease.token, (None, None))
    return None if until is None or run.is_settled(bits, claim.member) else until
