"""The duties of maintenance.

`turn` does a bounded piece of it and returns how much it found; `SWEEP_LIMIT` or more means that there is more to do.
All duties are safe if several processes do them at once; the leader's lease only saves work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.store.api import Channel

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast


@dataclass(slots=True, eq=False)
class Duty:
    name: str
    every: float
    """Seconds between two turns, unless there is more to do."""
    turn: Callable[[Holdfast], int]


def each_channel(hf: Holdfast, work: Callable[[Channel, int], int]) -> int:
    """Do a piece of work for every queue and group of the tenant that has any, and return how much there was.

    One that fails does not keep the others from their turn: its error is raised after the last one.
    """
    done, problem = 0, None
    for channel in internals(hf).store.upkeep.due(internals(hf).catalog.readers()):
        try:
            done += work(channel, SWEEP_LIMIT)
        except Exception as raised:
            problem = problem or raised
    if problem is not None and done < SWEEP_LIMIT:
        raise problem
    return done


def reconcile_with_sqs(hf: Holdfast) -> int:
    """Look after pointers that got lost in SQS and deaths that nobody outside was told of.

    If SQS refuses, a later turn tries again; nobody waits for it.
    """
    channels = internals(hf).catalog.readers()
    if (sqs := internals(hf).transport.sqs) is not None:
        sqs.aftercare.look_after(channels, never_waits=True)
    return 0


def ring_for_what_is_due(hf: Holdfast) -> int:
    """Wake a consumer of every queue with something due, in case a wake-up was lost."""
    if due := internals(hf).store.reads.due(internals(hf).catalog.readers()):
        internals(hf).store.wakeup.ring([channel.id for channel in due])
    return 0


reaper = Duty("reaper", 1.0, lambda hf: each_channel(hf, internals(hf).store.upkeep.take_back))
"""Expired leases: the attempt counts, and the message is retried or dies."""

ageing = Duty("ageing", 1.0, lambda hf: each_channel(hf, internals(hf).store.upkeep.expire))
"""Messages past their `ttl` or `max_age`."""

history = Duty("history", 1.0, lambda hf: each_channel(hf, internals(hf).store.upkeep.prune))
"""History, results, idempotency keys and dead letters past their retention."""

liveness = Duty("liveness", 5.0, lambda hf: internals(hf).groups.watch())
"""Groups without a heartbeat for too long: nothing is kept for them any more."""

retention = Duty("retention", 1.0, lambda hf: internals(hf).groups.retain())
"""Messages of topics that every group has read, or that are past their retention."""

escalation = Duty("escalation", 5.0, lambda hf: hf.notices.escalate())
"""Unanswered notices climb, digests are delivered, callbacks are called."""

schedules = Duty("schedules", 1.0, lambda hf: hf.schedules.fire())
"""Slots that are due."""

sagas = Duty("sagas", 1.0, lambda hf: hf.sagas.advance())
"""Timeouts and waits of sagas, and the removal of ended ones."""

crew = Duty("crew", 60.0, lambda hf: internals(hf).store.crew.forget(hf.settings.tenant, SWEEP_LIMIT))
"""Consumers that have been gone for an hour are removed."""

replies = Duty("replies", 60.0, lambda hf: internals(hf).store.replies.forget(hf.settings.tenant, SWEEP_LIMIT))
"""Reply inboxes of askers that are gone, and answers that nobody fetched."""

commands = Duty("commands", 60.0, lambda hf: internals(hf).store.commands.forget(hf.settings.tenant, SWEEP_LIMIT))
"""Receipts of commands past their retention."""

deliveries = Duty("deliveries", 5.0, reconcile_with_sqs)
wakeups = Duty("wakeups", 5.0, ring_for_what_is_due)

DUTIES = (
    reaper,
    ageing,
    history,
    liveness,
    retention,
    escalation,
    schedules,
    sagas,
    crew,
    replies,
    commands,
    deliveries,
    wakeups,
)
