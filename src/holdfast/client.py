"""Holdfast, the client: the rules of `core` around one call of the store each."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from msgspec.structs import replace

from holdfast import endings
from holdfast.asking import Asking
from holdfast.bells import Bells
from holdfast.channels import ChannelBook
from holdfast.claiming import Claiming
from holdfast.claims import Claim, Claims, as_list
from holdfast.commands import Commanding
from holdfast.commitments import Committing
from holdfast.consuming import Consuming
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, seconds
from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.queue import QueueSettings, channel_name, queue_change
from holdfast.core.settlement import Settlement
from holdfast.core.sqs_names import PREFIX
from holdfast.core.topic import address, group_name, settings_of
from holdfast.crew import Crewing
from holdfast.desk import Desk
from holdfast.drafting import EnqueueOptions, Form, Key, form, listed
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.gather import Gather
from holdfast.joining import driver_connection
from holdfast.limits import checked_count, checked_term
from holdfast.message_types import MessageTypes
from holdfast.notices import mention_inbox
from holdfast.operating import Operating
from holdfast.outgoing import outgoing_of, put_through
from holdfast.publishing import Publishing
from holdfast.receipts import Receipt, one_for_each, receipts
from holdfast.seeking import Seeking
from holdfast.settings import Settings, adjusted
from holdfast.store.api import Channel, ClaimRequest, Joined, Store
from holdfast.store.opening import open_store
from holdfast.store.saga_api import NewSaga
from holdfast.store.shielding import shielded
from holdfast.transport import Transport


class Holdfast(Operating, Consuming, Crewing, Committing, Publishing, Seeking, Asking, Commanding):
    """Reliable queues in the database you already have.

    >>> hf = Holdfast("sqlite:///work.db")
    >>> receipt = hf.enqueue("emails", {"to": "a@b.c"})
    >>> for claim in hf.claim("emails", n=10):
    ...     claim.ack()
    >>> hf.close()

    Safe to share between threads, and across a fork. `AsyncHoldfast` has the same names for asyncio.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        strict: bool = False,
        worker: str | None = None,
        migrate: bool = True,
        patience: float = 60.0,
        sweep_every: float = 1.0,
        clock: Callable[[], int] | None = None,
        actor: str | None = None,
        delivery: str = "database",
        sqs_prefix: str = PREFIX,
        sqs_create: bool = False,
    ) -> None:
        given = (url, tenant, strict, worker, migrate, patience, sweep_every, clock, actor)
        settings = adjusted(Settings(*given, delivery, sqs_prefix, sqs_create))
        self._assemble(settings, open_store(settings))

    def _assemble(
        self,
        settings: Settings,
        store: Store,
        book: ChannelBook | None = None,
        transport: Transport | None = None,
    ) -> None:
        Operating.__init__(self)
        Consuming.__init__(self)
        Publishing.__init__(self)
        Commanding.__init__(self)
        self.settings = settings
        self.store = store
        self.transport = transport or Transport(store, settings, self._listeners, lambda: self.worker)
        self._book = ChannelBook(store, settings, self.transport.meet) if book is None else book
        insert = self.transport.messages.insert  # The same whoever delivers.
        self._inserts: Gather[NewMessage, Duplicate | None] = Gather(insert, settings.patience)
        self._settlements: Gather[Settlement, bool] = Gather(self.transport.settle, settings.patience)
        self._starts: Gather[NewSaga, HoldfastError | None] = Gather(self.store.sagas.start, settings.patience)
        self._bells = Bells(self.store.wakeup)
        self._worker: tuple[int, str] = (0, "")
        self._types = MessageTypes()
        self._forms: dict[str, Form] = {}
        self._claiming = Claiming(self, self._types, self._settlements.call)
        self._desk = Desk(self)

    # --- queues -------------------------------------------------------------------------------------------------------

    def queue(self, name: str, **settings: Unpack[QueueSettings]) -> None:
        """Declares a queue, or changes settings of one; its messages stay.

        Settings that are not given are kept; a new queue has their defaults. `DEFAULT` resets one, None means what it
        says below. Several services may declare a queue, each what it cares for; declaring it as it is writes nothing.

        - Claims: `lease` (30 s), `max_attempts` (5), and `backoff`, the wait after a failure: doubling ("1s..60s"),
          fixed (30), a list ([60, 300, 1800]) or None.
        - Order: `ordering` is "unordered", "fifo" or "per_key"; with `on_dead="block"` a death stops its key until
          someone replays the dead letter or calls `unblock`.
        - Bounds: `max_age` is how long a message may wait before it expires, `max_size` how many bytes of JSON it may
          have, `max_depth` how many may wait, after which an enqueue raises `QueueFull`.
        - Limits, exact over all workers: `concurrency` and `rate` ("100/s", "5/m") of the queue, `key_concurrency` and
          `key_rate` of each key.
        - Giving up: `max_time` that all attempts of a message may take together, `message_budget` that one may spend,
          `budget` for all of them, `max_repeats` of one action.
        - Consumers: `empty` is what they do when there is nothing ("poll", "hibernate", "terminate"), `requires` are
          labels that they must have.
        - Deaths: `dead_letter` names a queue that is told of every death, `owner` who has to answer for it,
          `dead_retention` is how long a dead letter is kept (None: as long as the `max_age` of the `dead_letter` queue
          says, or for ever).
        - Memory: `history` is how long finished messages can be looked up, `history_limit` how many,
          `idempotency_window` how long an idempotency key is remembered after its message has ended.

        With `message_type` (a dataclass, TypedDict, msgspec or plain type) every client and the server refuse bodies
        that do not fit, and claims of this client have bodies of that type. Waiting messages that do not fit become
        dead letters when they are claimed.

        >>> hf.queue("emails", lease="2m", max_attempts=3, backoff=[60, 300], owner="mailer")
        """
        self._book.declare(name, queue_change(settings, self.settings.delivery))
        self._starts_changed()
        self._declare_type(name, settings)
        mention_inbox(self.store, self.settings.tenant, f"queue {name!r}", settings.get("owner"))

    def queue_settings(self, name: str) -> dict[str, Any]:
        """Return all settings of a queue as stored, in the words of `queue`; durations are seconds.

        The address of a group ("orders/email") returns those of `subscribe`, the name of a topic those of `topic`.
        Raises `UnknownQueue` if there is none of this name.

        >>> hf.queue("emails", lease="2m")
        >>> hf.queue_settings("emails")["lease"]
        120.0
        """
        return settings_of(self._book.settings(name))

    def queues(self) -> list[str]:
        """The names of all declared queues of this tenant."""
        self._book.open()
        return self.store.channels.names(self.settings.tenant)

    # --- in -----------------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        budget: float | None = None,
        commitments: Sequence[Any] | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message; when this returns, it survives a crash.

        With `ttl` it expires if nobody has claimed it by then, counted from now. With an `idempotency_key` that this
        queue has seen before, nothing is stored and the receipt is that of the first message. `budget` is how much it
        may spend, `commitments` are checks that must succeed before it counts as done. With `conn`, a connection or
        session of yours to the same database, it is part of your transaction and happens when you commit.
        """
        options = EnqueueOptions(
            priority=priority,
            key=key,
            delay=delay,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
            budget=budget,
            commitments=commitments,
        )
        return self._put(queue, [body], options, conn)[0]

    def enqueue_many(
        self,
        queue: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        budget: float | None = None,
        commitments: Sequence[Any] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Stores many messages in one transaction (yours, with `conn`): all of them or none.

        `key` may be a function of the body, and `idempotency_key` has to be one.
        """
        options = EnqueueOptions(
            priority=priority,
            key=key,
            delay=delay,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=one_for_each(idempotency_key),
            budget=budget,
            commitments=commitments,
        )
        return self._put(queue, bodies, options, conn)

    # --- out ----------------------------------------------------------------------------------------------------------

    def claim(
        self,
        *queues: str,
        group: str | None = None,
        n: int = 1,
        lease: Duration | None = None,
        wait: Duration = 0,
        ack: Claims = (),
    ) -> list[Claim]:
        """Takes up to `n` messages, looking at the queues in the order given. Waits up to `wait` for the first one.

        With `group`, they are topics, and this is a member of that group of each.
        `ack` settles earlier claims on the same trip to the database, which saves a commit per round; if one of them
        was lost, `LeaseLost` is raised and what was claimed is handed back.
        """
        if not queues:
            raise InvalidInput('claim() needs the name of a queue: hf.claim("emails", n=10)')
        checked_count(n)
        patience = seconds(wait, "wait")
        term = None if lease is None else checked_term(lease, "lease")
        finished = endings.finished(as_list(ack))
        acks = endings.acked(finished.claims)
        readers = queues if group is None else [address(topic, group_name(group)) for topic in queues]
        channels, worker = self._book.channels(readers), self.worker
        self._claiming.tend(channels, worker)
        alone_first = self._claiming.is_turn_of_alone()
        request = ClaimRequest(channels, n, worker, term, acks, finished.leases, alone_first)
        claims = self._claiming.look(request, finished)
        if claims or not patience:
            return claims
        with self._bells.borrowed() as bell:
            return self._claiming.patiently(request, bell, patience)

    def ack(self, claims: Claims, result: Any = None, *, conn: Any = None) -> None:
        """Ends claims: the work is done. A `result` is kept for `status` and for whoever enqueues the same again.

        With `conn` the ack is part of your transaction: what the work has written there and its ack happen together.
        """
        held = as_list(claims)
        settlements = endings.acked(held, result)
        if conn is None:
            self._settle(held, settlements)
        elif held:
            applied = self.store.join(driver_connection(conn)).settle(settlements)
            endings.refuse([claim for claim, ended in zip(held, applied, strict=True) if not ended])

    def nack(
        self,
        claims: Claims,
        error: str | BaseException = "",
        *,
        delay: Duration | None = None,
        permanent: bool = False,
    ) -> None:
        """Ends claims: the work failed. They come back after the backoff, or die when the attempts are used up."""
        held = as_list(claims)
        self._settle(held, endings.nacked(held, error, delay, permanent))

    def release(self, claims: Claims) -> None:
        """Ends claims as if they had never been: claimable at once, no attempt spent."""
        held = as_list(claims)
        self._settle(held, endings.released(held))

    def snooze(self, claims: Claims, delay: Duration) -> None:
        """Ends claims for now: claimable again after `delay`, no attempt spent."""
        held = as_list(claims)
        self._settle(held, endings.snoozed(held, delay))

    def dead_letter(self, claims: Claims, error: str | BaseException) -> None:
        """Ends claims for good: dead letters, whatever attempts were left."""
        self.nack(claims, error, permanent=True)

    def extend(self, claims: Claims, duration: Duration | None = None) -> None:
        """Renews leases for `duration` from now; a run of messages shares one lease, so all of it is renewed."""
        held = as_list(claims)
        if held:
            term = max(claim.channel.spec.lease for claim in held) if duration is None else duration
            ends = self.transport.messages.extend(endings.acked(held), checked_term(term, "duration"))
            endings.refuse(endings.renew(held, ends))

    # --- operating ----------------------------------------------------------------------------------------------------

    def acting_as(self, actor: str | None = None, *, tenant: str | None = None) -> Holdfast:
        """A client over the same connections that acts in another person's name, which then stands in the audit, or for
        another tenant. It costs nothing; consumers, callbacks and message types are not its own, and closing either
        closes the connections of both.

        >>> hf.acting_as("anna").pause("emails")
        """
        named = {"actor": actor, "tenant": tenant}
        settings = replace(self.settings, **{name: value for name, value in named.items() if value is not None})
        other = Holdfast.__new__(Holdfast)
        book = self._book if settings.tenant == self.settings.tenant else None
        other._assemble(settings, self.store, book, self.transport)
        other._gates = self._gates  # What it pauses does not start, whoever runs the consumers.
        return other

    def close(self) -> None:
        """Closes every connection. The client may be used again; it then reopens them."""
        self._bells.close()
        self.store.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def worker(self) -> str:
        """Who claims: the name given, or host, process and a random part, new after every start and fork."""
        if self.settings.worker:
            return self.settings.worker
        if self._worker[0] != os.getpid():
            self._worker = (os.getpid(), f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}")
        return self._worker[1]

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _put(self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        if self._around_enqueue:
            outgoing = outgoing_of(queue, bodies, options)
            return put_through(self._around_enqueue, partial(self._insert, conn=conn), outgoing)
        return self._insert(queue, bodies, options, conn)

    def _insert(
        self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any, topic: str | None = None
    ) -> list[Receipt]:
        channel = self._book.known(queue)
        if channel is not None and conn is None:
            new = self._draft(channel, bodies, options, topic)
            return receipts(new, self._inserts.call(new)) if new else []
        channel_name(queue)
        trial = partial(self._draft, bodies=listed(bodies), options=options, topic=topic)
        if conn is None:
            new = trial(self._book.channel(queue, trial, create=topic is None))
            return receipts(new, self._inserts.call(new)) if new else []
        joined = self.store.join(driver_connection(conn))
        new = trial(self._book.channel_within(joined, queue, trial, create=topic is None))
        return receipts(new, joined.insert(new)) if new else []

    def _drafted(
        self, queue: str, bodies: list[Any], options: EnqueueOptions, joined: Joined | None = None
    ) -> list[NewMessage]:
        """Messages that are stored later, with something else; seen from its transaction if that is open already."""
        channel_name(queue)
        trial = partial(self._draft, bodies=bodies, options=options)
        if joined is None:
            return trial(self._book.channel(queue, trial))
        return trial(self._book.channel_within(joined, queue, trial))

    def _draft(
        self, channel: Channel, bodies: Iterable[Any], options: EnqueueOptions, topic: str | None = None
    ) -> list[NewMessage]:
        if channel.source is not None:
            raise InvalidInput(f"{channel.name!r} is a group, which gets what is published to its topic: hf.publish(…)")
        new = self._form(channel, options, topic).fill(bodies, options.key, options.idempotency_key)
        self._types.check(channel, new)
        return new

    def _form(self, channel: Channel, options: EnqueueOptions, topic: str | None) -> Form:
        """Most calls ask for nothing, and can have the form of the last one."""
        if topic is not None or not options.are_default:
            return form(channel, options, topic=topic)
        found = self._forms.get(channel.name)
        if found is None or found.channel is not channel:
            found = self._forms[channel.name] = form(channel)
        return found

    @shielded
    def _settle(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        with endings.Attempt(claims, settlements) as attempt:
            attempt.note(self._settlements.call(attempt.asks) if attempt.asks else [])
        attempt.refuse()
