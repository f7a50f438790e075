"""`POST /hook/{name}`: webhook deliveries come in here, and are stored when the answer says so.

What is checked, in which order, is in `rules`. This module drives them for an ASGI request and does what needs a look
into the database; `fast_path` drives the same rules for a delivery that only has to be stored.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.client.async_client import AsyncHoldfast, async_internals
from holdfast.client.receipts import Receipt
from holdfast.core.lifecycle import State
from holdfast.core.message import Duplicate, id_text
from holdfast.errors import HoldfastError, InvalidInput, TooLarge
from holdfast.server.error_responses import JsonAnswer, Refusal, answer_to, for_now
from holdfast.server.webhooks import rules as webhooks_rules
from holdfast.server.webhooks.bodies import Gone, read_body
from holdfast.server.webhooks.fast_path import FastPath
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import HOOK_PATH, Hook, TypeFault, fault_of
from holdfast.server.webhooks.rules import CheckedDelivery

PATIENCE = 10.0
"""Seconds that a sender waits for the database before it is told to try again later."""

COMMAND_TIME = 30.0
"""Seconds that a sender waits for a command."""

UNFINISHED = (State.PENDING, State.ENQUEUED, State.PROCESSING)


class Ingress:
    """The webhooks of a server. They may be replaced at any time; a delivery under way ends as it began."""

    def __init__(
        self,
        hf: AsyncHoldfast,
        hooks: Iterable[Hook] = (),
        *,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE,
    ) -> None:
        self._hf = hf
        own = async_internals(hf)
        self._parts, self._threads, self._producer = own.parts, own.threads, own.producer
        self._clock = clock
        self._patience = patience
        self._hooks: Mapping[str, Hook] = {}
        self.fast_path = FastPath(hf, clock, patience)
        self.replace(hooks)

    def replace(self, hooks: Iterable[Hook]) -> None:
        """Receive deliveries for these webhooks from now on."""
        chosen: dict[str, Hook] = {}
        for hook in hooks:
            if hook.name in chosen:
                raise InvalidInput(f"there are two webhooks {hook.name!r}")
            chosen[hook.name] = hook
        self._hooks = chosen
        self.fast_path.replace(chosen)
        self.largest = max((hook.max_size for hook in chosen.values()), default=0)

    def route(self) -> Route:
        """Where they are reached."""
        return Route(HOOK_PATH, self.receive, methods=["POST"], include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One delivery, as an application of its own; its name is in the `path_params`."""
        try:
            response = await self.receive(Request(scope, receive))
        except Exception as problem:
            response = answer_to(problem)
        await response(scope, receive, send)

    async def receive(self, request: Request) -> Response:
        """One delivery."""
        try:
            return await self._receive(request)
        except Refusal as refusal:
            return refusal.answer()
        except HoldfastError as problem:
            return webhooks_rules.refusal_for(problem).answer()
        except Gone:
            return Response(status_code=400)  # Nobody reads it.

    async def _receive(self, request: Request) -> Response:
        hook = self._hooks.get(request.path_params["name"])
        if hook is None:
            raise Refusal(404, "there is no such webhook")
        client = request.scope.get("client")
        address = client[0] if client else ""
        webhooks_rules.check_sender(hook, address)
        fields = Fields(request.scope["headers"])
        body = await read_body(request.receive, fields.get(b"content-length", b""), hook.max_size)
        delivery = webhooks_rules.examine(hook, address, fields, body, self._clock())
        if delivery is None:
            return webhooks_rules.filtered()
        if hook.command is not None:
            return await _run(hook.command, delivery)
        return await self._in_time(self._store(delivery))

    async def _in_time(self, answer: Awaitable[Response]) -> Response:
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            raise webhooks_rules.no_answer() from None

    async def _store(self, delivery: CheckedDelivery) -> Response:
        """Store a delivery, or answer it as a duplicate: also if what was accepted before would not fit any more."""
        stored = await self._put(delivery)
        receipt = await self._known(delivery) if isinstance(stored, TypeFault) else stored
        if receipt is None:
            assert isinstance(stored, TypeFault)
            raise webhooks_rules.misfit(stored)
        if receipt.duplicate:
            return await self._again(receipt, delivery.identity.key)
        return webhooks_rules.accepted(receipt.raw_id, delivery.identity.key)

    async def _put(self, delivery: CheckedDelivery) -> Receipt | TypeFault:
        if delivery.fault is not None:
            return delivery.fault
        assert delivery.target is not None, "commands are run"
        target, content, key = delivery.target, delivery.content, delivery.identity.stored
        if delivery.hook.topic is not None:
            return await self._hf.publish(target, content, idempotency_key=key, **delivery.options)
        try:
            return await self._hf.enqueue(target, content, idempotency_key=key, **delivery.options)
        except TooLarge:
            raise
        except InvalidInput as problem:  # The client has a message type for this queue, and it does not fit.
            return fault_of(str(problem))

    async def _known(self, delivery: CheckedDelivery) -> Receipt | None:
        """The receipt of what was delivered under this key before."""
        parts, target, topic, key = self._parts, delivery.target, delivery.hook.topic, delivery.identity.stored
        if key is None or target is None:
            return None

        def find() -> Duplicate | None:
            channel = parts.catalog.channel(target) if topic is None else parts.catalog.topic(topic).channel()
            return parts.store.reads.known(channel, key)

        found = await self._threads.work(find)
        return None if found is None else Receipt(found.id, True, found.result)

    async def _again(self, receipt: Receipt, key: str | None) -> Response:
        """What became of the first delivery."""
        answer = {"queued": False, "duplicate": True, "id": id_text(receipt.raw_id), "idempotency_key": key}
        if receipt.raw_result is not None:
            return JsonAnswer({**answer, "result": receipt.result})
        status = await self._hf.status(receipt.id)
        if status is not None and status.state in UNFINISHED:
            return JsonAnswer({**answer, "queued": True}, 202)
        state = {} if status is None else {"state": status.state}
        return JsonAnswer({**answer, "result": None if status is None else status.result, **state})


async def _run(command: Callable[..., Any], delivery: CheckedDelivery) -> Response:
    """Run the command of a webhook, and answer with its result."""
    identity = delivery.identity
    stored = None if identity.stored is None else str(identity.stored)
    if inspect.iscoroutinefunction(command):
        work = asyncio.ensure_future(command(delivery.content, stored))
    else:
        work = asyncio.ensure_future(asyncio.to_thread(command, delivery.content, stored))
    done, _ = await asyncio.wait([work], timeout=COMMAND_TIME)
    if not done:
        raise for_now("the command is still running; it may succeed or not", "command_timeout")
    return JsonAnswer({"ok": True, "result": work.result(), "idempotency_key": identity.key})
