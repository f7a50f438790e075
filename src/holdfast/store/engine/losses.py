"""Whether another value of a setting would remove messages that are kept now. Changes nothing. Shared by both stores.

Each answer is what the step that removes them would find with the other value, so that a plan is right when it is made.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from holdfast.core import priority
from holdfast.store.api import Channel, Topic
from holdfast.store.engine import read
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing
from holdfast.topics.steps import retention


def removes(tx: Transaction, of: Channel | Topic, setting: str, value: Any) -> bool:
    """Whether messages go if a setting of a queue, a group or a topic gets this value. None keeps everything."""
    if value is None:
        return False
    if isinstance(of, Topic):
        return retention.removes(tx, structs.replace(of, spec=structs.replace(of.spec, **{setting: value})))
    if setting == "max_age":
        age = read.stats(tx, of).age_of_oldest_item
        return age is not None and age >= value
    if setting == "dead_retention":
        return tx.one("dead.is_older", channel=of.id, age=_micros(value)) is not None
    if setting == "history":
        return any(tx.one(query, group=of.group, age=_micros(value)) for query in ("runs.is_older", "rows.is_older"))
    if setting == "history_limit":
        kept = tx.one("tally.kept", group=of.group)
        return kept is not None and kept[0] > value
    assert setting == "patterns", "no other setting removes anything"
    return _passes_by(tx, of, value)


def _passes_by(tx: Transaction, group: Channel, patterns: tuple[str, ...]) -> bool:
    """Whether a group is owed messages that it would not want any more."""
    topic = group.name.partition("/")[0]
    if routing.wants_all(topic, patterns):
        return False
    wanted = routing.expression(patterns)
    lanes = [group.lane(level) for level in priority.ALL]
    return any(tx.one("topics.unwanted", group=group.group, lane=lane, wanted=wanted) for lane in lanes)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
