"""Seats of a pool, on every store: processes that come, go and are killed, and never a fourth on three seats."""

import random
from collections.abc import Callable

from holdfast import Holdfast
from tests.acceptance.children import Child, Family, eventually
from tests.acceptance.sitting import TENANT, Sitting, crowds, sittings

MOST, TERM = 3, 300_000


def test_killed_processes_leave_no_seat_taken_and_nobody_sits_too_many(
    family: Family, url: str, connect: Callable[..., Holdfast]
) -> None:
    """Four processes, six kill -9: at most three live seats in the database and in what the holders saw."""
    hf, chance = connect(url), random.Random(9)
    hf.queues()
    seats = hf.store.seats
    seen: list[int] = []

    def start() -> Child:
        return family.start("sitter", url=url, pool="mail", most=MOST, term=TERM, seed=chance.randrange(10**9))

    def look() -> bool:
        seen.append(len(seats.taken(TENANT, "mail")))
        return False

    workers = [start() for _ in range(4)]
    for _ in range(6):
        family.wait_for_events(chance.randint(1_000, 15_000), unless=look)
        victim = chance.randrange(4)
        workers[victim].kill()
        workers[victim] = start()
    family.wait_for_events(10_000, unless=look)
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
    eventually(lambda: seats.taken(TENANT, "mail") == [], "the last forgotten seat has lapsed", 10)
    assert [seat and seat.number for seat in (seats.take(TENANT, "mail", "x", MOST, TERM) for _ in range(4))] == [
        *(1, 2, 3),
        None,
    ]


def taken_over(lapsed: Sitting, found: list[Sitting]) -> bool:
    return any(later.number == lapsed.number and later.since > lapsed.since for later in found)


def test_a_crowd_is_noticed() -> None:
    sitting = [Sitting(number, "w", number * 10_000, 90_000) for number in (1, 2, 3)]
    assert crowds(sitting, 3) == []
    assert "3 at once" in crowds(sitting, 2)[0]
    assert "two on one seat" in crowds([*sitting, Sitting(1, "v", 50_000, 60_000)], 4)[0]
