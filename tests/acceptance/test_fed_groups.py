"""Members of an ordered group, as processes that are killed, while others publish."""

from collections import defaultdict

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Child, Family
from tests.acceptance.history import History, faults

WRITERS, KEYS, ROUNDS, KILLS = 3, 4, 60, 6
EMAIL = "orders/email"

pytestmark = pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def ordered(hf: Holdfast) -> Holdfast:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", lease=1.5, max_attempts=1_000)
    hf.subscribe("orders", "audit")
    return hf


def begin(family: Family, db: str) -> list[Child]:
    url = f"{db}?engine=stdlib" if db.startswith("sqlite") else db  # They publish in transactions of sqlite3.
    more = {"writers": KEYS, "count": ROUNDS}
    return [
        family.start("late_publisher", url=url, topic="orders", name=f"w{number}.", seed=100 * number, **more)
        for number in range(WRITERS)
    ]


def test_members_that_feed_at_once_get_each_message_once_and_in_order(
    family: Family, db: str, ordered: Holdfast
) -> None:
    begin(family, db)
    for n in (1, 3, 50):
        family.start("member", url=db, group=EMAIL, n=n)
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert history.acked == history.sent.keys()
    assert len(history.sent) > WRITERS * KEYS * ROUNDS / 2
    assert {grant.attempt for grants in history.grants.values() for grant in grants} == {1}
    assert overtaken(history) == {}


def test_members_that_are_killed_lose_nothing_and_overtake_nobody(family: Family, db: str, ordered: Holdfast) -> None:
    publishers = begin(family, db)
    family.start("member", url=db, group=EMAIL, n=20)
    for _ in range(KILLS):
        victim = family.start("member", url=db, group=EMAIL, n=20)
        family.wait_for_events(8_000, "member", unless=lambda: not any(one.is_running for one in publishers))
        victim.kill()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert history.acked | history.perhaps_acked >= history.sent.keys()
    assert overtaken(history) == {}
    assert len(ordered.claim("orders/audit", n=10_000)) == len(history.sent), "the other group is owed everything"


def overtaken(history: History) -> dict[str, list[int]]:
    """The keys of which some attempt began after one of a later message."""
    begun: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for grants in history.grants.values():
        for grant in grants:
            _, key, number = grant.value.split("|")
            begun[key].append((grant.at, int(number)))
    orders = {key: [number for _, number in sorted(begins)] for key, begins in begun.items()}
    return {key: order for key, order in orders.items() if order != sorted(order)}
