"""What is done about consumers that crash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.pools.restarts import CrashLog, Restarts

pytestmark = pytest.mark.unit


def test_the_wait_doubles_up_to_its_longest() -> None:
    log = CrashLog(Restarts(first=0.5, longest=3.0, window=60.0, most=10))
    waits = []
    for moment in range(6):
        log.note(float(moment))
        waits.append(log.not_before - moment)
    assert waits == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_a_crash_after_a_good_while_begins_anew() -> None:
    log = CrashLog(Restarts(window=60.0))
    for moment in (0.0, 1.0, 61.0):
        log.note(moment)
    assert log.not_before == 61.5


def test_too_many_within_the_window_are_given_up() -> None:
    log = CrashLog(Restarts(window=60.0, most=3))
    assert [log.note(moment) for moment in (0.0, 20.0, 40.0)] == [False, False, True]
    assert log.gave_up


def test_one_a_minute_goes_on_for_ever() -> None:
    log = CrashLog(Restarts(window=60.0, most=3))
    assert not any(log.note(minute * 30.0) for minute in range(100))


def test_one_crash_may_be_too_many() -> None:
    log = CrashLog(Restarts(most=1))
    assert not log.gave_up
    assert log.note(5.0)


def test_an_excused_crash_does_not_count() -> None:
    """Neither towards the end, nor does anyone wait longer for it."""
    log = CrashLog(Restarts(first=0.5, most=2))
    for moment in range(50):
        assert not log.note(float(moment), is_excused=True)
        assert log.not_before == moment + 0.5
    assert [log.note(50.0), log.note(51.0, is_excused=True), log.note(52.0)] == [False, False, True]


def test_what_was_given_up_is_tried_again_one_at_a_time() -> None:
    log = CrashLog(Restarts(most=1, again=300.0))
    assert log.may_start(0.0, missing=4, trials=0) == 4
    assert log.note(0.0)
    assert log.may_start(299.0, missing=4, trials=0) == 0
    assert log.may_start(300.0, missing=4, trials=0) == 1
    assert log.may_start(300.0, missing=3, trials=1) == 0


def test_it_is_given_up_once_however_often_it_is_tried() -> None:
    log = CrashLog(Restarts(most=1, again=300.0))
    assert [log.note(0.0), log.note(300.0), log.note(600.0, is_excused=True)] == [True, False, False]
    assert log.may_start(899.0, missing=4, trials=0) == 0
    assert log.may_start(900.0, missing=4, trials=0) == 1


def test_who_does_its_work_again_is_not_given_up_any_more() -> None:
    log = CrashLog(Restarts(most=2))
    assert [log.note(0.0), log.note(1.0)] == [False, True]
    log.recovered()
    assert log.may_start(301.0, missing=4, trials=1) == 4
    assert [log.note(302.0), log.note(303.0)] == [False, True], "and may be given up again"


@given(pauses=st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=30), most=st.integers(1, 6))
def test_given_up_means_so_many_in_one_window(pauses: list[tuple[float, bool]], most: int) -> None:
    rules = Restarts(most=most, window=60.0)
    log, now, crashes = CrashLog(rules), 0.0, list[float]()
    for pause, is_excused in pauses:
        now += pause
        crashes += [] if is_excused else [now]
        recent = [crash for crash in crashes if now - crash < rules.window]
        assert log.note(now, is_excused) == (len(recent) >= most)
        if log.gave_up:
            return
        assert rules.first <= log.not_before - now + 1e-9
        assert log.not_before - now <= rules.longest + 1e-9
