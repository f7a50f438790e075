"""What follows from what happened to sagas, done in one transaction. Shared by both stores."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.core.dead_letter import ErrorText
from holdfast.core.given import unless_there
from holdfast.core.message import MessageId, id_bytes, id_text
from holdfast.core.queue import QueueSpec
from holdfast.errors import HoldfastError, StoreError
from holdfast.notices import steps as notices
from holdfast.sagas.rules.declaration import Instance, Reference, SagaSpec
from holdfast.sagas.rules.events import Effect, Escalate, MessageEnded, Note, Relieve, Send, Withdraw, sent_note
from holdfast.sagas.rules.instance import is_over, look_again, next_due, sent, withdrawn
from holdfast.sagas.rules.moves import move
from holdfast.sagas.rules.step_messages import body_of, headers_of, step_key
from holdfast.store.api import Channel
from holdfast.store.engine import channels, counters, depth, rows
from holdfast.store.engine.internal_messages import compose
from holdfast.store.engine.rows import NewRow
from holdfast.store.ids import new_id
from holdfast.store.transaction import Row, Transaction

_encode = msgspec.json.Encoder().encode
_instance = msgspec.json.Decoder(Instance)

read_spec = lru_cache(maxsize=256)(msgspec.json.Decoder(SagaSpec).decode)
"""A definition as it is stored; most sagas of a batch have the same."""


LOOK_AGAIN = 1_000_000
"""Microseconds until a message is looked at again that could not be withdrawn because someone had it locked."""


class LockedSaga(msgspec.Struct):
    """A saga that nobody else can move until the transaction ends."""

    number: int
    tenant: str
    id: str
    version: int
    saga: Instance
    spec: SagaSpec
    notes: list[Note] = []

    @classmethod
    def of(cls, row: Row) -> LockedSaga:
        """Reads the columns in the order in which every query that locks gives them."""
        number, tenant, saga_id, version, state, spec = row
        return cls(number, tenant, saga_id, version, _instance.decode(state), read_spec(spec))


class SagaWork:
    """What follows from the events of one transaction, in as few trips to the database as there can be."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._now = tx.clock()
        self._targets: dict[tuple[str, str], Channel] = {}
        self._rows: list[NewRow] = []
        self._withdrawn: dict[tuple[int, MessageId], MessageId | None] = {}
        self._moves: list[dict[str, object]] = []
        self._lines: list[dict[str, object]] = []

    def carry_out(self, held: LockedSaga, events: list[Any]) -> bool:
        """Applies events and does what follows from them; whether the saga took the first of them."""
        accepted, waiting = True, list(events)
        while waiting:
            event = waiting.pop(0)
            came_of = move(held.spec, held.saga, event, self._now)
            accepted = accepted and (came_of.accepted or event is not events[0])
            held.notes += came_of.notes
            self._hold_keys([effect for effect in came_of.effects if isinstance(effect, Withdraw)])
            for effect in came_of.effects:
                refusal = self._do(held, effect)
                if refusal is not None:
                    waiting.append(refusal)
        if accepted:
            self._note(held)
        return accepted

    def write(self) -> None:
        """Stores all of it. Every key is held before it is used; keys of withdrawn messages are held already."""
        tx, gone = self._tx, self._withdrawn
        rows.hold_keys(tx, [*tx.ended_keys, *((row.group, row.order_key) for row in self._rows)])
        self._send_all()
        for (group, message_id), replay_of in gone.items():
            rows.withdraw(tx, group, message_id, replay_of)
            counters.add(tx, group, ended=1)
        rows.promote(tx, tx.ended_keys)
        tx.ended_keys.clear()
        if not all(self._tx.each("sagas.move", self._moves)):
            raise StoreError("a saga was moved by someone else while it was held; nothing was done: try it again")
        self._tx.each("sagas.note", self._lines)

    def _do(self, held: LockedSaga, effect: Effect) -> MessageEnded | None:
        """What could not be sent has failed: that is said, and does not hold up the transaction that it was part of."""
        match effect:
            case Send():
                try:
                    self._send(held, effect)
                except StoreError:
                    raise
                except HoldfastError as problem:
                    return MessageEnded(effect.step, effect.undo, "", False, error=str(problem), final=True)
            case Withdraw():
                return self._withdraw(held, effect)
            case Relieve():
                notices.answer_about(self._tx, held.tenant, "saga", held.id, effect.who)
            case Escalate():
                about = held.tenant, "saga", held.id, ErrorText(effect.error, effect.traceback), held.spec.owner
                notices.report(self._tx, *about, None)
        return None

    def _send(self, held: LockedSaga, send: Send) -> None:
        step = held.spec.steps[send.step]
        queue = step.undo if send.undo else step.queue
        assert queue is not None, "a step that waits sends nothing"
        target, message_id = self._target(held.tenant, queue), new_id()
        undo_round = held.saga.steps[send.step].undo_round if send.undo else None
        key = step_key(held.id, held.number, step.name, undo_round)
        headers = headers_of(held.id, step, send.undo, key)
        body = body_of(held.spec, held.saga, send.step, send.undo)
        message = compose(target, message_id, _encode(body), headers=_encode(headers))
        message.correlation_id, message.delay = held.id, send.delay
        row = rows.from_new(message)
        row.saga = str(Reference(held.number, send.step, send.undo, send.number))
        self._rows.append(row)
        self._tx.rings.add(target.id)
        sent(held.saga, send, id_text(message_id), target.group)
        held.notes.append(sent_note(send))

    def _hold_keys(self, withdraws: list[Withdraw]) -> None:
        """Whoever promotes the next message of a key has its row locked until the commit, and holds the key as well."""
        looks = [{"group": one.group, "id": id_bytes(one.id)} for one in withdraws]
        found = zip(withdraws, self._tx.each("rows.key", looks), strict=True)
        rows.hold_keys(self._tx, [(one.group, row[0]) for one, row in found if row])

    def _withdraw(self, held: LockedSaga, withdraw: Withdraw) -> MessageEnded | None:
        """A message that nobody has claimed ends here. The holder of any other is told to stop by whoever renews its
        lease, and the saga hears how the claim has ended."""
        tx, group, message_id = self._tx, withdraw.group, id_bytes(withdraw.id)
        if (group, message_id) in self._withdrawn:
            return None
        kept = [row for row in self._rows if row.content.id != message_id]
        if len(kept) < len(self._rows):  # An earlier event of this transaction sent it.
            self._rows = kept
            return withdrawn(withdraw)
        if found := tx.one("rows.unclaimed", group=group, id=message_id):
            self._withdrawn[group, message_id] = found[0]
            return withdrawn(withdraw)
        if leased := tx.one("rows.unwant", group=group, id=message_id):
            look_again(held.saga, withdraw, max(leased[0], self._now))
        elif tx.one("rows.is_unfinished", group=group, id=message_id):  # Someone is about to claim, or to settle it.
            look_again(held.saga, withdraw, self._now + LOOK_AGAIN)
        return None

    def _target(self, tenant: str, queue: str) -> Channel:
        """A queue that was never declared comes to life, if its name is free: asked before anything is written."""
        found = self._targets.get((tenant, queue)) or channels.find(self._tx, tenant, queue)
        if found is None:
            channels.refuse_owned(self._tx, tenant, queue)
            found = channels.declare(self._tx, tenant, queue, unless_there(QueueSpec()))
        self._targets[tenant, queue] = found
        return found

    def _send_all(self) -> None:
        rows.add_held(self._tx, self._rows)
        for group, count in sorted(Counter(row.group for row in self._rows).items()):
            depth.grow(self._tx, group, count)
            counters.add(self._tx, group, arrived=count)

    def _note(self, held: LockedSaga) -> None:
        saga = held.saga
        for note in held.notes:
            saga.events += 1
            self._lines.append(
                {
                    "saga": held.number,
                    "seq": saga.events,
                    "what": note.what,
                    "step": None if note.step is None else held.spec.steps[note.step].name,
                    "who": note.who,
                    "attempt": note.attempt,
                    "error": note.error,
                    "traceback": note.traceback,
                    "output": None if note.output is None else _encode(note.output),
                }
            )
        self._moves.append(
            {
                "id": held.number,
                "version": held.version,
                "status": saga.status.value,
                "state": _encode(saga),
                "due_at": next_due(saga),
                "ended": is_over(held.spec, saga),
                "keep": None if held.spec.keep is None or saga.is_awaited else round(held.spec.keep * 1_000_000),
            }
        )
