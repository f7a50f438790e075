"""What the tests of effort share: the two reports, and what is stored of them."""

from collections.abc import Callable
from typing import Any

from holdfast import Claim, Holdfast
from holdfast.budgets import spend_reports
from holdfast.budgets.rules import Effort
from holdfast.client.client import internals

Report = Callable[[Holdfast, Claim], object]
REPORTS: dict[str, Report] = {
    "spend": lambda hf, claim: spend_reports.spend(internals(hf), claim, 5),
    "act": lambda hf, claim: spend_reports.act(internals(hf), claim, "look"),
}


def known(hf: Holdfast, claim: Claim) -> Effort | None:
    """What is stored about a message, without a look at its claim."""

    def look(tx: Any) -> Effort | None:
        found = tx.one("effort.find", group=claim.lease.group, id=claim.message.raw_id)
        return found and Effort(*found[:4])

    return internals(hf).store.database.read(look)  # type: ignore[attr-defined,no-any-return]
