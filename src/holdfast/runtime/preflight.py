"""Before the first claim: a consumer whose preflight check fails is not started, and its owner is told."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.core.deadletter import error_text
from holdfast.errors import HoldfastError, PreflightFailed
from holdfast.runtime.consumer import Consumer

log = logging.getLogger("holdfast")


def fit(consumers: Sequence[Consumer]) -> list[Consumer]:
    """Those that may start. If none may, that is an error."""
    troubles = {consumer.name: _trouble(consumer) for consumer in consumers}
    fit = [consumer for consumer in consumers if troubles[consumer.name] is None]
    if consumers and not fit:
        raise PreflightFailed("; ".join(f"{name}: {trouble}" for name, trouble in troubles.items()))
    return fit


def _trouble(consumer: Consumer) -> str | None:
    if consumer.preflight is None:
        return None
    try:
        consumer.preflight()
    except Exception as problem:
        words = str(problem) if isinstance(problem, HoldfastError) else error_text(problem)
        log.error("consumer %s is not started: %s", consumer.name, words)
        _tell(consumer, words)
        return words
    return None


def _tell(consumer: Consumer, words: str) -> None:
    queue = consumer.queues[0] if consumer.queues else None
    try:
        consumer.hf.report("preflight", consumer.name, words, queue=queue)
    except HoldfastError as problem:
        log.error("nobody could be told that the preflight check of %s failed: %s", consumer.name, problem)
