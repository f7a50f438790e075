"""Sagas: declared, started, moved on. Shared by both stores.

Nobody coordinates. Every transaction in which a message of a step ends moves its saga on before it commits, so there is
no moment in which the step is done and the saga does not know. `move_on` is called by the stores at the end of every
transaction; without a message of a step, it looks at an empty list.

Who settles a message locks its row, then its saga, then the keys of ordered queues. So whoever holds a saga waits for
no row: a message that someone else has locked is left as it is, and looked at again a second later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from typing import Any

import msgspec

from holdfast.consumers.steps.consumers import CREW
from holdfast.core.dead_letter import shortened
from holdfast.core.message import MessageId, id_bytes, id_text
from holdfast.errors import HoldfastError, IdempotencyConflict, InvalidInput, NotFound
from holdfast.sagas.rules.declaration import (
    UNDER_WAY,
    Instance,
    Reference,
    SagaEvent,
    SagaSpec,
    SagaStatus,
    StepStatus,
    new_instance,
)
from holdfast.sagas.rules.events import (
    AttemptFailed,
    Begin,
    CancelSaga,
    Event,
    MarkDone,
    MessageEnded,
    MessageReturned,
    RetryStep,
    Signal,
    SkipStep,
    Tick,
)
from holdfast.sagas.steps.effects import LockedSaga, SagaWork, read_spec
from holdfast.sagas.steps.step_ends import FailedAttempt, Happening, StepReturned
from holdfast.sagas.steps.values import NewSaga
from holdfast.store.engine import dead_letters, rows
from holdfast.store.transaction import Row, Transaction

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_instance = msgspec.json.Decoder(Instance)
_sorted = msgspec.json.Encoder(order="sorted").encode

ERROR_KEPT = 4000
"""Characters of an error in a saga's history; the dead letter has all of it."""
CALLS_KEPT = 9

MOST_LINES = 2_000
"""So many lines of what happened are removed in one transaction, or those of one saga: some milliseconds."""


def declare(tx: Transaction, tenant: str, name: str, spec: SagaSpec) -> int:
    """Makes this definition the one that new sagas have; its version, an older one if it was declared before."""
    raw = _encode(spec)
    tx.rings.add(CREW)  # Someone may be there for a command that nobody has used before.
    while True:  # Whoever is not the first to add a version finds it.
        for query in ("sagas.redeclare", "sagas.define"):
            if found := tx.one(query, tenant=tenant, name=name, spec=raw):
                return found[0]  # type: ignore[no-any-return]


def start(tx: Transaction, new: Sequence[NewSaga]) -> list[HoldfastError | None]:
    """Begins sagas, each unless it was begun before under the same id; for those that are refused, why."""
    names = sorted({(one.tenant, one.name) for one in new})
    current = {name: tx.one("sagas.current", tenant=name[0], name=name[1]) for name in names}
    drafts: dict[tuple[str, str], NewSaga] = {}
    for one in sorted(new, key=lambda one: (one.tenant, one.id)):  # As everybody: two that start the same may meet.
        if current[one.tenant, one.name] is not None:
            drafts.setdefault((one.tenant, one.id), one)
    given = _begin(tx, list(drafts.values()), current)
    return [_refusal(one, current[one.tenant, one.name], given.get((one.tenant, one.id))) for one in new]


def _begin(
    tx: Transaction, new: list[NewSaga], current: dict[tuple[str, str], Row | None]
) -> dict[tuple[str, str], bytes]:
    """Adds sagas and sends what their first steps need; what each was started with, now or before."""
    given, drafts, begun, known = dict[tuple[str, str], bytes](), [], [], []
    for one in new:
        found = current[one.tenant, one.name]
        assert found is not None, "only of a definition that there is"
        spec, data = read_spec(found[1]), _decode(one.data)
        if _hidden(spec, data):
            known.append(one)  # If at all, it was started when its steps had other names.
            continue
        saga = new_instance(spec, data)
        begun.append((one, saga, spec))
        key = {"tenant": one.tenant, "saga_id": one.id}
        drafts.append({**key, "definition": found[0], "given": _digest(one), "state": _encode(saga)})
    work = SagaWork(tx)
    for (one, saga, spec), draft, row in zip(begun, drafts, tx.each("sagas.add", drafts), strict=True):
        if row is None:
            known.append(one)
        else:
            given[one.tenant, one.id] = draft["given"]
            work.carry_out(LockedSaga(row[0], one.tenant, one.id, 0, saga, spec), [Begin(one.delay, one.who)])
    work.write()
    before = tx.each("sagas.given", [{"tenant": one.tenant, "saga_id": one.id} for one in known])
    given.update({(one.tenant, one.id): row[0] for one, row in zip(known, before, strict=True) if row})
    return given


def _refusal(one: NewSaga, current: Row | None, given: bytes | None) -> HoldfastError | None:
    if current is None:
        return NotFound(f"there is no saga {one.name!r}: declare it first with hf.saga({one.name!r}, steps=[…])")
    if given is None and (hidden := _hidden(read_spec(current[1]), _decode(one.data))):
        return InvalidInput(
            f"data has {', '.join(map(repr, hidden))}, which is the name of a step: its output would take that place"
        )
    if given != _digest(one):
        return IdempotencyConflict(
            f"there is a saga {one.id!r} that was started with other data, or another name; nothing was started"
        )
    return None


def _hidden(spec: SagaSpec, data: dict[str, Any]) -> list[str]:
    """What the outputs of steps would replace."""
    return [step.name for step in spec.steps if step.name in data]


def _digest(one: NewSaga) -> bytes:
    return _digest_of(one.name, one.data)


@lru_cache(maxsize=256)
def _digest_of(name: str, data: bytes) -> bytes:
    """However the text of the data is ordered."""
    return sha256(name.encode() + b"\0" + _sorted(_decode(data))).digest()


def move_on(tx: Transaction) -> None:
    """The sagas of messages that have ended go on; always locked in the same order, and written together.

    Then those go on who waited behind these messages, if they had a key.
    """
    while tx.endings:
        ended: dict[int, list[Event]] = defaultdict(list)
        for one in tx.endings:
            reference = Reference.read(one.saga)
            ended[reference.saga].append(_event(reference, one))
        tx.endings.clear()
        numbers = sorted(ended)
        work = SagaWork(tx)
        for number, found in zip(numbers, tx.each("sagas.lock", [{"id": one} for one in numbers]), strict=True):
            if found is not None:
                work.carry_out(LockedSaga.of(found), ended[number])
        work.write()
    if tx.ended_keys:
        rows.promote_ended(tx)


def hold(tx: Transaction, references: Sequence[str]) -> None:
    """Sagas that will move on, for one who has to hold keys before: sagas come first."""
    tx.each("sagas.lock", [{"id": number} for number in sorted({Reference.read(one).saga for one in references})])


def tick(tx: Transaction, number: int) -> bool:
    """What time does to a saga; False if someone else has done it, or is about to."""
    found = tx.one("sagas.take_due", id=number)
    if found is None:
        return False
    _carry_out(tx, LockedSaga.of(found), [Tick()])
    return True


def leases(tx: Transaction, number: int) -> list[tuple[int, MessageId]]:
    """The messages whose holders were told to stop, by their groups and ids; looked at without a lock."""
    found = tx.one("sagas.state", id=number)
    steps = LockedSaga.of(found).saga.steps if found else []
    return sorted((one.group, id_bytes(one.id)) for step in steps for one in step.out if one.look is not None)


def forget(tx: Transaction, tenant: str, limit: int) -> int:
    """Removes sagas that ended long enough ago; how many. (`limit`, if it stopped before: there are more.)"""
    over = tx.all("sagas.over", tenant=tenant, limit=limit)
    lines = list(accumulate(count for _, count in over))
    few = max(1, bisect_right(lines, MOST_LINES))
    gone = [{"id": number} for number, _ in over[:few]]
    tx.each("sagas.forget_events", gone)
    tx.each("sagas.forget", gone)
    return len(over) if len(gone) == len(over) else limit


def signal(tx: Transaction, call: MessageId, tenant: str, saga_id: str, name: str, data: bytes, who: str) -> bool:
    """Tells a saga what happened outside; False if it does not matter to it any more."""
    return _once(tx, _named(tx, tenant, saga_id), Signal(name, _decode(data), who), call)


def cancel(tx: Transaction, call: MessageId, tenant: str, saga_id: str, reason: str | None, who: str) -> bool:
    """Turns a saga round; False if it has turned round, or ended, before."""
    done = _once(tx, _named(tx, tenant, saga_id), CancelSaga(reason, who), call)
    dead_letters.note(tx, tenant, who, "cancel_saga", None, {"saga": saga_id, "reason": reason}, int(done))
    return done


def decide(
    tx: Transaction,
    call: MessageId,
    tenant: str,
    saga_id: str,
    act: str,
    step: str,
    reason: str | None,
    output: bytes,
    who: str,
) -> bool:
    """What an operator says about a step, or its undo; False if there is nothing to decide."""
    held = _named(tx, tenant, saga_id)
    place = held.spec.place(step)
    event: Event
    if act == "retry":
        event = RetryStep(place, who)
    elif act == "skip":
        event = SkipStep(place, reason or "", who)
    else:
        event = MarkDone(place, _decode(output), who)
    done = _once(tx, held, event, call)
    dead_letters.note(
        tx, tenant, who, f"{act}_saga_step", None, {"saga": saga_id, "step": step, "reason": reason}, int(done)
    )
    return done


def _once(tx: Transaction, held: LockedSaga, event: Event, call: MessageId) -> bool:
    """What a user wants of a saga, unless an earlier try, whose answer got lost, came through."""
    text = id_text(call)
    if tx.again and text in held.saga.calls:
        return True
    held.saga.calls = [*held.saga.calls[-CALLS_KEPT:], text]
    return _carry_out(tx, held, [event])


def _named(tx: Transaction, tenant: str, saga_id: str) -> LockedSaga:
    found = tx.one("sagas.lock_named", tenant=tenant, saga_id=saga_id)
    if found is None:
        raise NotFound(f"there is no saga {saga_id!r}; hf.sagas.list() lists those that there are")
    return LockedSaga.of(found)


def _event(reference: Reference, ended: Happening) -> Event:
    if isinstance(ended, FailedAttempt):
        failure, error = ended.failure, shortened(ended.failure.error, ERROR_KEPT)
        traceback = failure.traceback and failure.traceback[-ERROR_KEPT:]
        return AttemptFailed(
            reference.step, reference.undo, error, failure.worker, ended.attempt, traceback, ended.unknown
        )
    if isinstance(ended, StepReturned):
        return MessageReturned(reference.step)
    return MessageEnded(
        reference.step,
        reference.undo,
        id_text(ended.id),
        ended.succeeded,
        None if ended.output is None else _decode(ended.output),
        shortened(ended.error, ERROR_KEPT),
        ended.final,
        ended.who,
        ended.attempt,
        ended.repeated,
        ended.traceback and ended.traceback[-ERROR_KEPT:],
        ended.unknown,
    )


def _carry_out(tx: Transaction, held: LockedSaga, events: list[Any]) -> bool:
    """One saga; whether it took the event."""
    work = SagaWork(tx)
    accepted = work.carry_out(held, events)
    work.write()
    return accepted


def definition(tx: Transaction, tenant: str, name: str) -> SagaSpec | None:
    """What new sagas of this name consist of."""
    found = tx.one("sagas.current", tenant=tenant, name=name)
    return None if found is None else read_spec(found[1])


def names(tx: Transaction, tenant: str) -> list[str]:
    """The names of all definitions."""
    return [name for (name,) in tx.all("sagas.names", tenant=tenant)]


def is_due(tx: Transaction, tenant: str) -> bool:
    """Whether time has something to do with a saga."""
    return tx.one("sagas.is_due", tenant=tenant) is not None


def is_over(tx: Transaction, tenant: str) -> bool:
    """Whether there is a saga to forget."""
    return tx.one("sagas.is_over", tenant=tenant) is not None


def due(tx: Transaction, tenant: str, limit: int) -> list[int]:
    """The numbers of sagas that time has something to do with."""
    return [number for (number,) in tx.all("sagas.due", tenant=tenant, limit=limit)]


def next_due(tx: Transaction, tenant: str) -> float | None:
    """Seconds until time has something to do with a saga; 0 or less if it has."""
    found = tx.one("sagas.next_due", tenant=tenant)
    return None if found is None or found[0] is None else found[0] / 1_000_000


def count(tx: Transaction, tenant: str, most: int) -> dict[str, int]:
    """How many sagas there are of each status that is no end, up to `most` of each."""
    found = tx.each("sagas.count", [{"tenant": tenant, "status": one.value, "most": most} for one in UNDER_WAY])
    return {one.value: row[0] for one, row in zip(UNDER_WAY, found, strict=True) if row}


def find(
    tx: Transaction, tenant: str, wanted: str | None, name: str | None, limit: int, after: str | None
) -> list[SagaStatus]:
    """Sagas, in the order in which they were started."""
    last = None if after is None else tx.one("sagas.find", tenant=tenant, saga_id=after)
    if after is not None and last is None:
        raise NotFound(f"after: there is no saga {after!r}, or none any more; begin again with the first page")
    place = {"tenant": tenant, "name": name, "limit": limit, "after": last[0] if last else 0}
    found = tx.all("sagas.list", **place) if wanted is None else tx.all("sagas.list_status", status=wanted, **place)
    return [_shown(row, []) for row in found]


def status(tx: Transaction, tenant: str, saga_id: str) -> SagaStatus | None:
    """One saga, with all that happened to it."""
    found = tx.one("sagas.find", tenant=tenant, saga_id=saga_id)
    if found is None:
        return None
    lines = [
        SagaEvent(at, what, step, who, attempt, error, None if output is None else _decode(output), traceback)
        for at, what, step, who, attempt, error, output, traceback in tx.all("sagas.events", saga=found[0])
    ]
    return _shown(found, lines)


def _shown(row: Row, timeline: list[SagaEvent]) -> SagaStatus:
    _, saga_id, name, version, state, raw_spec, started_at, updated_at, ended_at = row
    saga, spec = _instance.decode(state), read_spec(raw_spec)
    return SagaStatus(
        id=saga_id,
        name=name,
        version=version,
        status=saga.status.value,
        data=saga.data,
        steps=_steps(spec, saga),
        error=saga.error,
        started_at_us=started_at,
        updated_at_us=updated_at,
        ended_at_us=ended_at,
        timeline=timeline,
        traceback=_traceback(saga),
    )


def _traceback(saga: Instance) -> str | None:
    """That of the step which its error is about."""
    about = [step for step in saga.steps if step.error and saga.error and saga.error.endswith(step.error)]
    return next((step.traceback for step in about if step.traceback), None)


def _steps(spec: SagaSpec, saga: Instance) -> list[StepStatus]:
    return [
        StepStatus(
            name=one.name,
            status=kept.state.value,
            queue=one.queue,
            undo=one.undo,
            tries=kept.tries,
            undo_tries=kept.undo_tries,
            undoing=kept.undoing,
            undoable=one.undo is not None,
            error=kept.error,
            output=saga.data.get(one.name) if kept.order else None,
            started_at_us=kept.started_at,
            ended_at_us=kept.ended_at,
            due_at_us=kept.due,
            messages=[sent.id for sent in kept.out],
            traceback=kept.traceback,
        )
        for one, kept in zip(spec.steps, saga.steps, strict=True)
    ]
