"""`POST /hook/{name}`: deliveries of webhooks come in here, and are safe when the answer says so.

The order of the checks: what needs no body comes first, nothing is parsed before its sender is known, and a stranger
learns no more than that he is one.

1. an unknown name: 404. A sender whose address is not on the list: 403.
2. a body above the limit: 413, before it is read.
3. the signature over the bytes as they came: 401.
4. the type: 415. JSON: 400.
5. the filter: 200, and nothing is stored.
6. the idempotency key: 200 with the result, or 202 with the same id as long as there is none; 409 if it was used for
   another body.
7. the message type: 400 with the path.
8. a full queue or topic, a topic that refuses what nobody wants, or a database that is away: 503, with the time after
   which to try again.
9. 202, after the commit.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.aio import AsyncHoldfast
from holdfast.channels import ChannelBook
from holdfast.core.lifecycle import State
from holdfast.core.message import Duplicate, MessageId, id_text
from holdfast.drafting import EnqueueOptions
from holdfast.errors import HoldfastError, InvalidBody, InvalidInput, NoSubscribers, TooLarge
from holdfast.http.answers import JsonAnswer, Refusal, answer_to, for_now, refusal_of
from holdfast.http.bodies import Gone, read_body, read_payload
from holdfast.http.headers import Fields, stored_headers
from holdfast.http.hooks import Envelope, Fault, Hook, Identity, fault_of
from holdfast.receipts import Receipt
from holdfast.store.api import Channel

log = logging.getLogger("holdfast.http")

Answer = Callable[[Response | None], None]

HOOK_FOLDER = "/hook/"
HOOK_PATH = HOOK_FOLDER + "{name}"

PATIENCE = 10.0
"""Seconds that a sender waits for the database before it is told to try again later."""

COMMAND_TIME = 30.0
"""Seconds that a sender waits for a command."""

UNFINISHED = (State.PENDING, State.ENQUEUED, State.PROCESSING)


class Ingress:
    """The webhooks of a server. They may be replaced at any time; what is under way ends as it began."""

    def __init__(
        self,
        hf: AsyncHoldfast,
        hooks: Iterable[Hook] = (),
        *,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE,
    ) -> None:
        self._hf = hf
        self._clock = clock
        self._patience = patience
        self._hooks: Mapping[str, Hook] = {}
        self._waiting: dict[_Delivery, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self.replace(hooks)

    def replace(self, hooks: Iterable[Hook]) -> None:
        """From now on these."""
        chosen: dict[str, Hook] = {}
        for hook in hooks:
            if hook.name in chosen:
                raise InvalidInput(f"there are two webhooks {hook.name!r}")
            chosen[hook.name] = hook
        self._hooks = chosen
        self._by_url = {(HOOK_FOLDER + name).encode(): hook for name, hook in chosen.items() if quote(name) == name}
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
        except Gone:
            return Response(status_code=400)  # Nobody reads it.

    async def _receive(self, request: Request) -> Response:
        hook = self._hooks.get(request.path_params["name"])
        if hook is None:
            raise Refusal(404, "there is no such webhook")
        client = request.scope.get("client")
        address = client[0] if client else ""
        if not hook.admits(address):
            raise Refusal(403, "this webhook takes nothing from your address")
        fields = Fields(request.scope["headers"])
        body = await read_body(request.receive, fields.get(b"content-length", b""), hook.max_size)
        return await self._deliver(hook, self._read(hook, address, fields, body), fields, body)

    def at(self, url: bytes) -> Hook | None:
        """The webhook whose deliveries `take` may take, by the address as it stands in a request."""
        hook = self._by_url.get(url)
        return hook if hook is not None and hook.command is None and hook.topic is None else None

    def take(self, hook: Hook, address: str, fields: Fields, body: bytes, answer: Answer) -> bool:
        """Takes a delivery that came in one piece, without a task of its own; `answer` is called after the commit.

        This is what happens to nearly all of them. Whatever else has to be done or said, `receive` does: False if it is
        the one to call, and None for an answer if it is to be called after all.
        """
        if not hook.admits(address) or len(body) > hook.max_size:
            return False
        try:
            envelope = self._read(hook, address, fields, body)
            queue = hook.queue_of(envelope)
            if queue is None or (hook.wanted is not None and not hook.wanted(envelope)):
                return False
            if hook.check is not None and hook.check(envelope) is not None:
                return False
            identity = hook.identify(envelope, fields, body)
            shape, options = hook.shapes.get(queue), hook.options_of(envelope)
            content = envelope if shape is None else shape(envelope)
            given = EnqueueOptions(idempotency_key=identity.stored, **options)
            delivery = _Delivery(identity.key, answer)
            delivery.id = self._hf._hand_in(queue, content, given, partial(self._tell, delivery))
        except (Refusal, HoldfastError):
            return False
        if delivery.id is None:
            return False
        self._wait_for(delivery)
        return True

    def _wait_for(self, delivery: _Delivery) -> None:
        delivery.deadline = time.monotonic() + self._patience
        self._waiting[delivery] = None
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        """All have the same patience, so the first one's ends first."""
        self._alarm = None
        for delivery in list(self._waiting):
            if (left := delivery.deadline - time.monotonic()) > 0:
                self._alarm = asyncio.get_running_loop().call_later(left, self._give_up)
                return
            del self._waiting[delivery]
            delivery.answer(_no_answer().answer())

    def _tell(self, delivery: _Delivery, outcome: list[Duplicate | None] | BaseException) -> None:
        if delivery not in self._waiting:
            return  # Too late: it was told to try again.
        del self._waiting[delivery]
        try:
            delivery.answer(_answer(delivery, outcome))
        except Exception as problem:
            log.error("an answer could not be sent", exc_info=problem)

    def _read(self, hook: Hook, address: str, fields: Fields, body: bytes) -> Envelope:
        """What a delivery says, once it is known who says it."""
        now = self._clock()
        if hook.verifier is not None and not hook.verifier.verify(fields, body, now):
            raise Refusal(401, "the signature is missing or not right", headers={"WWW-Authenticate": "Signature"})
        if b"content-encoding" in fields:
            raise Refusal(415, "send the body as it is, without Content-Encoding")
        payload = read_payload(fields.get(b"content-type", b"").decode("latin-1"), body, hook.forms)
        signature = hook.verifier.header if hook.verifier is not None else None
        return {
            "payload": payload,
            "headers": stored_headers(fields, hook.headers, signature),
            "source_ip": address,
            "received_at": _moment(now),
        }

    async def _deliver(self, hook: Hook, envelope: Envelope, fields: Fields, body: bytes) -> Response:
        try:
            if hook.wanted is not None and not hook.wanted(envelope):
                return JsonAnswer({"queued": False, "filtered": True})
            identity = hook.identify(envelope, fields, body)
            if hook.command is not None:
                return await self._run(hook, envelope, identity)
            if hook.topic is not None:
                return await self._in_time(self._publish(hook, hook.topic, envelope, identity))
            queue = hook.queue_of(envelope)
            if queue is None:
                raise Refusal(400, "the routing of this webhook knows no queue for this", code="no_route")
            return await self._in_time(self._enqueue(hook, queue, envelope, identity))
        except TooLarge as problem:
            raise Refusal(413, str(problem)) from None
        except (InvalidInput, InvalidBody) as problem:
            raise Refusal(400, str(problem), code="invalid") from None
        except (
            NoSubscribers
        ) as problem:  # A group may come back; senders repeat what is refused for now, and only that.
            raise for_now(str(problem), "no_subscribers") from None
        except HoldfastError as problem:
            raise refusal_of(problem) from None

    async def _in_time(self, answer: Awaitable[Response]) -> Response:
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            raise _no_answer() from None

    async def _enqueue(self, hook: Hook, queue: str, envelope: Envelope, identity: Identity) -> Response:
        fault = hook.check(envelope) if hook.check is not None else None
        receipt = None
        if fault is None:
            shape = hook.shapes.get(queue)
            body, options = envelope if shape is None else shape(envelope), hook.options_of(envelope)
            try:
                receipt = await self._hf.enqueue(queue, body, idempotency_key=identity.stored, **options)
            except TooLarge:
                raise
            except InvalidInput as problem:  # The client has a message type for this queue, and it does not fit.
                fault = fault_of(str(problem))
        if receipt is None:
            assert fault is not None
            receipt = await self._known(lambda book: book.channel(queue), identity.stored)
            if receipt is None:
                raise _misfit(fault)
        if receipt.duplicate:
            return await self._again(receipt, identity.key)
        return _accepted(receipt.raw_id, identity.key)

    async def _publish(self, hook: Hook, topic: str, envelope: Envelope, identity: Identity) -> Response:
        fault = hook.check(envelope) if hook.check is not None else None
        if fault is not None:
            receipt = await self._known(lambda book: book.topic(topic).channel(), identity.stored)
            if receipt is None:
                raise _misfit(fault)
        else:
            options = hook.options_of(envelope)
            name = hook.subject_of(envelope)
            receipt = await self._hf.publish(name, envelope, idempotency_key=identity.stored, **options)
        if receipt.duplicate:
            return await self._again(receipt, identity.key)
        return _accepted(receipt.raw_id, identity.key)

    async def _known(self, channel: Callable[[ChannelBook], Channel], key: str | None) -> Receipt | None:
        """The receipt of what was delivered under this key before."""
        if key is None:
            return None
        hf = self._hf._hf
        found = await self._hf._run(lambda: hf.store.reads.known(channel(hf._book), key))
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

    async def _run(self, hook: Hook, envelope: Envelope, identity: Identity) -> Response:
        assert hook.command is not None, "a webhook without a queue has a command"
        fault = hook.check(envelope) if hook.check is not None else None
        if fault is not None:
            raise _misfit(fault)
        stored = None if identity.stored is None else str(identity.stored)
        if inspect.iscoroutinefunction(hook.command):
            work = asyncio.ensure_future(hook.command(envelope, stored))
        else:
            work = asyncio.ensure_future(asyncio.to_thread(hook.command, envelope, stored))
        done, _ = await asyncio.wait([work], timeout=COMMAND_TIME)
        if not done:
            raise for_now("the command is still running; it may succeed or not", "command_timeout")
        return JsonAnswer({"ok": True, "result": work.result(), "idempotency_key": identity.key})


class _Delivery:
    """One that waits for its commit."""

    __slots__ = ("answer", "deadline", "id", "key")

    def __init__(self, key: str | None, answer: Answer) -> None:
        self.key = key
        self.answer = answer
        self.id: MessageId | None = None
        self.deadline = 0.0


def _answer(delivery: _Delivery, outcome: list[Duplicate | None] | BaseException) -> Response | None:
    """Nothing for a duplicate: what became of it has to be looked up."""
    if isinstance(outcome, BaseException):
        return refusal_of(outcome).answer() if isinstance(outcome, HoldfastError) else answer_to(outcome)
    assert delivery.id is not None, "it was handed in"
    return _accepted(delivery.id, delivery.key) if outcome[0] is None else None


def _accepted(raw_id: MessageId, key: str | None) -> Response:
    return JsonAnswer({"queued": True, "id": id_text(raw_id), "idempotency_key": key}, 202)


def _no_answer() -> Refusal:
    return for_now("the database does not answer; it may have been stored or not", "store_unavailable")


def _misfit(fault: Fault) -> Refusal:
    return Refusal(400, f"{fault.path}: {fault.message}", code="schema", path=fault.path)


def _moment(now: float) -> str:
    """A time as RFC 3339 has it, in UTC."""
    micros = round(now * 1_000_000)
    return f"{_second(micros // 1_000_000)}.{micros % 1_000_000:06}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
