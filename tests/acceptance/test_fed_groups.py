"""Members of an ordered group, as processes that are killed, while others publish."""

from collections import defaultdict

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Child, Family
from tests.acceptance.history import History, faults
from tests.long import size

WRITERS, KEYS, ROUNDS, KILLS = 2, 4, size(25, 80), size(2, 4)
EMAIL = "orders/email"

pytestmark = pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def ordered(hf: Holdfast) -> Holdfast:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", lease=60, max_attempts=1_000)
    hf.subscribe("orders", "audit")
    return hf


def begin(family: Family, db: str, **more: int) -> None:
    url = f"{db}?engine=stdlib" if db.startswith("sqlite") else db  # They publish in transactions of sqlite3.
    for number in range(WRITERS):
        name, seed = f"w{number}.", 100 * number
        family.start("late_publisher", url=url, topic="orders", name=name, seed=seed, writers=KEYS, **more)


def test_members_that_feed_at_once_get_each_message_once_and_in_order(
    family: Family, db: str, ordered: Holdfast
) -> None:
    begin(family, db, count=ROUNDS)
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
    """Each is killed with messages in its hands, while others publish and work; these take them over."""
    ordered.subscribe("orders", "email", ordering="per_key", lease=1.5, max_attempts=1_000)
    victims = [family.start("puppet", url=db, queue=EMAIL) for _ in range(KILLS)]
    for victim in victims:
        victim.ask("stats")
    begin(family, db)
    family.start("member", url=db, group=EMAIL, n=20)
    for victim in victims:
        family.wait_for_events(2_000, "member")
        assert victim.ask("claim", n=20, wait=60), "nothing was left for it"
        victim.kill()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert history.acked | history.perhaps_acked >= history.sent.keys()
    assert overtaken(history) == {}
    for victim in victims:
        assert taken_over(history, victim), "whatever it held was granted to the member once more"
    owed = 0
    while claims := ordered.claim("orders/audit", n=10_000):
        owed += len(claims)
    assert owed == len(history.sent), "the other group is owed everything"


def taken_over(history: History, victim: Child) -> bool:
    """Whether someone else was granted all that it held."""
    holders = [{grant.who for grant in grants} for grants in history.grants.values()]
    left = [names for names in holders if victim.log.stem in names]
    return bool(left) and all(len(names) > 1 for names in left)


def overtaken(history: History) -> dict[str, list[int]]:
    """The keys of which some attempt began after one of a later message.

    Who is stopped between its claim and its note until the lease is over begins nothing: that is another's by then.
    """
    begun: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for grants in history.grants.values():
        for grant in filter(lambda one: one.is_in_time, grants):
            _, key, number = grant.value.split("|")
            begun[key].append((grant.at, int(number)))
    orders = {key: [number for _, number in sorted(begins)] for key, begins in begun.items()}
    return {key: order for key, order in orders.items() if order != sorted(order)}
