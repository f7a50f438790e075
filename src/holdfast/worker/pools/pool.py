"""A pool as declared: one consumer, several of it, as many as the work needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from holdfast.core.duration import Duration, seconds
from holdfast.core.given import Default, Reader, SettingsUpdate, read_settings
from holdfast.core.message import encode_json
from holdfast.core.queue import channel_name, one_of
from holdfast.errors import InvalidInput, shown
from holdfast.worker.pools.restarts import Restarts
from holdfast.worker.pools.scaling import PoolSpec

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer

MOST_MEMBERS = 1_000
LONGEST_LABELS = 200
KINDS = ("process", "thread")


class PoolOptions(TypedDict, total=False):
    """The keywords of `hf.pool(consumer, …)`."""

    name: str | Default | None
    min: int | Default
    max: int | Default
    scale_up_depth: int | Default
    scale_down_depth: int | Default
    scale_up_age: Duration | Default
    cooldown: Duration | Default
    members: str | Default
    owner: str | Default | None
    max_crashes: int | Default
    crash_window: Duration | Default


class _Chosen(msgspec.Struct, frozen=True):
    """The options of a pool, all of them."""

    name: str | None = None
    min: int = 1
    max: int = 4
    scale_up_depth: int = 20
    scale_down_depth: int = 5
    scale_up_age: float = 30.0
    cooldown: float = 10.0
    members: str = "process"
    owner: str | None = None
    max_crashes: int = 5
    crash_window: float = 60.0


class Pool:
    """What `hf.pool(…)` makes: run by the supervisor of `hf.run`, together with the same pool of other processes."""

    def __init__(self, consumer: Consumer, options: PoolOptions, before: Pool | None = None) -> None:
        self.consumer = consumer
        change = SettingsUpdate(_Chosen, read_settings("pool()", cast("Mapping[str, Any]", options), READERS))
        self._choose(change(None if before is None else before._chosen))

    def become(self, other: Pool) -> None:
        """Takes over the options of another declaration of this pool."""
        self._choose(other._chosen)

    def _choose(self, chosen: _Chosen) -> None:
        if chosen.min > chosen.max:
            raise InvalidInput(f"min must not be above max, and {chosen.min} is above {chosen.max}")
        if chosen.scale_down_depth >= chosen.scale_up_depth:
            raise InvalidInput(
                f"scale_down_depth must be below scale_up_depth, and {chosen.scale_down_depth} is not below "
                f"{chosen.scale_up_depth}"
            )
        self._chosen = chosen
        self.name = self.consumer.name if chosen.name is None else chosen.name
        self.owner = chosen.owner
        self.members = chosen.members
        self.spec = PoolSpec(
            least=chosen.min,
            most=chosen.max,
            up_depth=chosen.scale_up_depth,
            down_depth=chosen.scale_down_depth,
            up_age=chosen.scale_up_age,
            cooldown=chosen.cooldown,
        )
        self.restarts = Restarts(most=chosen.max_crashes, window=chosen.crash_window)

    @property
    def key(self) -> str:
        """What its seats are counted under: tiers of one name are pools of their own."""
        return _key(self.name, self.consumer.labels)

    def __repr__(self) -> str:
        return f"Pool({self.name!r}, {self.spec.least}..{self.spec.most} of {self.consumer!r})"


def _key(name: str, labels: dict[str, str]) -> str:
    """Readable, unless the labels are long: a database has it in an index. No name has a slash."""
    if not labels:
        return name
    text = encode_json(dict(sorted(labels.items())))
    return f"{name}/{text.decode() if len(text) <= LONGEST_LABELS else hashlib.sha256(text).hexdigest()}"


def _count(least: int, most: int = 1_000_000_000) -> Reader:
    def read(what: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput(f"{what} must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    return read


def _name(what: str, value: Any) -> str | None:
    return None if value is None else channel_name(value, what)


def _time(what: str, value: Any) -> float:
    return seconds(value, what)


READERS: dict[str, Reader] = {
    "name": _name,
    "min": _count(0, MOST_MEMBERS),
    "max": _count(1, MOST_MEMBERS),
    "scale_up_depth": _count(1),
    "scale_down_depth": _count(0),
    "scale_up_age": _time,
    "cooldown": _time,
    "members": one_of(KINDS),
    "owner": _name,
    "max_crashes": _count(1),
    "crash_window": _time,
}
