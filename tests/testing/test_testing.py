"""holdfast.testing, as a user's tests would use it."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.core.message import Message
from holdfast.testing import FakeClock, assert_dead, assert_empty, assert_enqueued, drain


@pytest.fixture
def hf(holdfast: Holdfast) -> Holdfast:
    """The plugin's own fixture."""
    return holdfast


def test_drain_works_on_everything_in_order(hf: Holdfast) -> None:
    hf.enqueue_many("q", [1, 2])
    hf.enqueue("q", 0, priority="urgent")
    assert [message.body for message in drain(hf, "q")] == [0, 1, 2]
    assert_empty(hf, "q")


def test_what_a_handler_enqueues_is_worked_on_too(hf: Holdfast) -> None:
    def countdown(message: Message) -> None:
        if message.body:
            hf.enqueue("q", message.body - 1)

    hf.enqueue("q", 3)
    assert [message.body for message in drain(hf, "q", handler=countdown)] == [3, 2, 1, 0]


def test_a_result_is_kept(hf: Holdfast) -> None:
    receipt = hf.enqueue("q", 20)
    drain(hf, "q", handler=lambda message: message.body + 1)
    status = hf.status(receipt.id)
    assert status is not None
    assert status.result == 21


def test_without_the_clock_what_waits_is_left(hf: Holdfast, holdfast_clock: FakeClock) -> None:
    hf.enqueue("q", "later", delay="1h")
    assert drain(hf, "q") == []
    holdfast_clock.advance("1h")
    assert [message.body for message in drain(hf, "q")] == ["later"]


def test_with_the_clock_delays_and_retries_take_no_time(hf: Holdfast, holdfast_clock: FakeClock) -> None:
    hf.queue("q", max_attempts=3, backoff=[60, 600])
    hf.enqueue("q", "stubborn", delay="1d")
    before, calls = holdfast_clock(), []

    def fails_twice(message: Message) -> None:
        calls.append(message.body)
        if len(calls) < 3:
            raise ValueError("not yet")

    assert len(drain(hf, "q", handler=fails_twice, clock=holdfast_clock)) == 1
    assert len(calls) == 3
    assert holdfast_clock() - before >= (86_400 + 0.9 * 660) * 1_000_000


def test_a_hopeless_message_ends_as_a_dead_letter(hf: Holdfast, holdfast_clock: FakeClock) -> None:
    def fails(message: Message) -> None:
        raise ValueError(f"no {message.body}")

    hf.enqueue("q", "luck")
    assert drain(hf, "q", handler=fails, clock=holdfast_clock) == []
    [letter] = assert_dead(hf, "q", error="ValueError: no luck", count=1)
    assert letter.attempts == 5
    with pytest.raises(AssertionError, match=r"expected 2 dead letters with 'luck'(?s:.*)no luck"):
        assert_dead(hf, "q", error="luck", count=2)


def test_a_forgotten_claim_is_taken_over_by_the_clock(hf: Holdfast, holdfast_clock: FakeClock) -> None:
    hf.enqueue("q", "work")
    hf.claim("q")
    assert [message.body for message in drain(hf, "q", clock=holdfast_clock)] == ["work"]


def test_assertions_say_what_is_there_instead(hf: Holdfast) -> None:
    hf.enqueue("q", {"to": "ada"}, key="k", headers={"h": 1})
    [message] = assert_enqueued(hf, "q", body={"to": "ada"}, key="k", headers={"h": 1}, priority=2, count=1)
    assert message.key == "k"
    with pytest.raises(AssertionError, match=r"body=\{'to': 'bob'\} in 'q'; there is:(?s:.*)\{'to': 'ada'\}"):
        assert_enqueued(hf, "q", body={"to": "bob"})
    with pytest.raises(AssertionError, match="expected 2 messages"):
        assert_enqueued(hf, "q", count=2)
    with pytest.raises(AssertionError, match="pending=1"):
        assert_empty(hf, "q", "other")


def test_the_clock_moves_both_ways() -> None:
    clock = FakeClock(now=1_000_000)
    clock.advance("1s")
    clock.advance(-0.5)
    assert clock() == 1_500_000


def test_the_fixtures_are_there_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "def test_mine(holdfast, holdfast_clock):\n"
        "    holdfast.enqueue('q', 1, delay=5)\n"
        "    assert holdfast.claim('q') == []\n"
        "    holdfast_clock.advance(5)\n"
        "    assert len(holdfast.claim('q')) == 1\n"
    )
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "1 passed" in answer.stdout, answer.stdout
