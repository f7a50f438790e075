"""What may be asked of a store about sagas. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.saga import UNDER_WAY, Instance, SagaEvent, SagaSpec, SagaStatus, StepStatus
from holdfast.errors import HoldfastError, NotFound
from holdfast.store import expiry, letters, sagas
from holdfast.store.ids import new_id
from holdfast.store.roles import Database
from holdfast.store.saga_api import NewSaga
from holdfast.store.transaction import Row, Transaction

_decode = msgspec.json.Decoder().decode
_spec = msgspec.json.Decoder(SagaSpec)
_instance = msgspec.json.Decoder(Instance)


class SagasRole:
    """Several steps that all happen, or are undone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, spec: SagaSpec) -> int:
        return self._database.write(lambda tx: sagas.declare(tx, tenant, name, spec))

    def start(self, new: Sequence[NewSaga]) -> list[HoldfastError | None]:
        return self._database.accept(lambda tx: sagas.start(tx, new))

    def signal(self, tenant: str, saga_id: str, name: str, data: bytes, who: str) -> bool:
        call = new_id()
        return self._database.write(lambda tx: sagas.signal(tx, tenant, saga_id, name, data, who, call))

    def cancel(self, tenant: str, saga_id: str, reason: str | None, who: str) -> bool:
        call = new_id()

        def work(tx: Transaction) -> bool:
            done = sagas.cancel(tx, tenant, saga_id, reason, who, call)
            letters.note(tx, tenant, who, "cancel_saga", None, {"saga": saga_id, "reason": reason}, int(done))
            return done

        return self._database.write(work)

    def decide(
        self, tenant: str, saga_id: str, act: str, step: str, reason: str | None, output: bytes, who: str
    ) -> bool:
        call = new_id()

        def work(tx: Transaction) -> bool:
            done = sagas.decide(tx, tenant, saga_id, act, step, reason, output, who, call)
            about = {"saga": saga_id, "step": step, "reason": reason}
            letters.note(tx, tenant, who, f"{act}_saga_step", None, about, int(done))
            return done

        return self._database.write(work)

    def is_due(self, tenant: str) -> bool:
        return self._database.glance(lambda tx: tx.one("sagas.is_due", tenant=tenant)) is not None

    def advance(self, tenant: str, limit: int) -> int:
        due = self._database.glance(lambda tx: tx.all("sagas.due", tenant=tenant, limit=limit))
        moved = sum(self._tick(number) for (number,) in due)
        return moved + self._forget(tenant, limit - len(due))

    def next_due(self, tenant: str) -> float | None:
        """Seconds until time has something to do with a saga; 0 or less if it has."""
        found = self._database.glance(lambda tx: tx.one("sagas.next_due", tenant=tenant))
        return None if found is None or found[0] is None else found[0] / 1_000_000

    def find(
        self, tenant: str, status: str | None, name: str | None, limit: int, after: str | None
    ) -> list[SagaStatus]:
        return self._database.read(lambda tx: find(tx, tenant, status, name, limit, after))

    def count(self, tenant: str, most: int) -> dict[str, int]:
        wanted = [{"tenant": tenant, "status": one.value, "most": most} for one in UNDER_WAY]
        found = self._database.glance(lambda tx: tx.each("sagas.count", wanted))
        return {one.value: row[0] for one, row in zip(UNDER_WAY, found, strict=True) if row}

    def status(self, tenant: str, saga_id: str) -> SagaStatus | None:
        return self._database.read(lambda tx: status(tx, tenant, saga_id))

    def _forget(self, tenant: str, limit: int) -> int:
        is_over = limit > 0 and self._database.glance(lambda tx: tx.one("sagas.is_over", tenant=tenant))
        return self._database.write(lambda tx: sagas.forget(tx, tenant, limit)) if is_over else 0

    def _tick(self, number: int) -> bool:
        return self._database.write(lambda tx: tick(tx, number))


def tick(tx: Transaction, number: int) -> bool:
    """What time does to a saga. First it hears of steps that it has withdrawn and whose leases have ended."""
    taken_back = [expiry.take_back_step(tx, group, message_id) for group, message_id in sagas.leases(tx, number)]
    if any(taken_back):
        sagas.move_on(tx)
    return sagas.tick(tx, number) or any(taken_back)


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
    saga, spec = _instance.decode(state), _spec.decode(raw_spec)
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
