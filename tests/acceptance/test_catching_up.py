"""A group that comes late, with real processes: the rate of its past holds over kills, and nothing of it is lost."""

from collections.abc import Callable

import pytest

from holdfast import Holdfast
from tests.acceptance import history
from tests.acceptance.children import Family
from tests.acceptance.history import faults
from tests.long import only_long

Connect = Callable[..., Holdfast]

COUNT, PER, LEASE = 20, 300_000, 2_000_000


def progress(hf: Holdfast) -> tuple[int, int]:
    [late] = hf.groups.list("orders")
    return late.behind, late.past


@pytest.mark.parametrize(
    ("url", "ordering"),
    [
        ("sqlite-stdlib", "per_key"),
        ("postgres", "unordered"),
        pytest.param("sqlite-stdlib", "unordered", marks=only_long),
        pytest.param("postgres", "per_key", marks=only_long),
    ],
    indirect=["url"],
)
def test_members_are_killed_while_their_group_catches_up(
    family: Family, url: str, connect: Connect, ordering: str
) -> None:
    """Others publish at the same time. What a killed member held comes again when its lease is over, and only that.

    The first one is killed for certain before the past is through; the others when chance has it.
    """
    hf = connect(url)
    hf.topic("orders")
    before = family.start("late_publisher", url=url, topic="orders", name="before", writers=8, count=20, seed=1)
    before.finish()
    past = history.read([before.log]).sent
    rate = f"{COUNT}/{PER // 1000}ms"
    hf.subscribe("orders", "late", start="earliest", catch_up_rate=rate, ordering=ordering, lease="2s", max_attempts=99)
    assert progress(hf) == (len(past), len(past))

    first = family.start("puppet", url=url, queue="orders/late")
    assert first.ask("claim", n=7, wait=60)
    assert first.ask("settle", op="ack") == ""
    assert first.ask("claim", n=7, wait=60)
    assert 0 < progress(hf)[0] < len(past)
    first.kill()

    family.start("late_publisher", url=url, topic="orders", name="after", writers=3, count=20, seed=50)
    members = [family.start("consume", url=url, queue="orders/late", n=7) for _ in range(3)]
    for victim in members[:2]:
        family.wait_for_events(3_000, "consume", unless=lambda: progress(hf)[0] == 0)
        victim.kill()
        family.start("consume", url=url, queue="orders/late", n=7)
    family.finish()

    seen = family.history()
    assert faults(seen) == []
    assert seen.acked | seen.perhaps_acked >= seen.sent.keys()
    firsts = [grants[0].until - LEASE for id, grants in seen.grants.items() if id in past and grants[0].attempt == 1]
    starts = sorted(firsts)
    assert len(starts) > len(past) - 3 * 7
    # They are counted in the same transaction as they start in, but not at the same moment of it: a window may be lost.
    assert all(start - starts[0] >= (number // COUNT - 1) * PER for number, start in enumerate(starts))
    assert progress(hf) == (0, len(past))
