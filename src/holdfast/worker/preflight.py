"""Before the first claim: a consumer whose preflight check fails is not started, and its owner is told."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence

from holdfast.client.client import internals
from holdfast.core.dead_letter import trouble_of
from holdfast.errors import HoldfastError, PreflightFailed
from holdfast.worker.consumer import Consumer

log = logging.getLogger("holdfast")


def fit(consumers: Sequence[Consumer]) -> list[Consumer]:
    """Those that may start. If none may, that is an error."""
    troubles = {consumer.name: _trouble(consumer) for consumer in consumers}
    fit = [consumer for consumer in consumers if troubles[consumer.name] is None]
    if consumers and not fit:
        raise PreflightFailed("; ".join(f"{name}: {trouble}" for name, trouble in troubles.items()))
    return fit


def objection(answer: object) -> str | None:
    """What is wrong with what a check has returned; None if nothing is."""
    if isinstance(answer, Coroutine):
        answer.close()
        return "it returned what nobody awaits"
    return "it returned False" if answer is False else None


def _trouble(consumer: Consumer) -> str | None:
    if consumer.preflight is None:
        return None
    try:
        if (said := objection(consumer.preflight())) is None:
            return None
        words = f"preflight: {said}"
    except Exception as problem:
        words = str(problem) if isinstance(problem, HoldfastError) else trouble_of(problem).error
    log.error("consumer %s is not started: %s", consumer.name, words)
    _tell(consumer, words)
    return words


def _tell(consumer: Consumer, words: str) -> None:
    """Every owner of its queues, once. There is one open notice of a name, so all but the first add whose it is."""
    hf, about = consumer.hf, consumer.name
    try:
        owners: dict[str | None, str | None] = {}
        for channel in internals(hf).catalog.channels(consumer.queues):
            owners.setdefault(channel.spec.owner, channel.name)
        if len(owners) > 1:
            owners.pop(None, None)
        for number, (owner, queue) in enumerate((owners or {None: None}).items()):
            hf.notices.report("preflight", f"{about} ({owner})" if number else about, words, queue=queue)
    except HoldfastError as problem:
        log.error("nobody could be told that the preflight check of %s failed: %s", consumer.name, problem)
