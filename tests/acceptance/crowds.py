"""Many processes at one queue, some of which send, and some work: each message is given out once, to one of them."""

from typing import Any

from tests.acceptance.children import Child, Family
from tests.acceptance.history import faults
from tests.waiting import eventually


def assert_each_gets_its_own(
    family: Family, url: str, workers: list[dict[str, Any]], *, senders: int, each: int, batch: int
) -> None:
    """Works off what the senders send, all at the same time; nobody ever hears of a lock."""
    working = [family.start("consume", url=url, queue="q", **ways) for ways in workers]
    early = give_each_something(family, url, working)
    for number in range(senders):
        family.start("produce", url=url, queue="q", name=str(number), count=each, batch=batch)
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked) == early + senders * each
    assert {grant.attempt for grants in history.grants.values() for grant in grants} == {1}


def give_each_something(family: Family, url: str, working: list[Child]) -> int:
    """Sends until all are at work, before the others begin: they may be through before the last one has started."""
    sender, sent = family.start("puppet", url=url, queue="q"), 0

    def are_all_at_work() -> bool:
        nonlocal sent
        sender.ask("send", value=f"early-{sent}")
        sent += 1
        return all(worker.log.exists() and worker.log.stat().st_size > 0 for worker in working)

    eventually(are_all_at_work, "each has claimed something")
    return sent
