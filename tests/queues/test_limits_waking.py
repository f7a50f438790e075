"""Limits and those who wait: they wake up when there is room again."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, sleepers

pytestmark = pytest.mark.of_queues


@pytest.mark.parametrize("engine", ["lane", "row"])
@pytest.mark.parametrize("end", ["ack", "ack with a claim", "ack in part", "nack", "cancel", "raise"])
def test_a_sleeper_wakes_up_when_there_is_room(
    client: OpenClient, engine: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)  # Only a ring wakes it.
    hf = client(clock=None)
    hf.queue("q", concurrency=2, key_concurrency=2, lease=3600)
    hf.enqueue_many("q", range(4), key="k" if engine == "row" else None)
    held = hf.claim("q", n=2)
    asleep = sleepers(hf)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(hf.claim, "q", wait=60)
        assert asleep.acquire(timeout=20)
        if end == "ack":
            hf.ack(held)
        elif end == "ack with a claim":
            assert hf.claim("another queue", ack=held) == []
        elif end == "ack in part":
            hf.ack(held[1])
        elif end == "nack":
            hf.nack(held[0], "no", delay=60)
        elif end == "cancel":
            hf.cancel(held[0].message.id)
        else:
            hf.queue("q", concurrency=3, key_concurrency=3)
        assert len(found.result(timeout=50)) == 1


@pytest.mark.parametrize("limits", [{"rate": "1/300ms"}, {"key_rate": "1/300ms"}], ids=str)
def test_a_sleeper_wakes_up_when_the_rate_allows_it(
    client: OpenClient, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)
    hf = client(clock=None)
    hf.queue("q", **limits)
    hf.enqueue_many("q", range(3), key="k")
    began = time.monotonic()
    for number in range(3):
        [claim] = hf.claim("q", wait=3600)
        assert claim.message.body == number
    assert time.monotonic() - began >= 0.6


@pytest.mark.parametrize(
    ("limits", "due"),
    [
        ({"concurrency": 1}, 30.0),
        ({"key_concurrency": 1}, 30.0),
        ({"rate": "1/10s"}, 10.0),
        ({"key_rate": "1/20s"}, 20.0),
        ({"key_rate": "1/20s", "rate": "1/10s"}, 10.0),
        ({"concurrency": 1, "rate": "9/s"}, 30.0),
        ({"concurrency": 9}, 0.0),
        ({"key_concurrency": 9}, 0.0),
    ],
    ids=str,
)
def test_when_to_look_again(hf: Holdfast, clock: FakeClock, limits: dict[str, Any], due: float) -> None:
    """A full queue is not looked at again and again because its rows are due."""
    hf.queue("q", **limits)
    hf.enqueue_many("q", range(3), key="k", delay=1e-6)
    hf.enqueue("q", "later", delay=100)
    clock.advance(1)
    assert len(hf.claim("q")) == 1
    found = internals(hf).store.reads.next_due([internals(hf).catalog.channel("q")])
    assert found == due
    hf.queues.pause("q")
    assert internals(hf).store.reads.next_due([internals(hf).catalog.channel("q")]) == 30.0
