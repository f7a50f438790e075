"""A topic's groups, for whoever looks. Shared by both stores."""

from __future__ import annotations

import msgspec

from holdfast.store.api import Channel, Topic
from holdfast.store.engine import read
from holdfast.store.transaction import Row, Transaction
from holdfast.topics.rules.declaration import GroupSpec, GroupStatus, parts
from holdfast.topics.steps import topics

_spec = msgspec.json.Decoder(GroupSpec)


def groups(tx: Transaction, topic: Topic) -> list[GroupStatus]:
    """The groups of a topic, by name."""
    return [_status(tx, topic, row) for row in tx.all("liveness.groups", topic=topic.id)]


def _status(tx: Transaction, topic: Topic, row: Row) -> GroupStatus:
    number, group, name, raw_spec, canceled_at, paused, dead_at, deaths, revivals, lost, beat_at = row
    spec = _spec.decode(raw_spec)
    channel = Channel(number, group, topic.tenant, name, spec, topic.id)
    numbers = read.stats(tx, channel)
    behind, past = topics.progress(tx, channel)
    seen = tx.all("consumers.recent", group=group)
    heard = max([at for _, at in seen], default=beat_at)
    found = parts(name)
    return GroupStatus(
        topic=topic.name,
        group=found[1] if found else name,
        patterns=list(spec.patterns),
        state=_state(canceled_at, dead_at, paused),
        lag=numbers.queue_depth,
        behind=behind,
        past=past,
        oldest=numbers.age_of_oldest_item,
        in_flight=numbers.processing,
        dead_letters=numbers.dead,
        deaths=deaths,
        revivals=revivals,
        lost=lost,
        members=[worker for worker, _ in seen],
        last_seen_us=heard or None,
    )


def _state(canceled_at: int | None, dead_at: int | None, paused: bool) -> str:
    if canceled_at is not None:
        return "canceled"
    return "dead" if dead_at is not None else "paused" if paused else "active"
