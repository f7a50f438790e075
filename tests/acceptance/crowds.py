"""Many processes at one queue, some of which send, and some work: each message is given out once, to one of them."""

from typing import Any

from tests.acceptance.children import Family
from tests.acceptance.history import faults


def assert_each_gets_its_own(
    family: Family, url: str, workers: list[dict[str, Any]], *, senders: int, each: int, batch: int
) -> None:
    """Works off what the senders send, all at the same time; nobody ever hears of a lock."""
    working = [family.start("consume", url=url, queue="q", **ways) for ways in workers]
    for number in range(senders):
        family.start("produce", url=url, queue="q", name=str(number), count=each, batch=batch)
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked) == senders * each
    assert {grant.attempt for grants in history.grants.values() for grant in grants} == {1}
    assert all(worker.log.stat().st_size > 0 for worker in working)
