"""A pool as declared: one consumer, several of it, as many as the work needs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.core.duration import Duration, seconds
from holdfast.core.message import encode_json
from holdfast.core.queue import channel_name
from holdfast.core.scaling import PoolSpec
from holdfast.core.supervision import Restarts
from holdfast.errors import InvalidInput, shown

if TYPE_CHECKING:
    from holdfast.runtime.consumer import Consumer

MOST_MEMBERS = 1_000
LONGEST_LABELS = 200
KINDS = ("process", "thread")


class PoolOptions(TypedDict, total=False):
    """The keywords of `hf.pool(consumer, …)`."""

    name: str | None
    min: int
    max: int
    scale_up_depth: int
    scale_down_depth: int
    scale_up_age: Duration
    cooldown: Duration
    members: str
    owner: str | None
    max_crashes: int
    crash_window: Duration


class Pool:
    """What `hf.pool(…)` makes: run by the supervisor of `hf.run`, together with the same pool of other processes."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        name: str | None = None,
        min: int = 1,
        max: int = 4,
        scale_up_depth: int = 20,
        scale_down_depth: int = 5,
        scale_up_age: Duration = "30s",
        cooldown: Duration = "10s",
        members: str = "process",
        owner: str | None = None,
        max_crashes: int = 5,
        crash_window: Duration = "1m",
    ) -> None:
        self.consumer = consumer
        self.name = channel_name(consumer.name if name is None else name)
        self.owner = None if owner is None else channel_name(owner, "owner")
        if members not in KINDS:
            raise InvalidInput(f"members must be one of {', '.join(KINDS)}, not {shown(members)}")
        self.members = members
        least, most = _count(min, "min", 0), _count(max, "max", 1)
        up, down = _count(scale_up_depth, "scale_up_depth", 1), _count(scale_down_depth, "scale_down_depth", 0)
        if least > most:
            raise InvalidInput(f"min must not be above max, and {least} is above {most}")
        if down >= up:
            raise InvalidInput(f"scale_down_depth must be below scale_up_depth, and {down} is not below {up}")
        self.spec = PoolSpec(
            least=least,
            most=most,
            up_depth=up,
            down_depth=down,
            up_age=seconds(scale_up_age, "scale_up_age"),
            cooldown=seconds(cooldown, "cooldown"),
        )
        self.restarts = Restarts(
            most=_count(max_crashes, "max_crashes", 1), window=seconds(crash_window, "crash_window")
        )

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


def _count(value: Any, what: str, least: int) -> int:
    most = MOST_MEMBERS if what in ("min", "max") else 1_000_000_000
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(f"{what} must be a whole number from {least} to {most}, not {shown(value)}")
    return value
