"""At most so many consumers of a pool at a time: the database counts, and a seat that is not kept is free again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.api import Seat
from holdfast.store.ids import new_id
from holdfast.store.verb_groups import Seats
from tests.clock import FakeClock
from tests.steps import OpenClient
from tests.stores import NO_QUEUE

pytestmark = pytest.mark.not_through_sqs(NO_QUEUE)

TERM = 30_000_000


def seats_of(hf: Holdfast) -> Seats:
    hf.queues.list()
    return internals(hf).store.seats


@pytest.fixture
def seats(hf: Holdfast) -> Seats:
    return seats_of(hf)


def sit(seats: Seats, worker: str = "anna", most: int = 3, tenant: str = "acme", pool: str = "mail") -> Seat:
    seat = seats.take(tenant, pool, worker, most, TERM)
    assert seat is not None
    return seat


def numbers(seats: Seats, tenant: str = "acme", pool: str = "mail") -> list[int]:
    return [seat.number for seat in seats.taken(tenant, pool)]


def test_seats_are_given_out_by_number_until_none_is_left(seats: Seats, clock: FakeClock) -> None:
    assert seats.taken("acme", "mail") == []
    held = [sit(seats, f"w{number}") for number in range(3)]
    assert [(seat.number, seat.worker, seat.until) for seat in held] == [
        (number + 1, f"w{number}", clock() + TERM) for number in range(3)
    ]
    assert seats.take("acme", "mail", "late", 3, TERM) is None
    assert seats.taken("acme", "mail") == held


def test_the_lowest_free_number_is_given_out_next(seats: Seats) -> None:
    held = [sit(seats) for _ in range(3)]
    assert seats.leave("acme", "mail", held[1])
    assert numbers(seats) == [1, 3]
    assert seats.leave("acme", "mail", held[0])
    assert [sit(seats).number, sit(seats).number] == [1, 2]


def test_a_seat_that_is_not_kept_lapses_and_is_taken_again(seats: Seats, clock: FakeClock) -> None:
    gone, kept = sit(seats, "gone"), sit(seats, "kept")
    clock.advance(20)
    assert seats.keep("acme", "mail", kept, TERM)
    clock.advance(9.999999)
    assert numbers(seats) == [1, 2]
    assert seats.take("acme", "mail", "next", 2, TERM) is None
    clock.advance(0.000001)
    assert numbers(seats) == [2]
    taken = sit(seats, "next", most=2)
    assert (taken.number, taken.worker) == (1, "next")
    assert taken.token != gone.token
    assert not seats.keep("acme", "mail", gone, TERM)
    assert not seats.leave("acme", "mail", gone)
    assert [seat.worker for seat in seats.taken("acme", "mail")] == ["next", "kept"]


def test_keeping_lasts_from_now_on(seats: Seats, clock: FakeClock) -> None:
    seat = sit(seats)
    for _ in range(5):
        clock.advance(29)
        assert seats.keep("acme", "mail", seat, TERM)
    assert [one.until for one in seats.taken("acme", "mail")] == [clock() + TERM]


def test_a_lapsed_seat_is_lost_even_if_nobody_took_it(seats: Seats, clock: FakeClock) -> None:
    """With `most` lowered meanwhile others may have been let in, who counted without it."""
    seat = sit(seats)
    clock.advance(30)
    assert not seats.keep("acme", "mail", seat, TERM)
    assert numbers(seats) == []


def test_another_token_cannot_keep_or_leave(seats: Seats) -> None:
    seat = sit(seats)
    forged = Seat(seat.number, seat.worker, new_id(), seat.until)
    assert not seats.keep("acme", "mail", forged, TERM)
    assert not seats.leave("acme", "mail", forged)
    assert seats.taken("acme", "mail") == [seat]


def test_left_is_left(seats: Seats) -> None:
    seat = sit(seats)
    assert seats.leave("acme", "mail", seat)
    assert not seats.leave("acme", "mail", seat)
    assert not seats.keep("acme", "mail", seat, TERM)
    assert numbers(seats) == []


def test_a_lowered_limit_counts_those_who_sit_above_it(seats: Seats) -> None:
    held = [sit(seats) for _ in range(3)]
    assert seats.leave("acme", "mail", held[0])
    assert seats.take("acme", "mail", "late", 2, TERM) is None, "2 and 3 are held: that is two"
    assert seats.keep("acme", "mail", held[2], TERM)
    assert seats.leave("acme", "mail", held[1])
    assert sit(seats, most=2).number == 1
    assert seats.take("acme", "mail", "late", 2, TERM) is None
    assert seats.leave("acme", "mail", held[2])
    assert sit(seats, most=2).number == 2
    assert seats.take("acme", "mail", "late", 0, TERM) is None


def test_a_raised_limit_lets_more_in(seats: Seats) -> None:
    assert [sit(seats, most=1).number, sit(seats, most=2).number] == [1, 2]


def test_pools_and_tenants_have_seats_of_their_own(seats: Seats) -> None:
    seat = sit(seats, most=1)
    assert sit(seats, most=1, pool="print").number == 1
    assert sit(seats, most=1, tenant="other").number == 1
    assert not seats.keep("other", "mail", seat, TERM)
    assert not seats.leave("acme", "print", seat)
    assert numbers(seats) == [1]


@pytest.fixture
def clients(client: OpenClient) -> list[Holdfast]:
    """Several, as in several processes, by the database's own clock."""
    return [client(clock=None) for _ in range(4)]


def test_twenty_threads_never_hold_more_than_three(clients: list[Holdfast]) -> None:
    """Each takes and leaves, once someone was refused; nobody ever sees a fourth beside itself, nor itself twice."""
    together, watch, refused = threading.Barrier(20), threading.Lock(), threading.Event()
    inside: set[int] = set()
    most_inside = [0]

    def work(thread: int) -> int:
        seats, mine = seats_of(clients[thread % 4]), 0
        together.wait(30)
        for _ in range(25):
            seat = seats.take("acme", "mail", f"t{thread}", 3, TERM)
            if seat is None:
                refused.set()
                continue
            with watch:
                assert seat.number not in inside
                inside.add(seat.number)
                most_inside[0] = max(most_inside[0], len(inside))
            assert refused.wait(30)
            assert seats.keep("acme", "mail", seat, TERM)
            assert len(seats.taken("acme", "mail")) <= 3
            with watch:
                inside.remove(seat.number)
            assert seats.leave("acme", "mail", seat)
            mine += 1
        return mine

    with ThreadPoolExecutor(20) as threads:
        held = sum(threads.map(work, range(20)))
    assert held > 20
    assert most_inside[0] == 3
    assert internals(clients[0]).store.seats.taken("acme", "mail") == []


def test_as_many_as_there_is_room_for_get_a_seat(clients: list[Holdfast]) -> None:
    """All come at once: exactly `most` are let in, each with a number of its own."""
    for turn in range(10):
        together = threading.Barrier(20)

        def take(thread: int, together: threading.Barrier = together, pool: str = f"p{turn}") -> Seat | None:
            seats = seats_of(clients[thread % 4])
            together.wait(30)
            return seats.take("acme", pool, f"t{thread}", 3, TERM)

        with ThreadPoolExecutor(20) as threads:
            got = [seat for seat in threads.map(take, range(20)) if seat is not None]
        assert sorted(seat.number for seat in got) == [1, 2, 3]
