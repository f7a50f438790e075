"""Deliveries that arrive in one piece and only have to be stored, without a task or an ASGI request for each.

Nearly all deliveries are like this. The rules are those of every delivery (`rules`); what needs a look into the
database, such as a duplicate, and everything that is refused goes the usual way instead (`ingress`), which says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote

from starlette.responses import Response

from holdfast.client.async_client import AsyncHoldfast, async_internals
from holdfast.client.compose import EnqueueOptions
from holdfast.core.message import Duplicate, MessageId
from holdfast.errors import HoldfastError
from holdfast.server.error_responses import answer_to
from holdfast.server.webhooks import rules as webhooks_rules
from holdfast.server.webhooks.bodies import check_size
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import HOOK_FOLDER, Hook
from holdfast.server.webhooks.rules import CheckedDelivery

log = logging.getLogger("holdfast.server")

Answer = Callable[[Response | None], None]
"""Is called with the response, or with None if the delivery has to go the usual way after all."""


class FastPath:
    """Hands deliveries over to the client, and answers them when their batch is committed."""

    def __init__(self, hf: AsyncHoldfast, clock: Callable[[], float], patience: float) -> None:
        self._producer = async_internals(hf).producer
        self._clock = clock
        self._patience = patience
        self._hooks: Mapping[bytes, Hook] = {}
        self._waiting: dict[_Waiting, None] = {}
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def under_way(self) -> int:
        """How many deliveries wait for their commit."""
        return len(self._waiting)

    def replace(self, hooks: Mapping[str, Hook]) -> None:
        """Take deliveries for these webhooks from now on."""
        self._hooks = {
            (HOOK_FOLDER + name).encode(): hook
            for name, hook in hooks.items()
            if hook.command is None and hook.topic is None and quote(name) == name
        }

    def at(self, url: bytes) -> Hook | None:
        """The webhook whose deliveries `take` may take, by the address as it stands in a request."""
        return self._hooks.get(url)

    def take(self, hook: Hook, address: str, fields: Fields, body: bytes, answer: Answer) -> bool:
        """Take a delivery; `answer` is called after the commit. False if it has to go the usual way."""
        try:
            webhooks_rules.check_sender(hook, address)
            check_size(len(body), hook.max_size)
            delivery = webhooks_rules.examine(hook, address, fields, body, self._clock())
            if delivery is None or delivery.fault is not None:
                return False
            waiting = _Waiting(delivery.identity.key, answer)
            waiting.id = self._hand_in(delivery, partial(self._tell, waiting))
        except Exception:  # The usual way says what is wrong, and logs it if it is a bug.
            return False
        if waiting.id is None:
            return False
        self._wait_for(waiting)
        return True

    def _hand_in(
        self, delivery: CheckedDelivery, tell: Callable[[list[Duplicate | None] | BaseException], None]
    ) -> MessageId | None:
        assert delivery.target is not None, "it goes to a queue"
        given = EnqueueOptions(idempotency_key=delivery.identity.stored, **delivery.options)
        return self._producer.hand_in(delivery.target, delivery.content, given, tell)

    def _wait_for(self, waiting: _Waiting) -> None:
        waiting.deadline = time.monotonic() + self._patience
        self._waiting[waiting] = None
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        """Answer those that have waited for too long. All have the same patience, so the oldest is the first."""
        self._alarm = None
        for waiting in list(self._waiting):
            if (left := waiting.deadline - time.monotonic()) > 0:
                self._alarm = asyncio.get_running_loop().call_later(left, self._give_up)
                return
            del self._waiting[waiting]
            waiting.answer(webhooks_rules.no_answer().answer())

    def _tell(self, waiting: _Waiting, outcome: list[Duplicate | None] | BaseException) -> None:
        if waiting not in self._waiting:
            return  # Too late: the sender was told to try again.
        del self._waiting[waiting]
        try:
            waiting.answer(_response(waiting, outcome))
        except Exception as problem:
            log.error("an answer could not be sent", exc_info=problem)


class _Waiting:
    """A delivery that waits for its commit."""

    __slots__ = ("answer", "deadline", "id", "key")

    def __init__(self, key: str | None, answer: Answer) -> None:
        self.key = key
        self.answer = answer
        self.id: MessageId | None = None
        self.deadline = 0.0


def _response(waiting: _Waiting, outcome: list[Duplicate | None] | BaseException) -> Response | None:
    """None for a duplicate: what became of the first delivery has to be looked up."""
    if isinstance(outcome, BaseException):
        return (
            webhooks_rules.refusal_for(outcome).answer() if isinstance(outcome, HoldfastError) else answer_to(outcome)
        )
    assert waiting.id is not None, "it was handed in"
    return webhooks_rules.accepted(waiting.id, waiting.key) if outcome[0] is None else None
