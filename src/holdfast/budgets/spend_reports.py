"""What an attempt costs, reported while it goes on: each report may be the one that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.budgets import rules as budgets_rules
from holdfast.budgets.rules import Effort, GiveUp, SpendLimits, Standing, Trigger
from holdfast.client import settlements
from holdfast.client.claim import Claim
from holdfast.core.message import plain_text
from holdfast.core.queue import QueueSpec
from holdfast.store.api import Channel
from holdfast.worker.outcomes import BudgetSpent, GaveUp

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

_BUDGET = budgets_rules.BUDGET_HEADER.encode()


def spend(parts: ClientParts, claim: Claim, amount: float) -> Effort:
    """Counts what the message has cost, for itself and for its queue. It stays spent, whatever becomes of the attempt.

    Raises `GaveUp` when that was too much for the message, and `BudgetSpent` when it was too much for the queue.
    """
    [settlement] = settlements.acked([claim])
    standing = parts.store.efforts.spend(settlement, budgets_rules.spending(amount))
    if standing is not None and budgets_rules.is_spent(standing.queue_spent, standing.limits.queue_budget):
        parts.starts.changed()
    return _judged(claim, standing)


def act(parts: ClientParts, claim: Claim, text: str) -> Effort:
    """Notes what is about to be done, in words. Raises `GaveUp` when it was the same too many times in a row."""
    [settlement] = settlements.acked([claim])
    return _judged(claim, parts.store.efforts.act(settlement, budgets_rules.fingerprint(text)))


def are_limited(channels: Sequence[Channel], claims: Sequence[Claim]) -> bool:
    """Whether any of these claims, from these queues, may be limited over all attempts together."""
    if [one for one in channels if _limits(one.spec)]:
        return True
    # Whatever the headers are: they are read where a handler is called, and nowhere before.
    headers = [one.message.raw_headers for one in claims if one.message.raw_headers]
    return bool([one for one in headers if isinstance(one, bytes) and _BUDGET in one])


def begin(parts: ClientParts, claims: Sequence[Claim]) -> list[Effort | None]:
    """Notes when work on messages began, where their time or budget is limited; the first time counts.

    None where there is no limit, or the claim is lost.
    """
    limited = [are_limited([claim.channel], [claim]) for claim in claims]
    chosen = [claim for claim, is_limited in zip(claims, limited, strict=True) if is_limited]
    begun = iter(parts.store.efforts.begin(settlements.acked(chosen)) if chosen else [])
    return [next(begun) if is_limited else None for is_limited in limited]


def check(claim: Claim, begun: Effort | None) -> None:
    """Before work begins: raises `GaveUp` if it need not begin, because earlier attempts have used everything up."""
    if begun is not None:
        # A new attempt has done nothing yet; and what the queue has spent stops those who spend.
        earlier = Effort(begun.started_at, begun.spent)
        _refuse(claim, Standing(earlier, 0.0, SpendLimits.of(claim.channel.spec), claim.lease.since_us))


def session(parts: ClientParts, claim: Claim) -> str | None:
    """The text that is kept with the message."""
    [settlement] = settlements.acked([claim])
    return parts.store.efforts.session(settlement)


def remember(parts: ClientParts, claim: Claim, text: str | None) -> None:
    """Keeps a text with the message, for the attempts after this one; None forgets it."""
    [settlement] = settlements.acked([claim])
    if not parts.store.efforts.remember(settlement, plain_text(text, "session")):
        settlements.refuse([claim])


def time_left(begun: Effort, spec: QueueSpec, now: int) -> float | None:
    """Seconds until the time of all attempts together is over; None where the queue does not limit it."""
    return budgets_rules.time_left(begun, spec.max_time, now)


def _limits(spec: QueueSpec) -> bool:
    return spec.max_time is not None or spec.message_budget is not None


def _judged(claim: Claim, standing: Standing | None) -> Effort:
    if standing is None:
        settlements.refuse([claim])
    assert standing is not None, "a lost claim was refused"
    _refuse(claim, standing)
    return standing.effort


def _refuse(claim: Claim, standing: Standing) -> None:
    limits = standing.limits.with_own_budget(budgets_rules.own_budget(claim.message.headers))
    found = budgets_rules.verdict(standing.effort, standing.queue_spent, limits, standing.now)
    if found is not None:
        raise _outcome(claim, found, standing)


def _outcome(claim: Claim, found: GiveUp, standing: Standing) -> GaveUp | BudgetSpent:
    if found.trigger is Trigger.QUEUE_BUDGET:
        words = budgets_rules.paused_text(claim.queue, standing.queue_spent, standing.limits)
        return BudgetSpent(words, is_first=standing.is_first)
    return GaveUp(f"gave up ({found.trigger.value}): {found.reason}")
