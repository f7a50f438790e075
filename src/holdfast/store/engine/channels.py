"""Queues by name: declared, found, changed without losing a message. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.budgets.rules import is_spent
from holdfast.budgets.steps import budgets
from holdfast.core import priority
from holdfast.core.dead_letter import copy_misfit
from holdfast.core.given import Settle
from holdfast.core.message import encode_json
from holdfast.core.queue import QueueSpec
from holdfast.errors import InvalidInput
from holdfast.replies.rules import REPLIES
from holdfast.sqs.steps.deliver import deliver_anew
from holdfast.store.api import Channel
from holdfast.store.engine import depth, limits
from holdfast.store.transaction import Row, Transaction
from holdfast.topics.rules.declaration import GroupSpec
from holdfast.topics.rules.routing import names_above

_spec = msgspec.json.Decoder(QueueSpec)
_group_spec = msgspec.json.Decoder(GroupSpec)


def declare(tx: Transaction, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel:
    """Creates a queue, or gives an existing one new settings; `settle` says which, while nobody else changes them."""
    hold_names(tx, tenant, name, alone=False)
    channel = before = None
    while channel is None:  # Whoever is not the first to create it finds it.
        found = tx.one("channels.lock", tenant=tenant, name=name)
        if found is not None and found[1] != "queue":
            raise InvalidInput(f"{name!r} is a topic: publish to it with hf.publish(), read it with hf.subscribe()")
        before = None if found is None else _spec.decode(found[2])
        spec = settle(before)
        if before == spec:
            return _certain(find(tx, tenant, name))
        channel = _create(tx, tenant, name, spec) if found is None else found[0]
    is_budget_new = before is not None and before.budget != spec.budget
    spent = budgets.hold(tx, _certain(find(tx, tenant, name)).group) if is_budget_new else 0.0
    if before is not None:
        tx.run("channels.change", channel=channel, spec=encode_json(spec))
    else:
        refuse_owned(tx, tenant, name)
    refuse_unfit_copies(tx, tenant, name, spec, before)
    history = round(spec.history * 1_000_000)
    joined = tx.one(
        "channels.join", channel=channel, history=history, limited=limits.level(spec), delivery=spec.delivery
    )
    assert joined is not None, "an upsert returns its row"
    group = joined[0]
    depth.limit(tx, channel, spec.max_depth)
    if before is None or _way(before) != _way(spec):
        deliver_anew(tx, channel, group)
    limits.declare(tx, channel, group, spec)
    if is_budget_new:
        budgets.mind(tx, channel, group, spec, spent)
    lanes = [priority.lane(channel, level) for level in priority.ALL]
    for lane in lanes:
        tx.run("channels.place_cursor", group=group, lane=lane, start=priority.lane_start(lane))
    return Channel(channel, group, tenant, name, spec)


def refuse_unfit_copies(tx: Transaction, tenant: str, name: str, spec: QueueSpec, before: QueueSpec | None) -> None:
    """What is told of deaths must be able to hold what it is told, whichever of the two was declared first."""
    if spec.dead_letter is not None:
        target = find(tx, tenant, spec.dead_letter)
        if target is not None:
            _refuse_unfit_copy(name, target.name, target.spec)
        elif above := owners(tx, tenant, [spec.dead_letter, *names_above(spec.dead_letter)]):
            raise InvalidInput(
                f"dead letters of {name!r} cannot be copied to {spec.dead_letter!r}, which belongs to the topic "
                f"{above[0][2]!r}: dead_letter needs the name of a queue"
            )
    if spec.message_type is not None and (before is None or before.message_type != spec.message_type):
        for other in readers(tx, tenant):
            if other.spec.dead_letter == name:
                _refuse_unfit_copy(other.name, name, spec)


def _refuse_unfit_copy(queue: str, target: str, spec: QueueSpec) -> None:
    reason = None if spec.message_type is None else copy_misfit(spec.message_type, queue)
    if reason is not None:
        raise InvalidInput(
            f"dead letters of {queue!r} cannot be copied to {target!r}, whose message type they do not fit: {reason}. "
            f"They have original_message, failed_at, error and attempts"
        )


def _create(tx: Transaction, tenant: str, name: str, spec: QueueSpec) -> int | None:
    """Its id; None if someone else has created it a moment ago."""
    created = tx.one("channels.declare", tenant=tenant, name=name, spec=encode_json(spec))
    return None if created is None else created[0]


def _certain(channel: Channel | None) -> Channel:
    assert channel is not None, "a queue has a hidden group"
    return channel


def _way(spec: QueueSpec) -> tuple[str, str | None]:
    """How messages get to consumers: what is on another way would not be found there."""
    return spec.delivery, spec.sqs_queue


def hold_names(tx: Transaction, tenant: str, name: str, *, alone: bool) -> None:
    """Until the transaction ends, nobody declares a name that would own this one; if `alone`, nor one below it."""
    tx.one("topics.hold_names", names=f"holdfast {tenant}/{name.split('.')[0]}", alone=alone)


def owners(tx: Transaction, tenant: str, names: Sequence[str]) -> list[Row]:
    """What owns these names and all below them: id, kind, name; the longest first."""
    return tx.all("channels.owners", tenant=tenant, names=encode_json(list(names)).decode())


def refuse_owned(tx: Transaction, tenant: str, name: str) -> None:
    """A name below one that owns everything below it is not free."""
    above = owners(tx, tenant, names_above(name))
    if above:
        raise InvalidInput(
            f"{name!r} belongs to the topic {above[0][2]!r}, which owns all names below it: "
            f"hf.publish({name!r}, …) goes there; a queue needs another name"
        )


def pause(tx: Transaction, channel: Channel, paused: bool) -> None:
    """Stops or starts the handing out of messages; sleepers look again when it starts.

    A queue whose budget is spent stays paused until there is more.
    """
    spent = budgets.hold(tx, channel.group)
    current = find(tx, channel.tenant, channel.name)
    is_over = current is not None and is_spent(spent, current.spec.budget)
    tx.run("channels.pause", group=channel.group, stopped=paused, paused=paused or is_over)
    if not paused:
        tx.rings.add(channel.id)


def is_paused(tx: Transaction, channel: Channel) -> bool:
    """Whether nothing is handed out, because an operator or a budget has said so."""
    found = tx.one("channels.is_paused", group=channel.group)
    return bool(found and found[0])


def paused(tx: Transaction, groups: Sequence[int]) -> set[int]:
    """Those of these groups that nothing is handed out to."""
    found = tx.all("channels.paused", groups=encode_json(list(groups)).decode())
    return {group for (group,) in found}


def find(tx: Transaction, tenant: str, name: str) -> Channel | None:
    """The queue of this name, if it was declared."""
    found = tx.one("channels.find", tenant=tenant, name=name)
    if found is None:
        return None
    return _channel(tenant, name, *found)


def names(tx: Transaction, tenant: str) -> list[str]:
    """The names of all queues but reply queues."""
    return [name for (name,) in tx.all("channels.names", tenant=tenant, own=REPLIES)]


def readers(tx: Transaction, tenant: str) -> list[Channel]:
    """Every queue and every group, by name, in one look: there may be a thousand."""
    return [_channel(tenant, *row) for row in tx.all("channels.readers", tenant=tenant, own=REPLIES)]


def _channel(tenant: str, name: str, channel: int, group: int, raw_spec: bytes, source: int | None) -> Channel:
    spec = _spec.decode(raw_spec) if source is None else _group_spec.decode(raw_spec)
    return Channel(channel, group, tenant, name, spec, source)
