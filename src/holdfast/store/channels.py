"""Queues by name: declared, found, changed without losing a message. Shared by both stores."""

from __future__ import annotations

import msgspec

from holdfast.core import priority
from holdfast.core.message import encode_json
from holdfast.core.queue import QueueSpec
from holdfast.store import depth, limiting
from holdfast.store.api import Channel
from holdfast.store.transaction import Transaction

_spec = msgspec.json.Decoder(QueueSpec)


def declare(tx: Transaction, tenant: str, name: str, spec: QueueSpec) -> Channel:
    """Creates a queue, or gives an existing one new settings."""
    found = tx.one("channels.declare", tenant=tenant, name=name, spec=encode_json(spec))
    assert found is not None, "an upsert returns its row"
    channel = found[0]
    history = round(spec.history * 1_000_000)
    joined = tx.one("channels.join", channel=channel, history=history, limited=limiting.level(spec))
    assert joined is not None, "an upsert returns its row"
    group = joined[0]
    depth.limit(tx, channel, spec.max_depth)
    limiting.declare(tx, channel, group, spec)
    lanes = [priority.lane(channel, level) for level in priority.ALL]
    for lane in lanes:
        tx.run("channels.place_cursor", group=group, lane=lane, start=priority.lane_start(lane))
    return Channel(channel, group, tenant, name, spec)


def pause(tx: Transaction, channel: Channel, paused: bool) -> None:
    """Stops or starts the handing out of messages; sleepers look again when it starts."""
    tx.run("channels.pause", group=channel.group, paused=paused)
    if not paused:
        tx.rings.add(channel.id)


def find(tx: Transaction, tenant: str, name: str) -> Channel | None:
    """The queue of this name, if it was declared."""
    found = tx.one("channels.find", tenant=tenant, name=name)
    if found is None:
        return None
    channel, group, raw_spec = found
    return Channel(channel, group, tenant, name, _spec.decode(raw_spec))
