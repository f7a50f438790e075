"""Topics with real processes: whoever is killed, every group gets every message of its patterns, as owed."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast import Holdfast
from holdfast.topics.rules import routing
from tests.acceptance import history
from tests.acceptance.children import Child, Family
from tests.acceptance.history import Grant, History, faults
from tests.long import size
from tests.waiting import eventually

Connect = Callable[..., Holdfast]

GROUPS = {
    "all": ["orders.**"],
    "also-all": ["orders.**"],
    "created": ["orders.*.created"],
    "europe": ["orders.eu.*"],
    "two": ["orders.us.paid", "orders.*.gone"],
    "none": ["orders.mars.**"],
    "in-order": ["orders.**"],
    "paid-in-order": ["orders.*.paid", "orders.*.gone"],
}
IN_ORDER = {"in-order", "paid-in-order"}
SLOW_AT_FIRST = ("all", "in-order")
"""Their first members are killed in the middle of their first message, for certain; all others when chance has it."""
KILLS = size(8, 24)
LEASE = 1.0


@pytest.mark.parametrize("url", ["sqlite-apsw", "sqlite-stdlib", "postgres"], indirect=True)
def test_every_group_gets_what_it_is_owed(family: Family, url: str, connect: Connect) -> None:
    """P1, P2: 20 writers that commit late or never, 8 groups, members and publishers killed: each message of a
    group's patterns is done by it, never by two at a time, and in order per key where the group says so.
    """
    hf, chance = connect(url), random.Random(20)
    hf.topic("orders")
    for name, patterns in GROUPS.items():
        order = {"ordering": "per_key"} if name in IN_ORDER else {}
        hf.subscribe("orders", name, patterns=patterns, lease=LEASE, max_attempts=1000, backoff=0, **order)
    writers = [start_writers(family, url, number) for number in range(4)]
    members: dict[str, list[Child]] = {name: [] for name in GROUPS}

    def join(name: str, pause: float = 0.002) -> None:
        members[name].append(family.start("consumer", url=url, queue=f"orders/{name}", pause=pause))

    for name in SLOW_AT_FIRST:
        join(name, pause=600)
    kill_at_work(writers[0])
    for name in SLOW_AT_FIRST:
        members[name][-1].kill_at_work()
    for name in GROUPS:
        join(name)
    for _ in range(KILLS):
        family.wait_for_events(chance.randint(1, 20_000), "consumer", unless=lambda: is_over(hf, writers))
        victim = chance.choice(list(GROUPS))
        members[victim][-1].kill()
        join(victim)
    for writer in writers[1:]:
        writer.finish()
    family.finish()

    taken_over = 0
    for name, patterns in GROUPS.items():
        seen = of_group(writers, members[name], patterns)
        assert faults(seen) == [], name
        assert seen.acked | seen.perhaps_acked >= seen.sent.keys()
        assert all(routing.matches_any(patterns, grants[0].value.split("|")[0]) for grants in seen.grants.values())
        if name in IN_ORDER:
            assert disorder(seen) == [], name
        taken_over += sum(len({grant.who for grant in grants}) > 1 for grants in seen.grants.values())
    assert taken_over, "nobody was killed at work"
    assert len(of_group(writers, members["all"], GROUPS["all"]).sent) > size(200, 500)


def start_writers(family: Family, url: str, number: int) -> Child:
    """Five in a process. Those of the first publish until they are killed."""
    url = url.replace("engine=apsw", "engine=stdlib")  # They publish in transactions of sqlite3.
    count = size(20, 40) if number else 0
    return family.start(
        "late_publisher", url=url, topic="orders", name=f"w{number}-", writers=5, count=count, seed=number
    )


def kill_at_work(writer: Child) -> None:
    """As soon as all of its threads are publishing."""

    def keys() -> set[str]:
        return {value.split("|")[1] for value in history.read([writer.log]).sent.values()}

    eventually(lambda: len(keys()) == 5, "every writer has published")
    assert writer.is_running
    writer.kill()


def is_over(hf: Holdfast, writers: list[Child]) -> bool:
    return not any(writer.is_running for writer in writers) and all(
        hf.stats(f"orders/{name}").pending == 0 for name in GROUPS
    )


def of_group(writers: list[Child], members: list[Child], patterns: list[str]) -> History:
    """What was published for a group, and what its members did with it."""
    seen = history.read([child.log for child in [*writers, *members]])
    seen.sent = {id: value for id, value in seen.sent.items() if routing.matches_any(patterns, value.split("|")[0])}
    return seen


def disorder(seen: History) -> list[tuple[Grant, Grant]]:
    """Messages that were begun before the one before them, of the same key, had ended for good.

    Who is stopped between its claim and its note until the lease is over begins nothing: that is another's by then.
    """
    by_key: dict[str, list[list[Grant]]] = {}
    begun = ([grant for grant in grants if grant.is_in_time] for grants in seen.grants.values())
    for grants in filter(None, begun):
        by_key.setdefault(grants[0].value.split("|")[1], []).append(grants)
    wrong = []
    for messages in by_key.values():
        messages.sort(key=lambda grants: int(grants[0].value.split("|")[2]))
        wrong += [(earlier[-1], later[0]) for earlier, later in pairwise(messages) if later[0].at < earlier[-1].at]
    return wrong


def test_a_long_transaction_elsewhere_delays_nothing(family: Family, postgres_url: str, connect: Connect) -> None:
    """P3: someone else's transaction, with a number of its own, stays open; what is committed arrives all the same."""
    import psycopg

    hf = connect(postgres_url)
    hf.topic("orders")
    hf.subscribe("orders", "email")
    with psycopg.connect(postgres_url) as other:
        other.execute("CREATE TEMPORARY TABLE mine (n int)")
        other.execute("SELECT pg_current_xact_id()")
        sent = [hf.publish("orders.new", number).id for number in range(100)]
        claims = eventually(lambda: hf.claim("orders", group="email", n=1000), "they arrive")
        assert [claim.message.id for claim in claims] == sent
        hf.ack(claims)
        other.rollback()
    assert hf.claim("orders", group="email") == []
