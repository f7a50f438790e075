"""Whose turn it is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.rotation import POLICIES, Rotation

weights = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20).map(float), min_size=1)


def leaders(rotation: Rotation, turns: int) -> list[str]:
    return [rotation.order()[0] for _ in range(turns)]


def test_round_robin_gives_everyone_a_turn() -> None:
    assert leaders(Rotation("round_robin", {"a": 1, "b": 1, "c": 1}), 6) == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize("policy", ["weighted", "round_robin"])
def test_weighted_turns_are_spread(policy: str) -> None:
    """In round robin too, where a weight was given while it ran."""
    turns = leaders(Rotation(policy, {"a": 3, "b": 1}), 12)
    assert Counter(turns) == {"a": 9, "b": 3}
    assert "aaaa" not in "".join(turns)


def test_strict_begins_with_the_first_for_ever() -> None:
    assert set(leaders(Rotation("strict", {"b": 1, "a": 9}), 20)) == {"b"}
    assert Rotation("strict", {"b": 1, "a": 9}).order() == ["b", "a"]


def test_random_is_what_chance_says() -> None:
    rotation = Rotation("random", {"a": 1, "b": 1, "c": 1})
    assert rotation.order([0.5, 0.1, 0.9]) == ["b", "a", "c"]
    assert rotation.order([0.0, 0.1, 0.2]) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="zip"):
        rotation.order([0.5])


@pytest.mark.parametrize("policy", POLICIES)
@given(queues=weights, chances=st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_every_turn_has_every_queue_once(policy: str, queues: dict[str, float], chances: list[float]) -> None:
    rotation = Rotation(policy, queues)
    for _ in range(5):
        assert sorted(rotation.order(chances[: len(queues)])) == sorted(queues)


@given(queues=weights)
def test_shares_are_exact_after_a_whole_round(queues: dict[str, float]) -> None:
    whole = int(sum(queues.values()))
    assert Counter(leaders(Rotation("weighted", queues), 3 * whole)) == {
        name: 3 * int(weight) for name, weight in queues.items()
    }


@given(queues=weights)
def test_nobody_starves(queues: dict[str, float]) -> None:
    """Between two turns of a queue are never more than twice what it has to wait for by its weight, and a turn of each
    other. Twice, because turns are spread evenly for all together, and not for each."""
    turns = leaders(Rotation("weighted", queues), 400)
    for name, weight in queues.items():
        fair = 2 * sum(queues.values()) / weight + len(queues)
        waits = [len(part) for part in "".join(turns).split(name)]
        assert max(waits) <= fair


@pytest.mark.parametrize("policy", POLICIES)
def test_no_queue_is_no_turn(policy: str) -> None:
    assert Rotation(policy, {}).order() == []
