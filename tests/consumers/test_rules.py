"""The rules of the crew: what a beat may say, what a consumer is attached to, who amplifies."""

from typing import Any

import pytest

from holdfast import Attachment, InvalidInput, Work
from holdfast.consumers.rules import MOST_WORK, ConsumerStatus, amplification, attached, most_telling
from tests.steps import beat

pytestmark = pytest.mark.unit


def declared(*queues: str, **how: Any) -> list[Attachment]:
    return [Attachment("mailer", queue, **how) for queue in queues]


def change(queue: str, attached: bool = True, weight: float | None = None, empty: str | None = None) -> Attachment:
    return Attachment("mailer", queue, attached, weight, empty, changed_at_us=1)


def seen(found: list[Attachment]) -> list[tuple[str, float | None, str | None]]:
    assert all(one.attached for one in found)
    return [(one.queue, one.weight, one.empty) for one in found]


def test_without_changes_a_consumer_takes_from_what_its_code_says() -> None:
    found = attached([Attachment("mailer", "a", weight=3, empty="terminate"), Attachment("mailer", "b")], [])
    assert seen(found) == [("a", 3, "terminate"), ("b", 1, None)]


def test_an_added_queue_comes_behind_the_declared_ones() -> None:
    found = attached(declared("m", "z"), [change("a"), change("b", weight=2, empty="poll")])
    assert seen(found) == [("m", 1, None), ("z", 1, None), ("a", 1, None), ("b", 2, "poll")]


def test_a_detached_queue_is_gone_whoever_named_it() -> None:
    assert seen(attached(declared("a", "b"), [change("a", False), change("c", False)])) == [("b", 1, None)]
    assert attached(declared("a"), [change("a", False)]) == []


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ({"weight": 5}, ("a", 5, "terminate")),
        ({"empty": "hibernate"}, ("a", 3, "hibernate")),
        ({"weight": 5, "empty": "poll"}, ("a", 5, "poll")),
        ({}, ("a", 3, "terminate")),
    ],
    ids=str,
)
def test_a_change_keeps_what_it_does_not_say(changes: dict[str, Any], then: Any) -> None:
    found = attached(declared("a", weight=3, empty="terminate") + declared("b"), [change("a", **changes)])
    assert seen(found) == [then, ("b", 1, None)]


def test_what_another_consumer_was_told_changes_nothing() -> None:
    found = attached(declared("a"), [Attachment("printer", "a", False)])
    assert seen(found) == [("a", 1, None)]


def status(saturation: float, alive: bool = True) -> ConsumerStatus:
    told = beat(saturation=saturation)
    fields = {name: getattr(told, name) for name in ConsumerStatus.__struct_fields__ if hasattr(told, name)}
    return ConsumerStatus(**fields, started_at_us=0, seen_at_us=0, valid_until_us=0, alive=alive)


def test_amplification_counts_the_live_at_or_above_the_threshold() -> None:
    crew = [status(0.0), status(0.49), status(0.5), status(1.0), status(1.0, alive=False)]
    assert [amplification(crew, least) for least in (0.0, 0.5, 0.51, 1.0)] == [4, 2, 1, 1]
    assert amplification([], 0.0) == 0


def test_a_beat_has_room_for_what_tells_most() -> None:
    silent = [Work(f"s{age}", "q", 1, since_us=100 - age) for age in range(MOST_WORK)]
    telling = [Work("t0", "q", 1, since_us=500, progress=0), Work("t1", "q", 1, since_us=400, progress="half")]
    found = [work.id for work in most_telling(silent + telling)]
    assert found == ["t1", "t0", *(f"s{age}" for age in range(MOST_WORK - 1, 1, -1))]
    assert most_telling([]) == []


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"state": "asleep"}, "^state must be one of working, idle"),
        ({"saturation": 1.01}, "^saturation must be a number from 0 to 1"),
        ({"saturation": float("nan")}, "^saturation"),
        ({"valid_for": 0}, "^valid_for must be at least"),
        ({"valid_for": -1}, "^valid_for must be between"),
        ({"consumer": "a/b"}, "^consumer "),
        ({"worker": "a\0b"}, "^id must be text"),
        ({"host": "\ud800"}, "^host must be text"),
        ({"pool": 7}, "^pool must be text"),
    ],
    ids=str,
)
def test_a_beat_that_cannot_be_kept_is_refused(told: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        beat(**told)
