"""Sagas for users: several steps that all happen, or are undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.client.namespace import Namespace
from holdfast.client.user_connection import driver_connection
from holdfast.client.validate import checked_count
from holdfast.commands.registry import CommandRegistry
from holdfast.commands.rules import command_of
from holdfast.core.duration import Duration, micros
from holdfast.core.message import encode_json, id_text, plain_text
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, shown
from holdfast.notices.client import mention_inbox
from holdfast.replies.rules import is_reply_queue
from holdfast.sagas.rules.data_selection import Node
from holdfast.sagas.rules.declaration import SagaSpec, SagaStatus, Status, Step, Wait, checked_saga_id, saga_spec
from holdfast.sagas.steps.values import NewSaga
from holdfast.store.ids import new_id

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

ADVANCE_LIMIT = 100
"""How many sagas one call moves on."""


def declare_saga(
    parts: ClientParts,
    name: str,
    steps: Sequence[Step | Wait | Sequence[Step | Wait]],
    on_failure: str,
    owner: str | None,
    keep: Duration | None,
) -> int:
    """See `Holdfast.saga`."""
    channel_name(name)
    spec = saga_spec(steps, on_failure, owner, keep)
    _find_commands(parts.commands, steps)
    parts.catalog.open()
    _find_queues(parts, spec)
    version = parts.store.sagas.declare(parts.settings.tenant, name, spec)
    mention_inbox(parts.store, parts.settings.tenant, f"saga {name!r}", owner)
    return version


def start_saga(
    parts: ClientParts, name: str, data: dict[str, Any] | None, id: str | None, delay: Duration, conn: Any
) -> str:
    """See `Holdfast.start_saga`."""
    channel_name(name)
    saga_id = id_text(new_id()) if id is None else checked_saga_id(id)
    new = NewSaga(parts.settings.tenant, name, saga_id, _data(data), micros(delay, "delay"), parts.actor)
    if conn is None:
        parts.catalog.open()
        [refusal] = parts.saga_starts.call([new])
    else:
        refusal = parts.store.join(driver_connection(conn)).start_saga(new)
    if refusal is not None:
        raise refusal
    return saga_id


def signal(parts: ClientParts, saga_id: str, name: str, data: Any) -> bool:
    """See `Holdfast.signal`."""
    raw = encode_json(data, "data")
    wanted = checked_saga_id(saga_id), channel_name(name)
    parts.catalog.open()
    return parts.store.sagas.signal(parts.settings.tenant, *wanted, raw, parts.actor)


class Sagas(Namespace):
    """`hf.sagas`: looks at sagas, turns them round, and decides what they wait for."""

    def list(
        self, status: str | None = None, *, name: str | None = None, n: int = 100, after: str | None = None
    ) -> list[SagaStatus]:
        """Sagas in the order they were started, all or those with this status; the next page is `after` the last id.

        Raises `NotFound` if there is no saga of that id (any more).
        """
        if status is not None and status not in [*Status]:
            raise InvalidInput(f"status must be one of {', '.join(Status)}, not {shown(status)}")
        limit = checked_count(n)
        last = None if after is None else checked_saga_id(after)
        wanted = None if name is None else channel_name(name)
        self._catalog.open()
        return self._store.sagas.find(self._tenant, status, wanted, limit, last)

    def get(self, saga_id: str) -> SagaStatus | None:
        """Where a saga is, step by step, and all that happened to it; None if there is none of this id."""
        wanted = checked_saga_id(saga_id)
        self._catalog.open()
        return self._store.sagas.status(self._tenant, wanted)

    def cancel(self, saga_id: str, reason: str | None = None) -> bool:
        """Turns a saga round: what was completed is undone. False if it had turned round, or ended, before."""
        wanted = checked_saga_id(saga_id), plain_text(reason, "reason")
        self._catalog.open()
        return self._store.sagas.cancel(self._tenant, *wanted, self._parts.actor)

    def retry(self, saga_id: str, step: str) -> bool:
        """Sends a failed step, or a failed undo, once more; False if it has not failed, or was undone since."""
        return self._decide(saga_id, "retry", step)

    def skip(self, saga_id: str, step: str, reason: str) -> bool:
        """Goes on without a step, or without its undo; False if there is nothing to decide about it.

        A saga of which an undo was skipped ends as `failed`, not as `compensated`.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInput(f"reason must be text that says why, not {shown(reason)}")
        return self._decide(saga_id, "skip", step, plain_text(reason, "reason"))

    def mark_done(self, saga_id: str, step: str, output: Any = None) -> bool:
        """Says that a step, or its undo, was done by hand; False if there is nothing to decide about it."""
        return self._decide(saga_id, "mark_done", step, None, encode_json(output, "output"))

    def advance(self) -> int:
        """Does what time has to do with sagas, a hundred at most: timeouts, waits. With how many.

        Consumers that run, and every client that claims, do this by themselves; calling it is always safe.
        """
        self._catalog.open()
        return self._store.sagas.advance(self._tenant, ADVANCE_LIMIT)

    def _decide(self, saga_id: str, act: str, step: str, reason: str | None = None, output: bytes = b"null") -> bool:
        wanted, place = checked_saga_id(saga_id), channel_name(step, "step")
        self._catalog.open()
        return self._store.sagas.decide(self._tenant, wanted, act, place, reason, output, self._parts.actor)


def _find_commands(commands: CommandRegistry, steps: Sequence[Step | Wait | Sequence[Step | Wait]]) -> None:
    """What a step names in the way of commands is run by a program such as this one: it has to know it."""
    for entry in steps:
        for step in entry if isinstance(entry, list | tuple) else [entry]:
            if isinstance(step, Step):
                _fit(commands, step, "input", step.queue, step.input)
                _fit(commands, step, "undo_input", step.undo, step.undo_input)


def _fit(commands: CommandRegistry, step: Step, what: str, queue: str | None, given: Node | None) -> None:
    name = None if queue is None else command_of(queue)
    if name is None or name not in step.commands:
        return
    command = commands.get(name)
    if given is not None and "object" in given:
        try:
            command.fit(given["object"])
        except InvalidInput as problem:
            raise InvalidInput(f"{what} of the step {step.name!r}: {problem}") from None


def _find_queues(parts: ClientParts, spec: SagaSpec) -> None:
    for step in spec.steps:
        for queue in (step.queue, step.undo):
            if queue is not None:
                if is_reply_queue(queue):
                    raise InvalidInput(f"queue {queue!r} belongs to hf.ask: a step needs one of its own")
                parts.catalog.channel(queue)


def _data(data: dict[str, Any] | None) -> bytes:
    if data is not None and not isinstance(data, dict):
        raise InvalidInput(f"data must be a dict, not {shown(data)}")
    return encode_json({} if data is None else data, "data")
