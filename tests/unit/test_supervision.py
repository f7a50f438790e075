"""What is done about consumers that crash."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.supervision import CrashLog, Restarts


def test_the_wait_doubles_up_to_its_longest() -> None:
    log = CrashLog(Restarts(first=0.5, longest=3.0, window=60.0, most=10))
    waits = []
    for moment in range(6):
        log.note(float(moment), "killed")
        waits.append(log.not_before - moment)
    assert waits == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_a_crash_after_a_good_while_begins_anew() -> None:
    log = CrashLog(Restarts(window=60.0))
    log.note(0.0, "killed")
    log.note(1.0, "killed")
    log.note(61.0, "killed")
    assert log.not_before == 61.5


def test_too_many_within_the_window_are_given_up() -> None:
    log = CrashLog(Restarts(window=60.0, most=3))
    for moment in (0.0, 20.0):
        log.note(moment, "killed")
        assert not log.has_given_up(moment)
    log.note(40.0, "ended with exit code 1")
    assert log.has_given_up(40.0)
    assert log.last_words == "ended with exit code 1"


def test_one_a_minute_goes_on_for_ever() -> None:
    log = CrashLog(Restarts(window=60.0, most=3))
    for minute in range(100):
        log.note(minute * 30.0, "killed")
        assert not log.has_given_up(minute * 30.0)


def test_one_crash_may_be_too_many() -> None:
    log = CrashLog(Restarts(most=1))
    assert not log.has_given_up(0.0)
    log.note(5.0, "killed")
    assert log.has_given_up(5.0)


@given(pauses=st.lists(st.floats(0, 100), max_size=30), most=st.integers(1, 6))
def test_given_up_means_so_many_in_one_window(pauses: list[float], most: int) -> None:
    rules = Restarts(most=most, window=60.0)
    log, now, crashes = CrashLog(rules), 0.0, []
    for pause in pauses:
        now += pause
        crashes.append(now)
        log.note(now, "killed")
        recent = [crash for crash in crashes if now - crash < rules.window]
        assert log.has_given_up(now) == (len(recent) >= most)
        assert rules.first <= log.not_before - now + 1e-9
        assert log.not_before - now <= rules.longest + 1e-9
