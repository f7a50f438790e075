"""Whose turn it is."""

from collections import Counter, deque
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.rotation import POLICIES, QueueRotation, Rotation

pytestmark = pytest.mark.unit

weights = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20).map(float), min_size=1)


def turns_of(rotation: Rotation, turns: int) -> list[str]:
    return [rotation.turn() for _ in range(turns)]


def test_round_robin_gives_everyone_a_turn() -> None:
    assert turns_of(Rotation("round_robin", {"a": 1, "b": 1, "c": 1}), 6) == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize("policy", ["weighted", "round_robin"])
def test_weighted_turns_are_spread(policy: str) -> None:
    """In round robin too, where a weight was given while it ran."""
    turns = turns_of(Rotation(policy, {"a": 3, "b": 1}), 12)
    assert Counter(turns) == {"a": 9, "b": 3}
    assert "aaaa" not in "".join(turns)


def test_strict_and_single_queues_have_no_turns() -> None:
    assert not Rotation("strict", {"b": 1, "a": 9}).has_turns
    assert Rotation("strict", {"b": 1, "a": 9}).names == ["b", "a"]
    for policy in POLICIES:
        assert not Rotation(policy, {"a": 1}).has_turns
        assert Rotation(policy, {}).names == []


def test_random_is_what_chance_says() -> None:
    chances = iter([0.5, 0.1, 0.99, 1.0, 0.0])
    rotation = Rotation("random", {"a": 1, "b": 1, "c": 1}, lambda: next(chances))
    assert turns_of(rotation, 5) == ["b", "a", "c", "c", "a"]


@pytest.mark.parametrize("policy", ["round_robin", "weighted", "random"])
@given(queues=weights, skipped=st.integers(0, 20))
def test_a_copy_goes_on_in_the_same_way_and_changes_nothing(
    policy: str, queues: dict[str, float], skipped: int
) -> None:
    rotation = Rotation(policy, queues, lambda: 0.7)
    turns_of(rotation, skipped)
    copied = turns_of(rotation.copy(), 20)
    assert turns_of(rotation, 20) == copied


@given(queues=weights)
def test_shares_are_exact_after_a_whole_round(queues: dict[str, float]) -> None:
    whole = int(sum(queues.values()))
    assert Counter(turns_of(Rotation("weighted", queues), 3 * whole)) == {
        name: 3 * int(weight) for name, weight in queues.items()
    }


@given(queues=weights)
def test_nobody_starves(queues: dict[str, float]) -> None:
    """Between two turns of a queue are never more than twice what it has to wait for by its weight, and a turn of each
    other. Twice, because turns are spread evenly for all together, and not for each."""
    turns = turns_of(Rotation("weighted", queues), 400)
    for name, weight in queues.items():
        fair = 2 * sum(queues.values()) / weight + len(queues)
        waits = [len(part) for part in "".join(turns).split(name)]
        assert max(waits) <= fair


# --- turns of messages ------------------------------------------------------------------------------------------------


def stocked(**counts: int) -> dict[str, deque[str]]:
    return {name: deque(f"{name}{number}" for number in range(count)) for name, count in counts.items()}


def turns_for(policy: str = "round_robin", **queues: float) -> QueueRotation:
    return QueueRotation(Rotation(policy, queues))


def test_messages_come_in_the_order_of_their_turns() -> None:
    turns = turns_for(a=1, b=1)
    assert turns.arrange(stocked(a=2, b=2), ()) == ["a0", "b0", "a1", "b1"]
    assert turns.awaited is None


def test_a_queue_that_may_have_work_holds_up_the_others() -> None:
    turns, stock = turns_for(a=1, b=1), stocked(a=5, b=1)
    assert turns.arrange(stock, ()) == ["a0", "b0", "a1"]
    assert (turns.awaited, len(stock["a"])) == ("b", 3)
    stock["b"].append("b1")
    assert turns.arrange(stock, ()) == ["b1", "a2"]
    assert turns.arrange(stock, {"b"}) == ["a3", "a4"], "it has nothing more"
    assert turns.awaited is None


def test_what_was_not_begun_keeps_its_turn() -> None:
    turns = turns_for(a=1, b=1, c=1)
    assert turns.arrange(stocked(a=2, b=2, c=2), ()) == ["a0", "b0", "c0", "a1", "b1", "c1"]
    turns.give_back(4)
    assert turns.arrange(stocked(a=2, b=2, c=2), ()) == ["c0", "a0", "b0", "c1", "a1", "b1"]


def test_turns_that_a_dry_queue_had_come_back_with_it() -> None:
    """What was arranged while it was dry must not be begun before its new messages."""
    turns, stock = turns_for(a=1, b=1), stocked(a=100)
    turns.shares(10, stock)
    assert len(turns.arrange(stock, {"b"})) == 100
    turns.give_back(98)
    assert turns.arrange(stocked(a=98, b=98), ())[:4] in (["a0", "b0", "a1", "b1"], ["b0", "a0", "b1", "a1"])


def test_shares_are_what_the_next_turns_need() -> None:
    turns = turns_for("weighted", a=3, b=1)
    assert turns.shares(8, {}) == {"a": 6, "b": 2}
    assert turns.shares(8, stocked(a=4, b=5)) == {"a": 2, "b": 0}
    assert list(turns_for(a=1, b=1, c=1).shares(1, {}).items()) == [("a", 1), ("b", 0), ("c", 0)]


@given(
    queues=weights.filter(lambda queues: len(queues) > 1),
    policy=st.sampled_from(["round_robin", "weighted", "random"]),
    steps=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(0, 40)), max_size=30),
    seed=st.integers(0, 1000),
)
def test_the_order_is_that_of_single_turns_however_many_are_claimed(
    queues: dict[str, float], policy: str, steps: list[tuple[int, int, int]], seed: int
) -> None:
    """As long as all queues have work: claims of any size, some of them short, some handed back before they begin."""
    turns, alone = (QueueRotation(Rotation(policy, queues, Random(seed).random)) for _ in range(2))
    begun: list[str] = []
    stock: dict[str, deque[str]] = {name: deque() for name in queues}
    waiting: list[str] = []
    for room, short, begins in steps:
        turns.give_back(len(waiting))
        for name in waiting[::-1]:
            stock[name].appendleft(name)
        needs = turns.shares(room + sum(map(len, stock.values())), stock)
        for name, need in needs.items():
            stock[name].extend([name] * max(min(need, 1), need - short))
        waiting = turns.arrange(stock, ())
        begun += waiting[:begins]
        waiting = waiting[begins:]
    assert begun == [alone.rotation.turn() for _ in begun]
