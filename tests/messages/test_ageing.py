"""Messages that nobody claims in time: a time to live of their own, or the age that their queue allows."""

import pytest

from holdfast import Holdfast, InvalidInput, State
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, state

pytestmark = pytest.mark.of_queues

NEVER = 1_000_000


@pytest.fixture
def lazy(client: OpenClient) -> Holdfast:
    """A client that has swept once and will not again: what it leaves out, it left out while claiming."""
    hf = client(worker="anna", sweep_every=NEVER)
    hf.claim("q")
    return hf


WAYS = pytest.mark.parametrize(
    "options", [{}, {"delay": 1}, {"key": "k"}], ids=["in a lane", "as a row", "behind a key"]
)


@WAYS
def test_a_message_past_its_ttl_is_never_handed_out(
    lazy: Holdfast, clock: FakeClock, options: dict[str, object]
) -> None:
    lazy.queue("q", ordering="per_key" if "key" in options else "unordered")
    old = lazy.enqueue("q", "old", ttl=5, **options)
    clock.advance(4.999999)
    lazy.enqueue("q", "new", **options)
    clock.advance(1)
    assert bodies(lazy.claim("q", n=10)) == ["new"]
    assert state(lazy, old.id) is State.EXPIRED


@WAYS
def test_a_message_is_there_until_the_last_moment(hf: Holdfast, clock: FakeClock, options: dict[str, object]) -> None:
    hf.queue("q", max_age=5)
    hf.enqueue("q", "work", ttl=5, **options)
    clock.advance(4.999999)
    assert bodies(hf.claim("q")) == ["work"]


@WAYS
def test_an_unclaimed_message_expires_by_sweeping_alone(
    hf: Holdfast, clock: FakeClock, options: dict[str, object]
) -> None:
    receipt = hf.enqueue("q", "work", ttl=5, **options)
    clock.advance(5)
    assert hf.queues.sweep("q") == 1
    status = hf.status(receipt.id)
    assert status is not None
    assert (status.state, status.attempts, hf.stats("q").pending, hf.stats("q").waiting) == (State.EXPIRED, 0, 0, 0)
    assert hf.queues.sweep("q") == 0


@pytest.mark.parametrize("options", [{}, {"delay": 1}], ids=["in a lane", "as a row"])
def test_a_queue_may_limit_the_age_of_its_messages(
    lazy: Holdfast, hf: Holdfast, clock: FakeClock, options: dict[str, object]
) -> None:
    hf.queue("q", max_age="1m")
    old = [receipt.id for receipt in hf.enqueue_many("q", ["old"] * 5, **options)]
    clock.advance(30)
    hf.enqueue("q", "new", **options)
    clock.advance(30)
    lazy.queue("q", max_age="1m")
    assert bodies(lazy.claim("q", n=10)) == ["new"]
    hf.queues.sweep("q")
    assert {state(hf, message_id) for message_id in old} == {State.EXPIRED}


def test_a_long_line_of_old_messages_does_not_hold_up_the_first_good_one(lazy: Holdfast, clock: FakeClock) -> None:
    lazy.queue("q", max_age=10)
    lazy.enqueue_many("q", ["old"] * 350)
    clock.advance(10)
    lazy.enqueue("q", "new")
    assert bodies(lazy.claim("q")) == ["new"]


def test_a_higher_age_limit_saves_what_was_not_swept_yet(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=10)
    hf.enqueue("q", "work")
    clock.advance(10)
    hf.queue("q", max_age=20)
    assert bodies(hf.claim("q")) == ["work"]


def test_what_is_being_worked_on_does_not_expire(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, lease=60)
    hf.enqueue("q", "work", ttl=5)
    claim = claim_one(hf)
    clock.advance(10)
    hf.queues.sweep("q")
    claim.ack()
    assert state(hf, claim.message.id) is State.SUCCEEDED


def test_a_failed_message_expires_while_it_waits_for_its_next_attempt(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", "work", ttl=5)
    claim = claim_one(hf)
    claim.nack("not now", delay=10)
    clock.advance(5)
    hf.queues.sweep("q")
    status = hf.status(claim.message.id)
    assert status is not None
    assert (status.state, status.attempts) == (State.EXPIRED, 1)


def test_the_next_of_a_key_follows_an_expired_one(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", ordering="fifo")
    hf.enqueue("q", "first", ttl=5)
    hf.enqueue("q", "second")
    clock.advance(5)
    assert drain(hf) == ["second"]


def test_an_expired_replay_is_noted_on_its_dead_letter(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    hf.enqueue("q", "work")
    claim_one(hf).dead_letter("no")
    hf.dead_letters.replay(hf.dead_letters.list("q")[0].id)
    clock.advance(5)
    hf.queues.sweep("q")
    assert hf.dead_letters.list("q")[0].replay_state == State.EXPIRED


def test_expired_messages_are_forgotten_when_their_history_is_over(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, history=10)
    ids = [hf.enqueue("q", "lane").id, hf.enqueue("q", "row", delay=1).id]
    clock.advance(5)
    hf.queues.sweep("q")
    clock.advance(10)
    hf.queues.sweep("q")
    assert [state(hf, message_id) for message_id in ids] == [None, None]


def test_without_history_an_expired_message_leaves_no_trace(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, history=0)
    receipt = hf.enqueue("q", "work")
    clock.advance(5)
    hf.queues.sweep("q")
    assert state(hf, receipt.id) is None


def test_sweeping_is_bounded(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    hf.enqueue_many("q", range(250))
    clock.advance(5)
    assert [hf.queues.sweep("q") for _ in range(4)] == [100, 100, 50, 0]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "soon", 1])
def test_a_ttl_that_makes_no_sense_is_refused(hf: Holdfast, ttl: object) -> None:
    """Also one that is over before the message is due."""
    with pytest.raises(InvalidInput):
        hf.enqueue("q", "work", ttl=ttl, delay=1)
    assert hf.stats("q").waiting == 0


@pytest.mark.parametrize("age", [0, -1, float("nan"), "soon"])
def test_an_age_that_makes_no_sense_is_refused(hf: Holdfast, age: object) -> None:
    with pytest.raises(InvalidInput):
        hf.queue("q", max_age=age)


def test_what_was_done_in_time_does_not_keep_others_from_expiring(hf: Holdfast, clock: FakeClock) -> None:
    """More finished messages than one sweep looks at, all of them past a time that no longer matters."""
    hf.enqueue_many("q", range(150), ttl=5)
    while claims := hf.claim("q", n=50):
        hf.ack(claims)
    late = hf.enqueue("q", "late", ttl=6)
    clock.advance(6)
    assert hf.queues.sweep("q") == 1
    assert state(hf, late.id) is State.EXPIRED
