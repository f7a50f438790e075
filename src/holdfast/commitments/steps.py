"""How the checks of commitments went, kept with the message. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.budgets.steps import reports
from holdfast.commitments.rules import CommitmentResult
from holdfast.core.message import MessageId
from holdfast.core.settlement import Settlement
from holdfast.store.transaction import Transaction


def keep(tx: Transaction, claim: Settlement, results: Sequence[CommitmentResult]) -> bool:
    """Writes down what an attempt has come to; False if the claim is lost, and someone else's word counts."""
    if not reports.holding(tx, [claim]):
        return False
    tx.run("commitments.forget", id=claim.message_id, attempt=claim.attempt)
    tx.each(
        "commitments.keep",
        [
            {
                "id": claim.message_id,
                "attempt": claim.attempt,
                "place": place,
                "group": claim.lease.group,
                "name": result.name,
                "passed": result.passed,
                "code": result.code,
                "output": result.output,
            }
            for place, result in enumerate(results)
        ],
    )
    return True


def of(tx: Transaction, tenant: str, message_id: MessageId) -> list[CommitmentResult]:
    """All of a message, in the order in which they were checked."""
    found = tx.all("commitments.list", tenant=tenant, id=message_id)
    return [
        CommitmentResult(name, bool(passed), code, output, attempt, checked_at)
        for name, passed, code, output, attempt, checked_at in found
    ]


def prune(tx: Transaction, group: int, limit: int) -> int:
    """Removes those whose time is over, unless the message is not: then they are looked at again later."""
    gone = 0
    for (message_id,) in tx.all("commitments.outdated", group=group, limit=limit):
        if tx.one("commitments.is_wanted", group=group, id=message_id):
            tx.one("commitments.prolong", group=group, id=message_id)
        else:
            gone += tx.run("commitments.remove", group=group, id=message_id)
    return gone
