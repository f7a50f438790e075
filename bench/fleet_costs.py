"""What single calls cost the database of this machine, for `bench.fleet`: the time of a call, answered on loopback."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from bench.fleet import Costs
from bench.places import POSTGRES_SETTINGS
from holdfast import Claim, Holdfast
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.store.api import ClaimRequest
from tests.servers import PostgresServer

ROUNDS = 150
MANY = 50
HOLD = 60_000_000

Result = TypeVar("Result")


def measured() -> Costs:
    """Medians of a few hundred calls each, by one client that has the machine for itself."""
    with PostgresServer(POSTGRES_SETTINGS) as server, Holdfast(server.url()) as hf:
        return Costs(**_lanes(hf), **_rows(hf))


def _lanes(hf: Holdfast) -> dict[str, float]:
    hf.queue("lane")
    empty = _median(lambda: hf.claim("lane"))
    enqueue = _median(lambda: hf.enqueue("lane", 1))
    held = hf.claim("lane")

    def turn(n: int) -> None:
        nonlocal held
        held = hf.claim("lane", n=n, ack=held)

    one = _median(lambda: turn(1), ROUNDS - 10)
    hf.enqueue_many("lane", [1] * ROUNDS * MANY)
    many = _median(lambda: turn(MANY), ROUNDS - 10)
    return {
        "enqueue": enqueue,
        "empty_claim": empty,
        "claim": one,
        "per_message": max(0.0, (many - one) / (MANY - 1)),
    }


def _rows(hf: Holdfast) -> dict[str, float]:
    """The steps of a message that goes through SQS, without what SQS takes: alone, and ten at a time."""
    hf.queue("row", delivery="sqs", sqs_queue="row")
    alone, ten = _steps(hf, 1), _steps(hf, 10)
    per_row = {name: max(0.0, (ten[name] - alone[name]) / 9) for name in alone}
    return {
        "hand_over": (alone["hand_over"] + alone["confirm"]) / 2,
        "pointer_claim": alone["claim"],
        "settle": alone["settle"],
        "per_row": sum(per_row.values()) / len(per_row),
    }


def _steps(hf: Holdfast, size: int) -> dict[str, float]:
    channel, store = internals(hf).catalog.channel("row"), internals(hf).store
    times: dict[str, list[float]] = {name: [] for name in ("hand_over", "confirm", "claim", "settle")}
    for _ in range(ROUNDS):
        hf.enqueue_many("row", [1] * size)
        handed = _timed(times["hand_over"], lambda: store.deliveries.hand_over(channel, size, HOLD))
        sent = handed.pointers
        _timed(times["confirm"], lambda sent=sent: store.deliveries.confirm(channel, sent, [], HOLD))  # type: ignore[misc]
        request = ClaimRequest([channel], size, "bench")
        taken = _timed(
            times["claim"],
            lambda sent=sent, request=request: store.deliveries.claim(request, partial(Claim, hf), channel, sent, size),  # type: ignore[misc]
        )
        ended = settlements.acked(taken.grants)
        assert len(ended) == size
        _timed(times["settle"], lambda ended=ended: store.messages.settle(ended))  # type: ignore[misc]
    return {name: sorted(found)[len(found) // 2] for name, found in times.items()}


def _timed(found: list[float], call: Callable[[], Result]) -> Result:
    begun = time.perf_counter()
    result = call()
    found.append(time.perf_counter() - begun)
    return result


def _median(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return sorted(found)[rounds // 2]
