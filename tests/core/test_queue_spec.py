"""A queue's settings and names."""

import msgspec
import pytest

from holdfast import Backoff, InvalidInput
from holdfast.core.message import encode_json
from holdfast.core.queue import QueueSpec, channel_name, queue_spec

pytestmark = pytest.mark.unit


def test_a_queue_has_sensible_defaults() -> None:
    spec = queue_spec({})
    assert (spec.lease, spec.max_attempts, spec.ordering, spec.dead_letter) == (30.0, 5, "unordered", None)
    assert spec.backoff == Backoff(initial=1.0, longest=60.0)
    assert spec.history == 3600.0


def test_durations_are_read() -> None:
    spec = queue_spec({"lease": "5m", "history": "2d", "backoff": "2s..10s"})
    assert (spec.lease, spec.history) == (300.0, 172800.0)
    assert spec.backoff == Backoff(initial=2.0, longest=10.0)


def test_a_ready_made_backoff_is_taken_as_it_is() -> None:
    rule = Backoff(initial=3.0, longest=9.0, jitter=0.5)
    assert queue_spec({"backoff": rule}).backoff is rule


@pytest.mark.parametrize(
    "settings",
    [
        {"lease": 0},
        {"lease": -1},
        {"lease": "soon"},
        {"lease": None},
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 10_001},
        {"max_attempts": 2.0},
        {"max_attempts": True},
        {"max_attempts": "5"},
        {"ordering": "random"},
        {"ordering": None},
        {"dead_letter": ""},
        {"dead_letter": 5},
        {"dead_letter": "a/b"},
        {"history": -1},
        {"history": None},
        {"backoff": []},
        {"backoff": "60s..1s"},
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        queue_spec(settings)


def test_a_ready_made_backoff_that_goes_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput):
        queue_spec({"backoff": Backoff(initial=-1.0)})


def test_an_unknown_setting_is_named_together_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"no setting 'leese'.*lease.*max_attempts"):
        queue_spec({"leese": 30})


def test_no_dead_letter_queue_and_no_history_are_allowed() -> None:
    spec = queue_spec({"dead_letter": None, "history": 0})
    assert (spec.dead_letter, spec.history) == (None, 0.0)


@pytest.mark.parametrize("ordering", ["unordered", "fifo", "per_key"])
def test_a_spec_survives_being_stored(ordering: str) -> None:
    spec = queue_spec({"ordering": ordering, "backoff": [1, 2], "dead_letter": "graves", "lease": 0.5})
    assert msgspec.json.decode(encode_json(spec), type=QueueSpec) == spec


@pytest.mark.parametrize(
    ("ordering", "key", "order_key"),
    [
        ("unordered", None, ""),
        ("unordered", "a", ""),
        ("per_key", None, ""),
        ("per_key", "a", "=a"),
        ("per_key", "", "="),
        ("fifo", None, "fifo"),
        ("fifo", "a", "fifo"),
    ],
)
def test_the_order_key_says_who_waits_for_whom(ordering: str, key: str | None, order_key: str) -> None:
    spec = queue_spec({"ordering": ordering})
    assert spec.order_key(key) == order_key
    assert spec.ordered == (ordering != "unordered")


def test_a_single_attempt_is_never_shared_by_a_run() -> None:
    assert queue_spec({"max_attempts": 1}).run_limit(100) == 1
    assert queue_spec({"max_attempts": 2}).run_limit(100) == 100


@pytest.mark.parametrize("name", ["emails", "a", "orders.eu.created", "Zürich-東京", "with space", "x" * 200, "🐙"])
def test_a_printable_name_is_accepted(name: str) -> None:
    assert channel_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a/b", "a\n", "a\x00b", "\x7f", "x" * 201, "\ud800", None, 5, b"a", ["a"]], ids=repr
)
def test_a_name_that_something_could_not_carry_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput):
        channel_name(name)  # type: ignore[arg-type]
