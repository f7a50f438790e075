"""Schedules: a message whenever a cron line says so, or once per period; and what becomes of slots that were missed.

A slot is a moment at which a schedule is to fire. The slots of a schedule are fixed: whoever asks, and from whichever
moment, finds the same ones. Nights in which the clocks change are settled by one rule (`Cron`):

- A line that names its hours goes by the wall clock, and each time of day counts once. What the clock skips in spring
  fires when it has jumped; what it shows twice in autumn fires the first time.
- A line whose hour is `*` goes by what the clock shows from second to second: every hour of a day of 23 or 25 hours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

import msgspec

from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, seconds
from holdfast.core.given import DEFAULT, Default, Reader, SettingsUpdate, read_settings
from holdfast.core.message import encode_json, plain_text
from holdfast.core.queue import channel_name, one_of
from holdfast.core.times import Moment, MomentOrNone, WithTimes
from holdfast.errors import InvalidInput, shown

if TYPE_CHECKING:
    from cronsim import CronSim

MISSED = ("skip", "once", "all")

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

GRACE = 60_000_000
"""Microseconds; with `missed="skip"` a slot that is older was missed. A clock that is set back by no more than this has
only been adjusted: slots that were sent are not sent again."""

MOST_COUNTED = 1000
"""Missed slots are counted up to here."""

_LONGEST_LINE = 200
_EVERY = "@every"
_BAD_DAY = "Bad day-of-month"
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_DAY = 86_400


class ScheduleSpec(msgspec.Struct, frozen=True):
    """What `hf.schedule(name, …)` declared, as stored. Either `cron` or `every` (seconds) is given."""

    queue: str = ""
    body: msgspec.Raw = msgspec.Raw(b"null")
    cron: str | None = None
    every: float | None = None
    tz: str = "UTC"
    missed: str = "once"
    priority: int = priorities.NORMAL
    key: str | None = None
    headers: dict[str, Any] | None = None

    @property
    def timing(self) -> tuple[str | None, float | None, str]:
        """All that its slots depend on."""
        return self.cron, self.every, self.tz


class Schedule(WithTimes, msgspec.Struct, frozen=True):
    """A schedule as it stands: what it sends and where to, when it fires next, and when it did last.

    Times are datetimes in UTC. `next_at` is None while it is paused; `last_slot` is the slot of its last
    message, `last_at` when that was sent. `error` says why the slot that is due could not be sent yet.
    """

    name: str
    queue: str
    body: Any
    cron: str | None
    every: float | None
    tz: str
    missed: str
    priority: int
    key: str | None
    headers: dict[str, Any] | None
    paused: bool
    next_at_us: int | None
    last_slot_us: int | None
    last_at_us: int | None
    created_at_us: int
    error: str | None = None

    next_at = MomentOrNone()
    last_slot = MomentOrNone()
    last_at = MomentOrNone()
    created_at = Moment()


class SlotPlan(Protocol):
    """The slots of a schedule."""

    def after(self, moment: int) -> int | None:
        """The first slot after a moment, in microseconds; None if there is none."""


class Fire(msgspec.Struct, frozen=True):
    """One message to be sent: for which slot, and how many before it were missed."""

    slot: int
    missed: int = 0


class ScheduleSettings(TypedDict, total=False):
    """The keywords of `hf.schedule(name, …)`, as users write them."""

    queue: str
    body: Any
    cron: str | Default | None
    every: Duration | Default | None
    tz: str | Default
    missed: str | Default
    priority: int | str | Default
    key: str | Default | None
    headers: dict[str, Any] | Default | None


def schedule_change(settings: ScheduleSettings) -> Callable[[ScheduleSpec | None], ScheduleSpec]:
    """Checks what a user wrote in `hf.schedule(name, …)`. What a schedule says is checked when all of it is known."""
    read_settings("schedule()", cast("Mapping[str, Any]", settings), _SCHEDULE_READERS)
    return lambda before: schedule_spec(settings, before)


def schedule_spec(settings: ScheduleSettings, before: ScheduleSpec | None = None) -> ScheduleSpec:
    """Checks what a user wrote in `hf.schedule(name, …)`; what is not given is as `before`, or has its default.

    A line and a period are one setting: who gives one replaces the other.
    """
    line, period = _new_timing(cast("Mapping[str, Any]", settings), before)
    given = read_settings("schedule()", cast("Mapping[str, Any]", settings), _SCHEDULE_READERS)
    spec = SettingsUpdate(ScheduleSpec, {**given, "cron": line, "every": period})(before)
    if not spec.queue:
        raise InvalidInput('schedule() needs the queue that it sends to: queue="emails"')
    if plan(spec, 0).after(0) is None:
        raise InvalidInput(f"cron {shown(line)} never comes: no month has such a day")
    return spec


def _new_timing(given: Mapping[str, Any], before: ScheduleSpec | None) -> tuple[str | None, float | None]:
    cron, every = (None if (value := given.get(name)) is DEFAULT else value for name in ("cron", "every"))
    if cron is None and every is None and before is not None:
        cron = None if "cron" in given else before.cron
        every = None if "every" in given else before.every
    return _timing(cron, every)


def plan(spec: ScheduleSpec, anchor: int) -> SlotPlan:
    """The slots of a schedule that was created at `anchor`."""
    zone = _zone(spec.tz)
    if spec.cron is not None:
        return Cron(spec.cron, zone)
    assert spec.every is not None, "a schedule has a line or a period"
    return Every(anchor, round(spec.every * 1_000_000))


def first_after(plan: SlotPlan, now: int, last_slot: int | None) -> int | None:
    """The slot to wait for from `now` on, given the last one that was sent.

    If that is in the future, the clock was set back. By less than `GRACE`, it does not count again. By more, the slots
    that are still to come were sent by a clock that was wrong, and are sent again when it is time for them: otherwise
    the schedule would be silent for as long as the clock was wrong by.
    """
    is_sent = last_slot is not None and now < last_slot <= now + GRACE
    return plan.after(last_slot if is_sent and last_slot is not None else now)


def fires(plan: SlotPlan, missed: str, slot: int, now: int, limit: int) -> tuple[list[Fire], int | None]:
    """What to send now that `slot` is due, `limit` at most, and the slot to wait for next: always a later one.

    "all" sends every slot; "once" the newest, which counts the others; "skip" the newest unless it is too old.
    """
    if missed == "all":
        return _one_by_one(plan, slot, now, limit)
    newest = last_slot(plan, slot, now)
    following = plan.after(newest)
    if missed == "once":
        return [Fire(newest, count(plan, slot, newest))], following
    return [Fire(newest)] if now - newest <= GRACE else [], following


def last_slot(plan: SlotPlan, slot: int, now: int) -> int:
    """The last slot that is not after `now`, found by halving; `slot` is one of them."""
    beyond = now
    while (following := plan.after(slot)) is not None and following <= now:
        middle = plan.after((following + beyond) // 2)
        if middle is None or middle > now:
            slot, beyond = following, (following + beyond) // 2
        else:
            slot = middle
    return slot


def count(plan: SlotPlan, slot: int, end: int) -> int:
    """How many slots there are from `slot` to before `end`, as far as they are counted."""
    counted = 0
    while slot < end and counted < MOST_COUNTED:
        counted += 1
        following = plan.after(slot)
        assert following is not None, "the end is a slot"
        slot = following
    return counted


def slot_text(slot: int, tz: str) -> str:
    """A slot in ISO 8601, as the clocks of its time zone show it."""
    return (_EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=slot)).astimezone(_zone(tz)).isoformat()


def _one_by_one(plan: SlotPlan, slot: int, now: int, limit: int) -> tuple[list[Fire], int | None]:
    due: list[Fire] = []
    following: int | None = slot
    while following is not None and following <= now and len(due) < limit:
        due.append(Fire(following))
        following = plan.after(following)
    return due, following


class Every:
    """A slot once per period, counted from the schedule's creation: it never drifts.

    A creation in the future was noted by a clock that was set back since. The same slots are then counted backwards.
    """

    def __init__(self, anchor: int, period: int) -> None:
        self._anchor = anchor
        self._period = period

    def after(self, moment: int) -> int:
        """The first slot is one period after the creation."""
        passed = (moment - self._anchor) // self._period
        if moment >= self._anchor - GRACE:
            passed = max(passed, 0)
        return self._anchor + (passed + 1) * self._period


class Cron:
    """The slots of a cron line in a time zone.

    The line is run on a clock that never changes; what the clocks of the zone do is dealt with here. All times are
    whole seconds, `local` ones without a zone.
    """

    def __init__(self, line: str, zone: Any) -> None:
        self._zone = zone
        self._run = _simulation(line)
        self._every_hour = len(self._run.hours) == 24

    def after(self, moment: int) -> int | None:
        """The first slot after a moment."""
        try:
            slot = (self._shown if self._every_hour else self._by_the_wall)(moment // 1_000_000)
        except OverflowError:  # The calendar ends with the year 9999.
            return None
        return None if slot is None else slot * 1_000_000

    def _by_the_wall(self, moment: int) -> int | None:
        """Each time of day once."""
        local = _local(moment, self._offset(moment))
        while (match := self._match(local)) is not None:
            slot = self._first_shown(match)
            if slot > moment:
                return slot
            local = match
        return None

    def _shown(self, moment: int) -> int | None:
        """Every time that the clock shows a match. Up to the next change of the clock, that is easy to say."""
        offset = self._offset(moment)
        local = _local(moment, offset)
        while (match := self._match(local)) is not None:
            slot = _seconds(match - offset)
            near = min(slot, moment + _DAY)
            if self._offset(near) != offset:
                moment = self._change(moment, near)
                offset = self._offset(moment)
                local = _local(moment, offset) - _SECOND
            elif slot > near:
                moment = slot - _DAY
                offset = self._offset(moment)
                local = _local(moment, offset)
            else:
                return slot
        return None

    def _match(self, local: datetime) -> datetime | None:
        """The first match of the line after a local time."""
        self._run.dt = local
        return next(self._run, None)

    def _first_shown(self, local: datetime) -> int:
        """When the clock shows a local time first, or has jumped over it."""
        before, after = self._offset_of(local, 0), self._offset_of(local, 1)
        first = _seconds(local - before)
        return first if before >= after else self._change(_seconds(local - after), first)

    def _change(self, low: int, high: int) -> int:
        """The first second up to `high` with another offset than at `low`."""
        offset = self._offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, moment: int) -> timedelta:
        instant = (_EPOCH + timedelta(seconds=moment)).replace(tzinfo=UTC).astimezone(self._zone)
        return instant.utcoffset() or timedelta()

    def _offset_of(self, local: datetime, fold: int) -> timedelta:
        return local.replace(tzinfo=self._zone, fold=fold).utcoffset() or timedelta()


def _local(moment: int, offset: timedelta) -> datetime:
    return _EPOCH + timedelta(seconds=moment) + offset


def _seconds(naive: datetime) -> int:
    return (naive - _EPOCH) // _SECOND


def _timing(cron: str | None, every: Duration | None) -> tuple[str | None, float | None]:
    """A cron line or a period in seconds; "@every 5m" is the same as every="5m"."""
    if (cron is None) == (every is None):
        raise InvalidInput('schedule() needs either cron="0 9 * * *" or every="5m"')
    if cron is None:
        return None, _period(every, "every")
    line = _line(cron)
    if line.startswith(_EVERY + " "):
        return None, _period(line.removeprefix(_EVERY + " "), "cron @every")
    _simulation(line)
    return line, None


def _line(cron: str) -> str:
    if not isinstance(cron, str) or len(cron) > _LONGEST_LINE:
        raise InvalidInput(f'cron must be text such as "0 9 * * *", not {shown(cron)}')
    return " ".join(cron.split())


def _simulation(line: str) -> CronSim:
    from cronsim import CronSim, CronSimError

    try:
        return CronSim(ALIASES.get(line.lower(), line), _EPOCH)
    except (CronSimError, AssertionError, TypeError, ValueError) as problem:
        reason = str(problem) or "unreadable"
        if reason == _BAD_DAY:
            reason += ", or one that no month of the line has"
        raise InvalidInput(
            f"cron {shown(line)} is not a cron line ({reason}): write minute, hour, day of month, "
            f"month and day of week, with a sixth field for seconds in front if needed, or one of "
            f'{", ".join(ALIASES)}, "{_EVERY} 5m"'
        ) from None


def _period(every: Any, what: str) -> float:
    period = seconds(every, what)
    if period < 1:
        raise InvalidInput(f"{what} must be at least a second, not {shown(every)}")
    return period


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise InvalidInput(
            f'tz {shown(name)} is not a time zone: write a name such as "Europe/Berlin" or "UTC"'
        ) from None


def _checked_zone(_: str, value: Any) -> str:
    _zone(value)
    return str(value)


_SCHEDULE_READERS: dict[str, Reader] = {
    "queue": lambda name, value: channel_name(value, name),
    "body": lambda _, value: msgspec.Raw(encode_json(value)),
    "cron": lambda _, value: value,
    "every": lambda _, value: value,
    "tz": _checked_zone,
    "missed": one_of(MISSED),
    "priority": lambda _, value: priorities.priority(value),
    "key": lambda name, value: plain_text(value, name),
    "headers": lambda _, value: value,
}
