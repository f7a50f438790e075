"""Schedules: declared, fired, paused. Shared by both stores.

Firing is one transaction per schedule. It takes the schedule if its slot is due, inserts the messages and moves
`next_at` on to a later slot: all of it happens, or nothing. A slot is fired only while `next_at` names it, and
`next_at` goes back only if the clock was set back by more than a minute, so a slot is fired once, however many
processes fire and wherever one of them is killed.
A change rings for the crew: who sleeps until the next slot has to know which one that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.consumers.steps.consumers import CREW
from holdfast.core.given import Settle
from holdfast.core.message import MessageId
from holdfast.errors import NotFound
from holdfast.schedules.rules import GRACE, Fire, Schedule, ScheduleSpec, fires, first_after, plan, slot_text
from holdfast.store.engine import insert
from holdfast.store.engine.internal_messages import compose, destination
from holdfast.store.ids import new_id
from holdfast.store.transaction import Row, Transaction

_encode = msgspec.json.Encoder().encode
_spec = msgspec.json.Decoder(ScheduleSpec)


def declare(tx: Transaction, tenant: str, name: str, settle: Settle[ScheduleSpec]) -> None:
    """Creates a schedule, or makes of one what `settle` makes of its settings, while nobody else changes them.

    While its timing stays as it was, so does the slot it waits for.
    """
    now = tx.clock()
    while (found := tx.one("schedules.lock", tenant=tenant, name=name)) is None:
        spec = settle(None)
        first = plan(spec, now).after(now)
        if tx.one("schedules.add", tenant=tenant, name=name, spec=_encode(spec), created_at=now, next_at=first):
            tx.rings.add(CREW)
            return  # Otherwise someone else was the first to add it.
    before, anchor, next_at, due_at, last_slot, paused, set_at = found
    spec = settle(_spec.decode(before))
    raw = _encode(spec)
    if before == raw:
        return
    if _spec.decode(before).timing != spec.timing or set_at > now + GRACE:
        next_at = first_after(plan(spec, anchor), now, last_slot)
        due_at = None if paused else next_at
    tx.run("schedules.change", tenant=tenant, name=name, spec=raw, next_at=next_at, due_at=due_at)
    tx.rings.add(CREW)


def find(tx: Transaction, tenant: str, name: str) -> ScheduleSpec | None:
    """What a schedule says."""
    found = tx.one("schedules.find", tenant=tenant, name=name)
    return None if found is None else _spec.decode(found[0])


def remove(tx: Transaction, tenant: str, name: str) -> bool:
    """Ends a schedule; whether there was one."""
    return tx.one("schedules.remove", tenant=tenant, name=name) is not None


def every(tx: Transaction, tenant: str) -> list[Schedule]:
    """All schedules, by name."""
    return [_read(*row) for row in tx.all("schedules.list", tenant=tenant)]


def pause(tx: Transaction, tenant: str, name: str, paused: bool) -> None:
    """Stops a schedule, or lets it go on with the first slot from now: what came in between is not missed."""
    found = tx.one("schedules.lock", tenant=tenant, name=name)
    if found is None:
        raise _unknown(name)
    raw, anchor, next_at, _, last_slot, was_paused, _ = found
    if paused == bool(was_paused):
        return
    if not paused:
        next_at = first_after(plan(_spec.decode(raw), anchor), tx.clock(), last_slot)
    due_at = None if paused else next_at
    tx.run("schedules.pause", tenant=tenant, name=name, paused=paused, next_at=next_at, due_at=due_at)
    tx.rings.add(CREW)


def ahead(tx: Transaction, tenant: str, limit: int) -> list[str]:
    """Schedules whose next slot lies too far ahead, because the clock was set back."""
    return [name for (name,) in tx.all("schedules.ahead", tenant=tenant, grace=GRACE, limit=limit)]


def due(tx: Transaction, tenant: str, limit: int) -> list[Row]:
    """Schedules with a slot that is due, for `prepare`."""
    return tx.all("schedules.due", tenant=tenant, limit=limit)


def next_due(tx: Transaction, tenant: str) -> float | None:
    """Seconds until a schedule is due; 0 or less if one is."""
    found = tx.one("schedules.next_due", tenant=tenant)
    return None if found is None or found[0] is None else found[0] / 1_000_000


class Firing(msgspec.Struct, frozen=True):
    """What to send of a schedule as it was `seen`, and the slot to wait for next."""

    name: str
    seen: Row
    spec: ScheduleSpec
    due: list[Fire]
    following: int | None


def prepare(row: Row, limit: int) -> Firing:
    """What is due of one schedule, `limit` slots at most. Before the transaction: counting takes time."""
    name, raw, anchor, slot, now = row
    spec = _spec.decode(raw)
    return Firing(name, (raw, anchor, slot), spec, *fires(plan(spec, anchor), spec.missed, slot, now, limit))


def fire(tx: Transaction, tenant: str, firing: Firing) -> int:
    """Sends it; how many messages."""
    name, due = firing.name, firing.due
    if tx.one("schedules.take", tenant=tenant, name=name) != firing.seen:
        return 0  # Someone else has fired it by now, or is about to; or it was changed, and is looked at again.
    if due:
        _send(tx, tenant, name, firing.spec, due, [new_id() for _ in due])
    last = due[-1].slot if due else None
    tx.run("schedules.fired", tenant=tenant, name=name, next_at=firing.following, last_slot=last)
    return len(due)


def resume(tx: Transaction, tenant: str, name: str) -> None:
    """After the clock was set back: the schedule waits for the next slot of the corrected clock."""
    found, now = tx.one("schedules.lock", tenant=tenant, name=name), tx.clock()
    if found is None:
        return
    raw, anchor, next_at, due_at, last_slot, _, set_at = found
    if due_at is None or set_at <= now + GRACE:
        return  # Someone else has done it, or has paused it.
    if next_at is not None and next_at > now:
        next_at = first_after(plan(_spec.decode(raw), anchor), now, last_slot)
    tx.run("schedules.resume", tenant=tenant, name=name, next_at=next_at)
    tx.rings.add(CREW)


def note(tx: Transaction, tenant: str, name: str, error: str) -> None:
    """Keeps the reason why it could not go on."""
    tx.run("schedules.note", tenant=tenant, name=name, error=error)


def postpone(tx: Transaction, tenant: str, name: str, error: str) -> None:
    """Its slot could not be sent, and is tried again in a second; others come first."""
    tx.run("schedules.postpone", tenant=tenant, name=name, error=error)


def run(tx: Transaction, tenant: str, name: str, fresh: MessageId) -> None:
    """Sends its message now, beside the plan."""
    found = tx.one("schedules.find", tenant=tenant, name=name)
    if found is None:
        raise _unknown(name)
    _send(tx, tenant, name, _spec.decode(found[0]), [Fire(tx.clock())], [fresh])


def _send(
    tx: Transaction,
    tenant: str,
    name: str,
    spec: ScheduleSpec,
    due: Sequence[Fire],
    ids: Sequence[MessageId],
) -> None:
    """As an enqueue does it: a full queue refuses."""
    target, body = destination(tx, tenant, spec.queue), bytes(spec.body)
    new = [
        compose(target, message_id, body, spec.priority, spec.key, _headers(name, spec, one))
        for one, message_id in zip(due, ids, strict=True)
    ]
    insert.insert(tx, new)


def _headers(name: str, spec: ScheduleSpec, fire: Fire) -> bytes:
    marks: dict[str, object] = {"holdfast-schedule": name, "holdfast-slot": slot_text(fire.slot, spec.tz)}
    if fire.missed:
        marks["holdfast-missed"] = fire.missed
    return _encode({**(spec.headers or {}), **marks})


def _read(
    name: str,
    raw: bytes,
    paused: bool,
    next_at: int | None,
    last_slot: int | None,
    last_at: int | None,
    created_at: int,
    error: str | None,
) -> Schedule:
    spec = _spec.decode(raw)
    return Schedule(
        name=name,
        queue=spec.queue,
        body=msgspec.json.decode(spec.body),
        cron=spec.cron,
        every=spec.every,
        tz=spec.tz,
        missed=spec.missed,
        priority=spec.priority,
        key=spec.key,
        headers=spec.headers,
        paused=bool(paused),
        next_at_us=None if paused else next_at,
        last_slot_us=last_slot,
        last_at_us=last_at,
        created_at_us=created_at,
        error=error,
    )


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r}; hf.schedules.list() lists those that there are")
