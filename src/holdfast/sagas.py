"""Several steps that all happen, or are undone, for users. (`awaiting_sagas` has it for asyncio.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.channels import ChannelBook
from holdfast.core.command import command_of
from holdfast.core.duration import Duration, micros
from holdfast.core.message import encode_json, id_text, plain_text
from holdfast.core.picking import Node
from holdfast.core.queue import channel_name
from holdfast.core.replies import is_reply_queue
from holdfast.core.saga import KEEP, SagaSpec, SagaStatus, Status, Step, Wait, checked_saga_id, saga_spec
from holdfast.errors import HoldfastError, InvalidInput, shown
from holdfast.gather import Gather
from holdfast.joining import driver_connection
from holdfast.limits import checked_count
from holdfast.notices import Escalating, mention_inbox
from holdfast.settings import Settings
from holdfast.store.api import Store
from holdfast.store.ids import new_id
from holdfast.store.saga_api import NewSaga

if TYPE_CHECKING:
    from holdfast.commands import Commanding

ADVANCE_LIMIT = 100
"""How many sagas one call moves on."""


class Orchestrating(Escalating):
    """The part of a client that runs sagas."""

    settings: Settings
    store: Store
    _book: ChannelBook
    _starts: Gather[NewSaga, HoldfastError | None]

    def saga(
        self,
        name: str,
        *,
        steps: Sequence[Step | Wait | Sequence[Step | Wait]],
        on_failure: str = "compensate",
        owner: str | None = None,
        keep: Duration | None = KEEP,
    ) -> int:
        """Declares a saga: steps that follow each other, and lists of steps that run side by side. Its version.

        When a step has failed for good, what was completed is undone, the last first; with `on_failure="stop"` the
        saga waits instead for what an operator decides. `owner` is told when it needs someone. Sagas that are under way
        keep the definition they were started with; declaring the same again changes nothing. What has ended can be
        looked up, and is not started again under the same id, for as long as `keep` says (None: for ever). A command
        that a step names must be known to this client (`UnknownCommand`), and its input must fit.

        >>> version = hf.saga("trip", steps=[
        ...     Step("flight", "flights.book", undo="flights.cancel"),
        ...     [Step("hotel", "hotels.book", undo="hotels.cancel"), Step("car", "cars.book", undo="cars.cancel")],
        ...     Step("card", "cards.charge", timeout="2m"),
        ... ])
        """
        channel_name(name)
        spec = saga_spec(steps, on_failure, owner, keep)
        self._find_commands(steps)
        self._book.open()
        self._find_queues(spec)
        version = self.store.sagas.declare(self.settings.tenant, name, spec)
        mention_inbox(self.store, self.settings.tenant, f"saga {name!r}", owner)
        return version

    def start_saga(
        self,
        name: str,
        data: dict[str, Any] | None = None,
        *,
        id: str | None = None,
        delay: Duration = 0,
        conn: Any = None,
    ) -> str:
        """Starts a saga, and sends what its first step needs, in one transaction (yours, with `conn`); its id.

        With an `id` that was used before for the same, nothing is started. `data` is what the steps can use; what they
        give back is added to it under their names.
        """
        channel_name(name)
        saga_id = id_text(new_id()) if id is None else checked_saga_id(id)
        new = NewSaga(self.settings.tenant, name, saga_id, _data(data), micros(delay, "delay"), self.actor)
        if conn is None:
            self._book.open()
            [refusal] = self._starts.call([new])
        else:
            refusal = self.store.join(driver_connection(conn)).start_saga(new)
        if refusal is not None:
            raise refusal
        return saga_id

    def signal(self, saga_id: str, name: str, data: Any = None) -> bool:
        """Tells a saga that something happened which a step waits for, now or later; False if it has no use for it.

        The `data` is that step's output.
        """
        raw = encode_json(data, "data")
        wanted = checked_saga_id(saga_id), channel_name(name)
        self._book.open()
        return self.store.sagas.signal(self.settings.tenant, *wanted, raw, self.actor)

    def cancel_saga(self, saga_id: str, reason: str | None = None) -> bool:
        """Turns a saga round: what was completed is undone. False if it had turned round, or ended, before."""
        wanted = checked_saga_id(saga_id), plain_text(reason, "reason")
        self._book.open()
        return self.store.sagas.cancel(self.settings.tenant, *wanted, self.actor)

    def retry_saga(self, saga_id: str, step: str) -> bool:
        """Sends a failed step, or a failed undo, once more; False if it has not failed, or was undone since."""
        return self._decide(saga_id, "retry", step)

    def skip_saga_step(self, saga_id: str, step: str, reason: str) -> bool:
        """Goes on without a step, or without its undo; False if there is nothing to decide about it.

        A saga of which an undo was skipped ends as `failed`, not as `compensated`.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInput(f"reason must be text that says why, not {shown(reason)}")
        return self._decide(saga_id, "skip", step, plain_text(reason, "reason"))

    def mark_saga_step_done(self, saga_id: str, step: str, output: Any = None) -> bool:
        """Says that a step, or its undo, was done by hand; False if there is nothing to decide about it."""
        return self._decide(saga_id, "mark_done", step, None, encode_json(output, "output"))

    def sagas(
        self, status: str | None = None, *, name: str | None = None, n: int = 100, after: str | None = None
    ) -> list[SagaStatus]:
        """Sagas in the order they were started, all or those with this status; the next page is `after` the last id.

        Raises `NotFound` if there is no saga of that id (any more).
        """
        if status is not None and status not in list(Status):
            raise InvalidInput(f"status must be one of {', '.join(Status)}, not {shown(status)}")
        limit = checked_count(n)
        last = None if after is None else checked_saga_id(after)
        wanted = None if name is None else channel_name(name)
        self._book.open()
        return self.store.sagas.find(self.settings.tenant, status, wanted, limit, last)

    def saga_status(self, saga_id: str) -> SagaStatus | None:
        """Where a saga is, step by step, and all that happened to it; None if there is none of this id."""
        wanted = checked_saga_id(saga_id)
        self._book.open()
        return self.store.sagas.status(self.settings.tenant, wanted)

    def advance_sagas(self) -> int:
        """Does what time has to do with sagas, a hundred at most: timeouts, waits. With how many.

        Consumers that run, and every client that claims, do this by themselves; calling it is always safe.
        """
        self._book.open()
        return self.store.sagas.advance(self.settings.tenant, ADVANCE_LIMIT)

    def _look_after_others(self) -> None:
        """Now and then: notices that nobody answers, timeouts and waits of sagas. There may be nobody else."""
        if self._is_time_to_look():
            self.escalate()
            if self.store.sagas.is_due(self.settings.tenant):
                self.advance_sagas()

    def _decide(self, saga_id: str, act: str, step: str, reason: str | None = None, output: bytes = b"null") -> bool:
        wanted, place = checked_saga_id(saga_id), channel_name(step, "step")
        self._book.open()
        return self.store.sagas.decide(self.settings.tenant, wanted, act, place, reason, output, self.actor)

    def _find_commands(self, steps: Sequence[Step | Wait | Sequence[Step | Wait]]) -> None:
        """What a step names in the way of commands is run by a program such as this one: it has to know it."""
        for entry in steps:
            for step in entry if isinstance(entry, list | tuple) else [entry]:
                if isinstance(step, Step):
                    self._fit(step, "input", step.queue, step.input)
                    self._fit(step, "undo_input", step.undo, step.undo_input)

    def _fit(self, step: Step, what: str, queue: str | None, given: Node | None) -> None:
        name = None if queue is None else command_of(queue)
        if name is None or name not in step.commands:
            return
        command = cast("Commanding", self)._command(name)
        if given is not None and "object" in given:
            try:
                command.fit(given["object"])
            except InvalidInput as problem:
                raise InvalidInput(f"{what} of the step {step.name!r}: {problem}") from None

    def _find_queues(self, spec: SagaSpec) -> None:
        for step in spec.steps:
            for queue in (step.queue, step.undo):
                if queue is not None:
                    if is_reply_queue(queue):
                        raise InvalidInput(f"queue {queue!r} belongs to hf.ask: a step needs one of its own")
                    self._book.channel(queue)


def _data(data: dict[str, Any] | None) -> bytes:
    if data is not None and not isinstance(data, dict):
        raise InvalidInput(f"data must be a dict, not {shown(data)}")
    return encode_json({} if data is None else data, "data")
