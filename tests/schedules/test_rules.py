"""The slots of schedules: cron lines and periods, nights in which the clocks change, and what was missed."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import InvalidInput
from holdfast.schedules.rules import (
    GRACE,
    MOST_COUNTED,
    Fire,
    ScheduleSpec,
    SlotPlan,
    fires,
    first_after,
    last_slot,
    plan,
    schedule_spec,
    slot_text,
)

pytestmark = pytest.mark.unit

SECOND = 1_000_000
DAY = 86_400 * SECOND

NIGHTS = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Africa/Cairo", "2026-04-24"),  # The clock jumps at midnight,
    ("Africa/Cairo", "2026-10-29"),  # and goes back to 23:00 of the day before.
]
"""A zone, and a day on which its clocks change."""


def spec(cron: Any = None, every: Any = None, tz: Any = "UTC", missed: Any = "once", **options: Any) -> ScheduleSpec:
    given = {"queue": "q", "body": None, "priority": 2, "key": None, "headers": None, **options}
    return schedule_spec({"cron": cron, "every": every, "tz": tz, "missed": missed, **given})  # type: ignore[typeddict-item]


def at(text: str, tz: str = "UTC") -> int:
    """A local time as a moment."""
    local = datetime.fromisoformat(text)
    return round((local if local.tzinfo else local.replace(tzinfo=ZoneInfo(tz))).timestamp()) * SECOND


def slots(wanted: ScheduleSpec, start: int, end: int, anchor: int = 0) -> list[int]:
    """All slots after `start`, to `end`."""
    every, found = plan(wanted, anchor), []
    slot = every.after(start)
    while slot is not None and slot <= end:
        found.append(slot)
        slot = every.after(slot)
    return found


def shown(wanted: ScheduleSpec, start: int, end: int) -> list[str]:
    """The same, as the clock of the zone shows them."""
    return [slot_text(slot, wanted.tz) for slot in slots(wanted, start, end)]


def around(day: str, tz: str) -> tuple[int, int]:
    """From noon of the day before to noon of the day after."""
    noon = at(f"{day}T12:00", tz)
    return noon - DAY, noon + DAY


# --- lines and periods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "first", "second"),
    [
        ("*/15 * * * *", "2026-01-01T00:15:00", "2026-01-01T00:30:00"),
        ("0 9 * * MON-FRI", "2026-01-01T09:00:00", "2026-01-02T09:00:00"),
        ("30 0 9 * * *", "2026-01-01T09:00:30", "2026-01-02T09:00:30"),
        ("*/20 * * * * *", "2026-01-01T00:00:20", "2026-01-01T00:00:40"),
        ("0 0 L * *", "2026-01-31T00:00:00", "2026-02-28T00:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00", "2032-02-29T00:00:00"),
        ("@hourly", "2026-01-01T01:00:00", "2026-01-01T02:00:00"),
        ("@daily", "2026-01-02T00:00:00", "2026-01-03T00:00:00"),
        ("@midnight", "2026-01-02T00:00:00", "2026-01-03T00:00:00"),
        ("@weekly", "2026-01-04T00:00:00", "2026-01-11T00:00:00"),
        ("@monthly", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        ("@yearly", "2027-01-01T00:00:00", "2028-01-01T00:00:00"),
        ("@annually", "2027-01-01T00:00:00", "2028-01-01T00:00:00"),
    ],
)
def test_a_line_has_its_slots(line: str, first: str, second: str) -> None:
    found = plan(spec(line), 0)
    start = at("2026-01-01T00:00:00")
    assert found.after(start) == at(first)
    assert found.after(at(first)) == at(second)
    assert found.after(at(first) - 1) == at(first), "the first slot after a moment is after it, to the microsecond"


def test_a_period_is_counted_from_the_creation_and_does_not_drift() -> None:
    anchor = at("2026-01-01T00:00:00") + 123_456
    every = plan(spec(every="7s"), anchor)
    assert every.after(anchor) == anchor + 7 * SECOND
    assert every.after(anchor - SECOND) == anchor + 7 * SECOND, "nothing fires before the first period is over"
    assert every.after(anchor + 7 * SECOND - 1) == anchor + 7 * SECOND
    late = anchor + 1_000_003 * SECOND + 5
    assert (every.after(late) - anchor) % (7 * SECOND) == 0
    assert late < every.after(late) <= late + 7 * SECOND


def test_a_period_that_a_wrong_clock_has_begun_goes_on_by_the_corrected_one() -> None:
    anchor = at("2026-01-01T00:00:00") + 123_456
    every = plan(spec(every="7s"), anchor)
    now = anchor - DAY
    assert now < every.after(now) <= now + 7 * SECOND
    assert (anchor - every.after(now)) % (7 * SECOND) == 0
    assert every.after(every.after(now)) == every.after(now) + 7 * SECOND


@pytest.mark.parametrize(
    ("last", "expected"),
    [(None, 10), (-50, 10), (0, 10), (10, 20), (60, 70), (61, 10), (70, 10), (7200, 10)],
    ids=str,
)
def test_slots_that_a_wrong_clock_has_sent_are_sent_again_unless_it_was_only_adjusted(
    last: int | None, expected: int
) -> None:
    now = at("2026-01-01T00:00:00")
    every = plan(spec(every=10), now - DAY)
    assert first_after(every, now, None if last is None else now + last * SECOND) == now + expected * SECOND


def test_a_line_may_be_a_period() -> None:
    assert spec("@every 1h30m").timing == spec(every=5400).timing == (None, 5400.0, "UTC")


def test_a_zone_moves_the_slots() -> None:
    assert shown(spec("0 9 * * *", tz="Asia/Tokyo"), at("2026-01-01T00:00"), at("2026-01-02T12:00")) == [
        "2026-01-02T09:00:00+09:00"
    ]


# --- nights in which the clocks change --------------------------------------------------------------------------------


@pytest.mark.parametrize(("tz", "day"), NIGHTS)
@pytest.mark.parametrize("time", ["0 0", "15 1", "45 1", "0 2", "10 2", "30 2", "59 2", "0 3", "30 23"])
@pytest.mark.parametrize("seconds", ["", "0 "], ids=["five fields", "six fields"])
def test_a_daily_job_fires_once_per_local_day(tz: str, day: str, time: str, seconds: str) -> None:
    """T3."""
    start, end = at(f"{day}T00:00", tz) - 3 * DAY, at(f"{day}T00:00", tz) + 4 * DAY
    days = [text[:10] for text in shown(spec(f"{seconds}{time} * * *", tz=tz), start, end)]
    assert len(days) == len(set(days))
    first, last = datetime.fromisoformat(days[0]), datetime.fromisoformat(days[-1])
    assert len(days) == (last - first).days + 1 >= 6


def test_a_time_that_the_clock_skips_fires_when_it_has_jumped() -> None:
    """T3, spring."""
    berlin, howe = around("2026-03-29", "Europe/Berlin"), around("2026-10-04", "Australia/Lord_Howe")
    assert shown(spec("30 2 * * *", tz="Europe/Berlin"), *berlin) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert shown(spec("*/15 2 * * *", tz="Europe/Berlin"), *berlin)[:2] == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:00:00+02:00",
    ]
    assert shown(spec("10 2 * * *", tz="Australia/Lord_Howe"), *howe) == [
        "2026-10-04T02:30:00+11:00",
        "2026-10-05T02:10:00+11:00",
    ]


def test_a_time_that_the_clock_shows_twice_fires_the_first_time() -> None:
    """T3, autumn."""
    berlin, howe = around("2026-10-25", "Europe/Berlin"), around("2026-04-05", "Australia/Lord_Howe")
    assert shown(spec("30 2 * * *", tz="Europe/Berlin"), *berlin) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    assert shown(spec("45 1 * * *", tz="Australia/Lord_Howe"), *howe) == [
        "2026-04-05T01:45:00+11:00",
        "2026-04-06T01:45:00+10:30",
    ]


@pytest.mark.parametrize(
    ("tz", "day", "hours"), [(*NIGHTS[0], 23), (*NIGHTS[1], 25), (*NIGHTS[2], 23), (*NIGHTS[3], 25)]
)
def test_an_hourly_job_fires_every_hour_of_a_short_or_long_day(tz: str, day: str, hours: int) -> None:
    start = at(f"{day}T00:00", tz)
    end = at((datetime.fromisoformat(day) + timedelta(days=1)).date().isoformat() + "T00:00", tz)
    found = slots(spec("0 * * * *", tz=tz), start - 1, end - 1)
    assert len(found) == hours
    assert {later - earlier for earlier, later in pairwise(found)} == {3600 * SECOND}


@pytest.mark.parametrize(("tz", "day"), NIGHTS)
@pytest.mark.parametrize("line", ["*/15 * * * *", "45 * * * *", "10,40 * 4,5,23-25 * *", "*/20 * * * 0"])
def test_a_line_of_every_hour_fires_whenever_the_clock_shows_it(tz: str, day: str, line: str) -> None:
    """Compared with a clock that is looked at minute by minute."""
    start, end = around(day, tz)
    minutes, _, days, _, weekdays = line.split()

    def matches(local: datetime) -> bool:
        return (
            local.minute in NAMED[minutes]
            and (days == "*" or local.day in {4, 5, 23, 24, 25})
            and (weekdays == "*" or local.isoweekday() == 7)
        )

    wanted = [
        moment
        for moment in range(start + 60 * SECOND, end + 1, 60 * SECOND)
        if matches(datetime.fromtimestamp(moment / SECOND, UTC).astimezone(ZoneInfo(tz)))
    ]
    assert slots(spec(line, tz=tz), start, end) == wanted


def test_the_last_hour_of_a_day_that_is_shown_twice_belongs_to_it_twice() -> None:
    """The next match of the line is a year away, when the clock will show the same offset as before the change."""
    wanted = spec("30 * * 10 4L", tz="Africa/Cairo")
    assert shown(wanted, at("2026-10-29T22:45+03:00"), at("2026-12-01")) == [
        "2026-10-29T23:30:00+03:00",
        "2026-10-29T23:30:00+02:00",
    ]


NAMED = {
    "*/15": {0, 15, 30, 45},
    "45": {45},
    "10,40": {10, 40},
    "*/20": {0, 20, 40},
}


LINES = ["30 2 * * *", "*/15 2 * * *", "0 */2 * * *", "45 * * * *", "0 0,1,2,3,23 * * *", "*/30 * * * * *", "5 1 4 * *"]


@settings(deadline=None)
@given(st.sampled_from(NIGHTS), st.sampled_from(LINES), st.integers(0, 2 * 86_400))
def test_whoever_asks_from_whichever_moment_finds_the_same_slots(night: tuple[str, str], line: str, ago: int) -> None:
    """So two processes, and one that was down for a while, agree on what a slot is."""
    tz, day = night
    wanted = spec(line, tz=tz)
    start, end = around(day, tz)
    every = slots(wanted, start, end)
    moment = end - ago * SECOND
    following = plan(wanted, 0).after(moment)
    assert following is not None
    later = [slot for slot in every if slot > moment]
    assert following == later[0] if later else following > end


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 0 31 4 *"])
def test_a_day_that_no_month_has_is_refused(line: str) -> None:
    """T4."""
    with pytest.raises(InvalidInput, match="one that no month of the line has"):
        spec(line)


@pytest.mark.parametrize(
    "line",
    [
        *("", "x", "* * * *", "* * * * * * *", "60 * * * *", "-1 * * * *", "*/0 * * * *", "0 24 * * *", "0 0 0 * *"),
        *(
            "0 0 * 13 *",
            "0 0 * * 8",
            "0 0 * * MON#6",
            "* * * * MON#1/2",
            "5-1 * * * *",
            "1.5 * * * *",
            "@reboot",
            "@every",
        ),
        *("٣ * * * *", "9" * 190 + " * * * *", "nan * * * *", "* * * * *; drop", "@daily 5"),
    ],
)
def test_what_is_no_line_is_refused_with_what_to_write(line: str) -> None:
    """T5."""
    with pytest.raises(InvalidInput, match=r"is not a cron line .*: write minute, hour, day of month"):
        spec(line)


@pytest.mark.parametrize("tz", ["", "Europe", "Nowhere/Land", "../etc/passwd", "/etc/localtime", "x" * 999, "a\0b", 7])
def test_what_is_no_zone_is_refused(tz: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a time zone"):
        spec("@daily", tz=tz)


@pytest.mark.parametrize("every", [0, 0.5, "999ms", -1, float("nan"), float("inf"), 10**12, "soon", True])
def test_a_period_is_a_second_or_more_and_has_an_end(every: Any) -> None:
    """T5."""
    with pytest.raises(InvalidInput, match=r"^every "):
        spec(every=every)


def test_a_schedule_has_a_line_or_a_period() -> None:
    for both_or_none in ({}, {"cron": "@daily", "every": 5}):
        with pytest.raises(InvalidInput, match="either cron"):
            spec(**both_or_none)


def test_time_ends_with_the_year_9999() -> None:
    """T5: nothing wraps, nothing raises."""
    end = at("9999-12-31T23:59:00+00:00")
    for line in ("@daily", "* * * * *", "@yearly"):
        assert plan(spec(line, tz="America/New_York"), 0).after(end + DAY) is None


# --- what was missed --------------------------------------------------------------------------------------------------

HOUR = 3600 * SECOND


def hourly() -> tuple[SlotPlan, int]:
    return plan(spec("@hourly"), 0), at("2026-01-01T01:00")


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_slot_in_time_fires_once_whatever_is_said_about_missed_ones(missed: str) -> None:
    every, slot = hourly()
    assert fires(every, missed, slot, slot, 100) == ([Fire(slot)], slot + HOUR)
    assert fires(every, missed, slot, slot + GRACE, 100) == ([Fire(slot)], slot + HOUR)


def test_once_is_one_message_that_counts_the_others() -> None:
    every, slot = hourly()
    assert fires(every, "once", slot, slot + 72 * HOUR + 5, 100) == ([Fire(slot + 72 * HOUR, 72)], slot + 73 * HOUR)


def test_all_is_each_and_bounded() -> None:
    every, slot = hourly()
    due, following = fires(every, "all", slot, slot + 5 * HOUR, 4)
    assert due == [Fire(slot + n * HOUR) for n in range(4)]
    assert following == slot + 4 * HOUR
    assert fires(every, "all", following, slot + 5 * HOUR, 4) == (
        [Fire(slot + 4 * HOUR), Fire(slot + 5 * HOUR)],
        slot + 6 * HOUR,
    )


def test_skip_leaves_out_what_is_older_than_a_minute() -> None:
    every, slot = hourly()
    assert fires(every, "skip", slot, slot + GRACE + 1, 100) == ([], slot + HOUR)
    assert fires(every, "skip", slot, slot + 3 * HOUR + 1, 100) == ([Fire(slot + 3 * HOUR)], slot + 4 * HOUR)


def test_a_century_of_seconds_is_not_counted_to_the_end() -> None:
    every = plan(spec("* * * * * *"), 0)
    slot = at("2026-01-01T00:00")
    [fire], following = fires(every, "once", slot, slot + 100 * 365 * DAY + 7, 100)
    assert fire == Fire(slot + 100 * 365 * DAY, MOST_COUNTED)
    assert following == fire.slot + SECOND


@given(st.sampled_from(["@hourly", "* 3 * * *", "0 0 1 * *", "*/7 * * * * *"]), st.integers(0, 90 * 86_400))
@settings(deadline=None, max_examples=50)
def test_the_last_slot_is_the_one_without_another_before_now(line: str, later: int) -> None:
    every = plan(spec(line), 0)
    slot = every.after(at("2026-01-01T00:00"))
    assert slot is not None
    now = slot + later * SECOND
    last = last_slot(every, slot, now)
    assert slot <= last <= now
    assert every.after(last - 1) == last
    assert (every.after(last) or 0) > now
