"""For each duty one leader at a time, by the database's clock; asking is cheap for everyone else."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.verb_groups import Leaders
from tests.clock import FakeClock
from tests.steps import OpenClient
from tests.stores import NO_QUEUE

pytestmark = pytest.mark.not_through_sqs(NO_QUEUE)

TERM = 30_000_000


def leaders_of(hf: Holdfast) -> Leaders:
    hf.queues.list()
    return internals(hf).store.leaders


@pytest.fixture
def leaders(hf: Holdfast) -> Leaders:
    return leaders_of(hf)


def leads(leaders: Leaders, worker: str, duty: str = "maintain", tenant: str = "acme") -> bool:
    return leaders.lead(tenant, duty, worker, TERM)


def test_the_first_one_leads_until_its_lease_is_over(leaders: Leaders, clock: FakeClock) -> None:
    assert leads(leaders, "anna")
    assert not leads(leaders, "ben")
    clock.advance(29.999999)
    assert not leads(leaders, "ben")
    clock.advance(0.000001)
    assert leads(leaders, "ben")
    assert not leads(leaders, "anna")


def test_who_asks_again_in_time_leads_on(leaders: Leaders, clock: FakeClock) -> None:
    assert leads(leaders, "anna")
    for _ in range(10):
        clock.advance(10)
        assert leads(leaders, "anna")
        assert not leads(leaders, "ben")


@pytest.mark.parametrize("pause", [1, 14, 15, 16, 25, 29])
def test_however_often_it_asks_within_its_term(leaders: Leaders, clock: FakeClock, pause: int) -> None:
    assert leads(leaders, "anna")
    for _ in range(40):
        clock.advance(pause)
        assert not leads(leaders, "ben")
        assert leads(leaders, "anna")


def test_a_lease_that_a_wrong_clock_gave_binds_nobody(leaders: Leaders, clock: FakeClock) -> None:
    """Its holder may be gone, and nobody would lead until the clock is there again."""
    clock.advance("2h")
    assert leads(leaders, "anna")
    clock.advance(-7200)
    assert leads(leaders, "ben")
    assert not leads(leaders, "anna")


def test_who_leads_by_a_wrong_clock_renews_by_the_corrected_one(leaders: Leaders, clock: FakeClock) -> None:
    clock.advance("2h")
    assert leads(leaders, "anna")
    clock.advance(-7200)
    assert leads(leaders, "anna")
    assert not leads(leaders, "ben")
    clock.advance(30)
    assert leads(leaders, "ben")


def test_a_lapsed_lease_that_nobody_took_is_taken_up_again(leaders: Leaders, clock: FakeClock) -> None:
    assert leads(leaders, "anna")
    clock.advance(100)
    assert leads(leaders, "anna")
    assert not leads(leaders, "ben")


def test_who_steps_down_is_followed_at_once(leaders: Leaders) -> None:
    assert leads(leaders, "anna")
    leaders.step_down("acme", "maintain", "ben")
    assert not leads(leaders, "ben")
    leaders.step_down("acme", "maintain", "anna")
    assert leads(leaders, "ben")


def test_who_was_followed_cannot_step_down_for_the_other(leaders: Leaders, clock: FakeClock) -> None:
    assert leads(leaders, "anna")
    clock.advance(30)
    assert leads(leaders, "ben")
    leaders.step_down("acme", "maintain", "anna")
    assert not leads(leaders, "anna")


def test_duties_and_tenants_have_leaders_of_their_own(leaders: Leaders) -> None:
    assert leads(leaders, "anna")
    assert leads(leaders, "ben", duty="schedule")
    assert leads(leaders, "ben", tenant="other")
    leaders.step_down("other", "maintain", "anna")
    assert not leads(leaders, "anna", tenant="other")


def test_asking_without_need_only_reads(hf: Holdfast, leaders: Leaders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither who leads with half a term left, nor who does not, waits for the write lock of a busy file."""
    assert leads(leaders, "anna")

    def refuse(work: object) -> None:
        raise AssertionError("a transaction that writes")

    monkeypatch.setattr(internals(hf).store.database, "write", refuse)  # type: ignore[attr-defined]
    assert leads(leaders, "anna")
    assert not leads(leaders, "ben")


def test_of_many_who_race_one_leads(client: OpenClient, clock: FakeClock) -> None:
    clients = [client() for _ in range(4)]
    for _ in range(20):
        clock.advance(60)
        together = threading.Barrier(12)

        def race(thread: int, together: threading.Barrier = together) -> bool:
            leaders = leaders_of(clients[thread % 4])
            together.wait(30)
            return leads(leaders, f"w{thread}")

        with ThreadPoolExecutor(12) as threads:
            assert sum(threads.map(race, range(12))) == 1
