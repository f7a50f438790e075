"""So much for a duty to do."""

from holdfast import Holdfast
from tests.clock import FakeClock


def lapsed_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", backoff=None)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(1)
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def lapsed_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.enqueue_many("q", range(count))
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def outlived(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count))
    clock.advance(61)


def outlived_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(61)


def past(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history=60)
    hf.enqueue_many("q", range(count))
    while claims := hf.claim("q", n=1000):
        hf.ack(claims)
    clock.advance(61)


def late_notices(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.owner("mia", owner="boss", escalate_after=60)
    _report(hf, ["mia"] * count)
    clock.advance(61)


def digest_of_one(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _declare_readers_of_digests(hf, ["mia"])
    _report(hf, ["mia"] * count)
    clock.advance(61)


def digests_of_many(hf: Holdfast, clock: FakeClock, count: int) -> None:
    owners = [f"mia{number}" for number in range(count)]
    _declare_readers_of_digests(hf, owners)
    _report(hf, owners)
    clock.advance(61)


def _declare_readers_of_digests(hf: Holdfast, owners: list[str]) -> None:
    for owner in owners:
        hf.owner(owner, notify="digest", digest_every=60, escalate_after=None)


def _report(hf: Holdfast, owners: list[str]) -> None:
    for number, owner in enumerate(owners):
        hf.report("trouble", f"thing{number}", "it is broken", owner=owner)
