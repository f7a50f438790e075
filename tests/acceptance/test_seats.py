"""Seats of a pool, on every store: processes that come, go and are killed, and never a fourth on three seats."""

import random
from collections.abc import Callable

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.children import Child, Family
from tests.acceptance.sitting import TENANT, Sitting, crowds, sittings
from tests.waiting import eventually

MOST, TERM = 3, 300_000


def test_killed_processes_leave_no_seat_taken_and_nobody_sits_too_many(
    family: Family, url: str, connect: Callable[..., Holdfast]
) -> None:
    """Four processes, six kill -9: at most three live seats in the database and in what the holders saw."""
    hf, chance = connect(url), random.Random(9)
    hf.queues.list()
    seats = internals(hf).store.seats
    seen: list[int] = []

    def start() -> Child:
        return family.start("sitter", url=url, pool="mail", most=MOST, term=TERM, seed=chance.randrange(10**9))

    def look() -> bool:
        seen.append(len(seats.taken(TENANT, "mail")))
        return False

    workers = [start() for _ in range(4)]
    for _ in range(6):
        family.wait_for_events(chance.randint(1_000, 4_000), unless=look)
        victim = chance.randrange(4)
        workers[victim].kill()
        workers[victim] = start()
    eventually(lambda: look() or has_shown_enough(family, seen), "all seats were taken, forgotten and taken over")
    family.finish()

    history = family.history()
    found = sittings(history.events)
    assert history.errors() == []
    assert max(seen) == MOST
    assert crowds(found, MOST) == []
    assert {sitting.number for sitting in found} == {1, 2, 3}
    forgotten = [sitting for sitting in found if not sitting.left]
    assert len(forgotten) > 3
    assert any(taken_over(one, found) for one in forgotten)
    eventually(lambda: seats.taken(TENANT, "mail") == [], "the last forgotten seat has lapsed")
    assert [seat and seat.number for seat in (seats.take(TENANT, "mail", "x", MOST, TERM) for _ in range(4))] == [
        *(1, 2, 3),
        None,
    ]


def has_shown_enough(family: Family, seen: list[int]) -> bool:
    """Whether what the test asserts to have happened has happened; it goes on until then."""
    found = sittings(family.history().events)
    forgotten = [sitting for sitting in found if not sitting.left]
    return (
        max(seen) == MOST
        and {sitting.number for sitting in found} == {1, 2, 3}
        and len(forgotten) > 8  # Four of them may not have ended yet.
        and any(taken_over(one, found) for one in forgotten)
    )


def taken_over(lapsed: Sitting, found: list[Sitting]) -> bool:
    return any(later.number == lapsed.number and later.since > lapsed.since for later in found)


def test_a_crowd_is_noticed() -> None:
    sitting = [Sitting(number, "w", number * 10_000, 90_000) for number in (1, 2, 3)]
    assert crowds(sitting, 3) == []
    assert "3 at once" in crowds(sitting, 2)[0]
    assert "two on one seat" in crowds([*sitting, Sitting(1, "v", 50_000, 60_000)], 4)[0]
