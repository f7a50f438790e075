"""Times: whole microseconds since 1970 where they are stored and compared, aware datetimes where users read them.

A record keeps `created_at_us`; its `created_at` is made when it is read, so that a claim of a thousand messages
costs nothing for it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self, overload

from holdfast.errors import InvalidInput, shown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
UNIT = "_us"

LATEST_SECONDS = 1e11
"""What is above was not meant as seconds."""


class Moment:
    """A time of a record as a UTC `datetime`, made of the integer beside it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = name + UNIT

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...

    @overload
    def __get__(self, record: object, owner: type) -> datetime: ...

    def __get__(self, record: object | None, owner: type) -> Self | datetime:
        return self if record is None else utc(getattr(record, self._field))


class MomentOrNone:
    """The same for one that may not be."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = name + UNIT

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...

    @overload
    def __get__(self, record: object, owner: type) -> datetime | None: ...

    def __get__(self, record: object | None, owner: type) -> Self | datetime | None:
        return self if record is None else utc_or_none(getattr(record, self._field))


class WithTimes:
    """A record with times. Where people read it, they are datetimes."""

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in _told(self))})"


def utc(micros: int) -> datetime:
    """The time of the database as a `datetime`.

    >>> utc(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # A saga may wait for a time that no calendar has: nobody will see the difference.
        return datetime.max.replace(tzinfo=UTC)


def utc_or_none(micros: int | None) -> datetime | None:
    """The same for one that may not be."""
    return None if micros is None else utc(micros)


def text_of(micros: int) -> str:
    """The time as JSON has it: RFC 3339, in UTC.

    >>> text_of(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return utc(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def micros_of(value: datetime) -> int:
    """The way back, exactly."""
    return (value - EPOCH) // MICROSECOND


def given(value: Any, what: str) -> int:
    """A moment as a user writes it: a datetime with its zone, or Unix seconds."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidInput(
                f"{what} {value.isoformat()} has no time zone: write datetime(…, tzinfo=UTC), or datetime.now(UTC)"
            )
        return micros_of(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LATEST_SECONDS:
        return round(value * 1_000_000)
    raise InvalidInput(
        f"{what} must be a datetime with a time zone, such as datetime.now(UTC), or seconds since 1970, "
        f"not {shown(value)}"
    )


def fields(record: WithTimes) -> dict[str, Any]:
    """Its parts by the names that users know, times as datetimes."""
    return dict(_told(record))


def readable(value: Any) -> Any:
    """A record as a dict, and records in it too: by the names that users know, with datetimes."""
    if isinstance(value, WithTimes):
        return {name: readable(part) for name, part in _told(value)}
    if isinstance(value, list | tuple):
        return [readable(part) for part in value]
    if isinstance(value, dict):
        return {name: readable(part) for name, part in value.items()}
    return value


def _told(record: WithTimes) -> list[tuple[str, Any]]:
    names = [name.removesuffix(UNIT) for name in record.__struct_fields__]
    return [(name, getattr(record, name)) for name in names]
