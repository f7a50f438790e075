"""When to give up on a message: what it cost, how long it takes, and whether its handler goes round in circles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.core.message import clean_text
from holdfast.core.queue import LARGEST_AMOUNT, QueueSpec, amount
from holdfast.errors import InvalidInput, shown

BUDGET_HEADER = "holdfast-budget"
"""The header in which a message carries a budget of its own."""

ACTION_SHOWN = 160

_NUMBER = re.compile(r"\d+")


class Effort(msgspec.Struct, frozen=True):
    """What a message has taken so far: `spent` in all its attempts since `started_at`, the time of its first claim.

    `action` is the fingerprint of what its holder did last, `repeats` how many times in a row.
    """

    started_at: int
    spent: float = 0.0
    action: str | None = None
    repeats: int = 0

    def spending(self, amount: float) -> Effort:
        """With so much more spent."""
        return msgspec.structs.replace(self, spent=self.spent + amount)

    def doing(self, action: str, same_holder: bool) -> Effort:
        """With one more action. A retry has to do again what the attempt before it did, so it begins to count anew."""
        repeats = self.repeats + 1 if same_holder and action == self.action else 1
        return msgspec.structs.replace(self, action=action, repeats=repeats)


class SpendLimits(msgspec.Struct, frozen=True):
    """How far a message may go. None is no limit."""

    message_budget: float | None = None
    queue_budget: float | None = None
    max_time: float | None = None
    max_repeats: int | None = None

    @classmethod
    def of(cls, spec: QueueSpec) -> SpendLimits:
        """What a queue's settings say."""
        return cls(spec.message_budget, spec.budget, spec.max_time, spec.max_repeats)

    def with_own_budget(self, budget: float | None) -> SpendLimits:
        """Of a message's own budget and the one that its queue allows, the smaller one counts."""
        budgets = [one for one in (budget, self.message_budget) if one is not None]
        return msgspec.structs.replace(self, message_budget=min(budgets, default=None))


class Standing(msgspec.Struct, frozen=True):
    """How a message stood at the moment `now` of the database's clock: its effort, what its queue spent, the limits.

    `is_first` says that this report used up the queue's budget, and has paused the queue.
    """

    effort: Effort
    queue_spent: float
    limits: SpendLimits
    now: int
    is_first: bool = False


class Trigger(StrEnum):
    """Why to give up: the setting that was overstepped."""

    QUEUE_BUDGET = "budget"
    MESSAGE_BUDGET = "message_budget"
    TIME = "max_time"
    REPETITION = "max_repeats"


class GiveUp(msgspec.Struct, frozen=True):
    """No further. `reason` is for people."""

    trigger: Trigger
    reason: str


def verdict(effort: Effort, queue_spent: float, limits: SpendLimits, now: int) -> GiveUp | None:
    """Whether a limit is overstepped.

    The queue's budget comes first: it is not the message's fault, and whoever answers for the queue must hear of it.
    """
    if is_over(queue_spent, limits.queue_budget):
        return GiveUp(Trigger.QUEUE_BUDGET, _queue_spent(queue_spent, limits))
    if is_over(effort.spent, limits.message_budget):
        return GiveUp(Trigger.MESSAGE_BUDGET, f"spent {_number(effort.spent)} of {_number(limits.message_budget)}")
    if time_left(effort, limits.max_time, now) == 0:
        took = (now - effort.started_at) / 1_000_000
        reason = f"not done {_number(took)} s after its first claim; {_number(limits.max_time)} s are allowed in all"
        return GiveUp(Trigger.TIME, reason)
    if limits.max_repeats is not None and effort.repeats >= limits.max_repeats:
        return GiveUp(Trigger.REPETITION, f"did the same thing {effort.repeats} times in a row: {effort.action}")
    return None


def paused_text(queue: str, queue_spent: float, limits: SpendLimits) -> str:
    """What to say of a queue that was paused because its budget is spent, and what to do."""
    return (
        f"{_queue_spent(queue_spent, limits)}: {queue!r} is paused. Allow more with hf.queue({queue!r}, budget=…), or "
        f"begin anew with hf.queues.reset_budget({queue!r}); then hf.queues.resume({queue!r})"
    )


def _queue_spent(queue_spent: float, limits: SpendLimits) -> str:
    return f"the queue spent {_number(queue_spent)} of {_number(limits.queue_budget)}"


def is_over(spent: float, budget: float | None) -> bool:
    """Whether more was spent than there was; to the last penny is allowed."""
    return budget is not None and spent > budget


def is_spent(spent: float, budget: float | None) -> bool:
    """Whether nothing is left, so that no work on another message may begin."""
    return budget is not None and spent >= budget


def time_left(effort: Effort, max_time: float | None, now: int) -> float | None:
    """Seconds until the time of a message is over, 0 once it is; None without a limit."""
    if max_time is None:
        return None
    return max(0, effort.started_at + round(max_time * 1_000_000) - now) / 1_000_000


def fingerprint(action: str) -> str:
    """What near-identical actions have in common: neither letter case, white space nor numbers tell them apart.

    >>> fingerprint("Read  page 12") == fingerprint("read page 7")
    True
    """
    if not isinstance(action, str):
        raise InvalidInput(f"an action must be text that says what is done, not {shown(action)}")
    common = _NUMBER.sub("#", " ".join(clean_text(action).casefold().split()))
    if len(common) <= ACTION_SHOWN:
        return common
    return f"{common[:ACTION_SHOWN]}… ({blake2b(common.encode(), digest_size=8).hexdigest()})"


def spending(value: Any) -> float:
    """Checks what is reported as spent."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_AMOUNT:
        raise InvalidInput(f"what is spent must be a number from 0 to 1e15, not {shown(value)}")
    return float(value)


def own_budget(headers: Mapping[str, Any]) -> float | None:
    """The budget that a message carries. What is no such number was not written by `enqueue`, and is none."""
    if BUDGET_HEADER not in headers:
        return None
    try:
        return amount(BUDGET_HEADER, headers[BUDGET_HEADER])
    except InvalidInput:
        return None


def _number(value: float | None) -> str:
    return f"{value:.10g}"
