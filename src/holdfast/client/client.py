"""Holdfast, the client: everyday verbs, and a namespace for each noun that is operated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec.structs import replace

from holdfast.audit.client import Audit
from holdfast.client import settlements as settling
from holdfast.client.catalog import ChannelBook
from holdfast.client.claim import Claim, Claims, as_list
from holdfast.client.compose import EnqueueOptions, Key
from holdfast.client.declared_consumers import GRACE
from holdfast.client.middleware import AroundEnqueue
from holdfast.client.parts import ClientParts
from holdfast.client.receipts import Receipt, one_for_each
from holdfast.client.start_signals import Starts
from holdfast.client.transport import Transport
from holdfast.client.user_connection import driver_connection
from holdfast.client.validate import checked_count, checked_term
from holdfast.commands.client import Commands
from holdfast.consumers.client import Consumers, Pools
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, seconds
from holdfast.core.given import KEPT, Default, KeptSentinel
from holdfast.core.message import MessageStatus
from holdfast.core.queue import QueueSettings
from holdfast.core.settlement import Settlement
from holdfast.core.stats import Stats
from holdfast.dead_letters.client import DeadLetters
from holdfast.errors import InvalidInput, shown
from holdfast.events import Happened, RuntimeEvent
from holdfast.messages.client import Messages
from holdfast.notices.callbacks import Callback
from holdfast.notices.client import Notices, declare_owner
from holdfast.notices.rules import owner_spec
from holdfast.queues.client import Queues, declare_queue
from holdfast.replies.client import PATIENCE, ask
from holdfast.sagas.client import Sagas, declare_saga, signal, start_saga
from holdfast.sagas.rules.declaration import KEEP, Step, Wait
from holdfast.schedules.client import Schedules, declare_schedule
from holdfast.schedules.rules import ScheduleSettings
from holdfast.settings import Settings, adjusted
from holdfast.sqs.rules.names import PREFIX
from holdfast.store.api import ClaimRequest, Store
from holdfast.store.interrupt_shield import shielded
from holdfast.store.open import open_store
from holdfast.topics.client import Groups, Topics, declare_topic, subscribe
from holdfast.topics.rules import routing
from holdfast.topics.rules.declaration import GroupSettings, Subscription, address, group_name, start_of

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer, ConsumerOptions, Handler, Middleware
    from holdfast.worker.pools.pool import Pool, PoolOptions
    from holdfast.worker.runner import Runner
    from holdfast.worker.sd_notify import Notifier

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])
AroundFunction = TypeVar("AroundFunction", bound=AroundEnqueue)


class Holdfast:
    """Reliable queues in the database you already have.

    >>> hf = Holdfast("sqlite:///work.db")
    >>> receipt = hf.enqueue("emails", {"to": "a@b.c"})
    >>> for claim in hf.claim("emails", n=10):
    ...     claim.ack()
    >>> hf.close()

    Safe to share between threads, and across a fork. `AsyncHoldfast` has the same names for asyncio.
    """

    queues: Queues
    """Operate queues: `hf.queues.pause("emails")`."""

    messages: Messages
    """Look up single messages: `hf.messages.get(id)`."""

    dead_letters: DeadLetters
    """Find, replay and delete dead letters: `hf.dead_letters.replay(id)`."""

    topics: Topics
    """List topics and their settings: `hf.topics.list()`."""

    groups: Groups
    """Operate the groups of topics: `hf.groups.seek("email", "earliest")`."""

    sagas: Sagas
    """Look at sagas and decide about them: `hf.sagas.retry(id, "card")`."""

    schedules: Schedules
    """Operate schedules: `hf.schedules.pause("nightly")`."""

    notices: Notices
    """Answer notices, and report trouble: `hf.notices.acknowledge(id)`."""

    consumers: Consumers
    """Look at running consumers, attach them to queues: `hf.consumers.attach("send", "emails")`."""

    pools: Pools
    """Look at pools of consumers: `hf.pools.list()`."""

    commands: Commands
    """List and run commands: `hf.commands.run("Incident.Create", {"title": "disk full"})`."""

    audit: Audit
    """See what operators did: `hf.audit.list()`."""

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
        catalog: ChannelBook | None = None,
        transport: Transport | None = None,
        starts: Starts | None = None,
    ) -> None:
        parts = self._parts = ClientParts(self, settings, store, catalog, transport, starts)
        self._producer, self._claiming, self._settlements = parts.producer, parts.claiming, parts.settlements
        self.queues, self.messages, self.dead_letters = Queues(parts), Messages(parts), DeadLetters(parts)
        self.topics, self.groups = Topics(parts), Groups(parts)
        self.sagas, self.schedules, self.notices = Sagas(parts), Schedules(parts), Notices(parts)
        self.consumers, self.pools = Consumers(parts), Pools(parts)
        self.commands, self.audit = Commands(parts), Audit(parts)

    @property
    def settings(self) -> Settings:
        """What this client was told when it was made."""
        return self._parts.settings

    @property
    def worker(self) -> str:
        """Who claims: the name given, or host, process and a random part, new after every start and fork."""
        return self._parts.worker

    @property
    def actor(self) -> str:
        """Who operates: the name given, or user and host. It stands in the audit."""
        return self._parts.actor

    # --- declare ------------------------------------------------------------------------------------------------------

    def queue(self, name: str, **settings: Unpack[QueueSettings]) -> None:
        """Declares a queue, or changes settings of one; its messages stay.

        Settings that are not given are kept; a new queue has their defaults. `DEFAULT` resets one, None means what it
        says below. Several services may declare a queue, each what it cares for; declaring it as it is writes nothing.

        - Claims: `lease` (30 s), `max_attempts` (5), and `backoff`, the wait after a failure: doubling ("1s..60s"),
          fixed (30), a list ([60, 300, 1800]) or None.
        - Order: `ordering` is "unordered", "fifo" or "per_key"; with `on_dead="block"` a death stops its key until
          someone replays the dead letter or calls `queues.unblock`.
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
        declare_queue(self._parts, name, settings)

    def topic(self, name: str, *, mode: str | Default | KeptSentinel = KEPT, **settings: Any) -> None:
        """Declares a topic, or changes settings of one. It owns its name and all names below: `orders` gets what is
        published as `orders.eu.created`. Settings that are not given are kept, also the mode; `DEFAULT` resets one.

        - Messages are kept for `retention` (24 h), so that groups that come later can read them. With a shorter
          `min_retention`, what every live group is done with goes after that; 0 is at once.
        - `no_subscribers="refuse"` makes a publish fail while no live group wants its name; otherwise messages are kept
          for the groups to come.
        - `max_depth` is how many messages may be there that a live or paused group still needs, after which a publish
          raises `QueueFull`.
        - `max_size` is how many bytes of JSON a message may have, `idempotency_window` how long a key is remembered
          after its message was removed.

        With `mode="queue"` it is a work queue, with the settings of `queue`: each message goes to one consumer.

        >>> hf.topic("orders", retention="7d")
        """
        declare_topic(self._parts, name, mode, settings)

    def subscribe(
        self,
        topic: str,
        group: str,
        *,
        start: str | float | datetime = "latest",
        **settings: Unpack[GroupSettings],
    ) -> None:
        """Adds a group to a topic, or changes settings of one, which goes on where it was. Settings that are not given
        are kept, `DEFAULT` resets one.

        It gets everything (None), or what fits one of its `patterns` (`*` is one segment, `**` the rest). It begins
        with what is published from now on ("latest"), with all that is retained ("earliest"), at a time, or with the
        message of an id; of what was there before it, it claims no more than `catch_up_rate` ("500/s"). The settings
        are those of `queue` that are about claims, deaths and consumers: each group has its own.

        A group that was silent (no claim, no lease, no `groups.heartbeat`) for its `timeout` (None: it may be silent
        for ever) at `misses` looks in a row is dead: nothing is kept for it until it is heard of again.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email", patterns=["orders.*.created"], start="earliest")
        """
        subscribe(self._parts, topic, group, start, settings)

    def consumer(self, *queues: str, **options: Unpack[ConsumerOptions]) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of these queues' messages, to be run by `run` or `holdfast work`.

        It is called as `handler(message)` or `handler(message, context)`: a `def` in one of `concurrency` threads (or
        processes, with `isolation="process"`), an `async def` on an event loop. What it returns is the result; what it
        raises is a failure, and tried again, unless it is one of `permanent`, or says otherwise (`Retry`, `Snooze`,
        `Cancel`, `DeadLetter`). `timeout` is how long one attempt may take, `lease` how long a claim lasts between two
        renewals. `policy` is in which order messages of several queues are begun: "round_robin", "weighted" by
        `weights`, "strict" or "random". `empty` is what to do about an empty queue, `labels` are what queues may
        require, `middleware` are functions around the handler. The `name` is the function's unless given.

        >>> @hf.consumer("emails", "sms", policy="weighted", weights={"emails": 3}, concurrency=10)
        ... def send(message):
        ...     return {"sent": message.body}
        """
        from holdfast.worker.consumer import Consumer

        return lambda handler: self._parts.consumers.add(Consumer(self, handler, queues, **options))

    def subscriber(
        self,
        *patterns: str,
        group: str,
        topic: str | None = None,
        start: str | float | datetime = "latest",
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of what a group of a topic gets; everything else is as with `consumer`.

        The group is subscribed with these patterns when it first runs, and begins at `start`; the settings of one that
        is there already stay as they are. The topic is the first segment of the patterns, unless it is given.

        >>> hf.topic("orders")
        >>> @hf.subscriber("orders.*.created", group="email")
        ... def confirm(message):
        ...     print(message.topic, message.body)
        """
        owner = routing.topic_name(topic, "topic") if topic is not None else routing.first_segment(patterns)
        wanted, begin = routing.patterns_of(owner, patterns or None), start_of(start)

        def decorate(handler: Handler) -> Consumer:
            consumer = self.consumer(address(owner, group_name(group)), **options)(handler)
            consumer.subscription = Subscription(owner, group, wanted, begin)
            return consumer

        return decorate

    def pool(self, consumer: Consumer | str, **options: Unpack[PoolOptions]) -> Pool:
        """Runs several of a consumer, as many as its queues need: `min` to `max`, over all processes and machines.

        More are started when `scale_up_depth` messages wait, or one for longer than `scale_up_age`; when no more than
        `scale_down_depth` have waited for `cooldown`, one is drained at a time. `members` are "process" (found by the
        module that the consumer stands in) or "thread". One that crashes is started again, after a while; after
        `max_crashes` within `crash_window` the pool is given up and its `owner` is told.

        Called again for the same consumer it changes the settings that are given, before the pool is run; `DEFAULT`
        resets one.

        >>> @hf.consumer("emails")
        ... def send(message):
        ...     return "sent"
        >>> pool = hf.pool(send, min=2, max=10, scale_up_depth=20, scale_down_depth=5)
        """
        from holdfast.worker.pools.pool import Pool

        (chosen,) = self._parts.consumers.chosen([consumer])
        before = self._parts.consumers.pool_of(chosen)
        return self._parts.consumers.add_pool(Pool(chosen, options, before), before)

    def command(self, name: str) -> Callable[[CommandFunction], CommandFunction]:
        """Makes a function, `def` or `async def`, the command of this name: an entity and a verb.

        Its annotations say what its input has to be. A parameter called `context` gets what handlers get; one called
        `conn` gets a connection of the driver to this database, inside of the transaction of the receipt: what is
        written there happens once for each idempotency key, whatever crashes.

        >>> @hf.command("Incident.Create")
        ... def create_incident(title: str, severity: str = "high"):
        ...     return {"title": title, "severity": severity}
        >>> hf.commands.run("Incident.Create", {"title": "disk full"})
        {'title': 'disk full', 'severity': 'high'}
        """

        def decorate(function: CommandFunction) -> CommandFunction:
            self._parts.commands.declare(name, function)
            return function

        return decorate

    def schedule(
        self,
        name: str,
        **settings: Unpack[ScheduleSettings],
    ) -> None:
        """Declares a schedule, or changes one: `body` goes to `queue` whenever `cron` says so, or once per `every`.

        A new one needs `queue`, and `cron` or `every`. Of one that is there, settings that are not given are kept, and
        `DEFAULT` resets one; `cron` replaces `every`, and `every` replaces `cron`.

        `cron` has five fields, six with seconds in front, or is "@daily" and the like; it is read in the time zone
        `tz`. `every` is counted from the first declaration. However many processes declare and fire it, each slot is
        sent once. Declaring it again as it was changes nothing, so every start of a program may do it.
        `missed` is what happens to slots that nobody could fire in time: "once" sends one message for all of them,
        "all" sends each, "skip" none that is older than a minute.
        """
        declare_schedule(self._parts, name, settings)

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
        return declare_saga(self._parts, name, steps, on_failure, owner, keep)

    def owner(
        self,
        name: str,
        *,
        inbox: str | None = None,
        owner: str | None = None,
        escalate_after: Duration | None = "15m",
        notify: str = "each",
        digest_every: Duration = "1h",
    ) -> None:
        """Declares who answers for the dead letters of queues with `owner=name`, or changes how.

        Notices come as messages to the queue `inbox` ("name.inbox" by default): one by one, or with `notify="digest"`
        together, once per `digest_every`. What is not acknowledged after `escalate_after` climbs to this owner's own
        `owner`, and so on.
        """
        spec = owner_spec(name, inbox, owner, escalate_after, notify, digest_every)
        declare_owner(self._parts, name, spec)

    # --- put in -------------------------------------------------------------------------------------------------------

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
        return self._producer.put(queue, [body], options, conn)[0]

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
        return self._producer.put(queue, bodies, options, conn)

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message for every group of the topic that this name belongs to; it survives a crash.

        It is stored once, however many groups there are. A name that belongs to no topic may be that of an existing
        queue; otherwise `UnknownTopic` is raised. The other arguments are those of `enqueue`.

        >>> hf.topic("orders")
        >>> receipt = hf.publish("orders.eu.created", {"id": 42})
        """
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
        )
        return self._producer.publish(topic, [body], options, conn)[0]

    def publish_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Publishes many messages in one transaction (yours, with `conn`): all of them or none."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=one_for_each(idempotency_key),
        )
        return self._producer.publish(topic, bodies, options, conn)

    def ask(
        self,
        queue: str,
        body: Any,
        *,
        timeout: Duration = PATIENCE,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        expires: bool = True,
    ) -> Any:
        """Enqueues a message and waits for what its handler answers with `context.reply(body)`; that body.

        After `timeout` it raises `NoAnswer`, and an answer that comes later is thrown away. A request that nobody
        has begun by then expires: nobody works on what nobody waits for. With `expires=False` it stays. If the request
        dies, `RequestDied` is raised at once.

        >>> @hf.consumer("prices")
        ... def tell_price(message, context):
        ...     context.reply({"price": 3})
        >>> with hf.running():
        ...     hf.ask("prices", {"item": "tea"}, timeout="1m")
        {'price': 3}
        """
        return ask(self._parts, queue, body, timeout, priority, key, headers, expires)

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
        return start_saga(self._parts, name, data, id, delay, conn)

    def signal(self, saga_id: str, name: str, data: Any = None) -> bool:
        """Tells a saga that something happened which a step waits for, now or later; False if it has no use for it.

        The `data` is that step's output.
        """
        return signal(self._parts, saga_id, name, data)

    # --- take out and settle ------------------------------------------------------------------------------------------

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
        finished = settling.finished(as_list(ack))
        acks = settling.acked(finished.claims)
        readers = queues if group is None else [address(topic, group_name(group)) for topic in queues]
        channels, worker = self._parts.catalog.channels(readers), self._parts.worker
        self._claiming.tend(channels, worker)
        alone_first = self._claiming.is_turn_of_alone()
        request = ClaimRequest(channels, n, worker, term, acks, finished.leases, alone_first)
        claims = self._claiming.look(request, finished)
        if claims or not patience:
            return claims
        with self._parts.bells.borrowed() as bell:
            return self._claiming.patiently(request, bell, patience)

    def ack(self, claims: Claims, result: Any = None, *, conn: Any = None) -> None:
        """Ends claims: the work is done. A `result` is kept for `status` and for whoever enqueues the same again.

        With `conn` the ack is part of your transaction: what the work has written there and its ack happen together.
        """
        held = as_list(claims)
        settlements = settling.acked(held, result)
        if conn is None:
            self._settle(held, settlements)
        elif held:
            applied = self._parts.store.join(driver_connection(conn)).settle(settlements)
            settling.refuse([claim for claim, ended in zip(held, applied, strict=True) if not ended])

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
        self._settle(held, settling.nacked(held, error, delay, permanent))

    def release(self, claims: Claims) -> None:
        """Ends claims as if they had never been: claimable at once, no attempt spent."""
        held = as_list(claims)
        self._settle(held, settling.released(held))

    def snooze(self, claims: Claims, delay: Duration) -> None:
        """Ends claims for now: claimable again after `delay`, no attempt spent."""
        held = as_list(claims)
        self._settle(held, settling.snoozed(held, delay))

    def dead_letter(self, claims: Claims, error: str | BaseException) -> None:
        """Ends claims for good: dead letters, whatever attempts were left."""
        self.nack(claims, error, permanent=True)

    def extend(self, claims: Claims, duration: Duration | None = None) -> None:
        """Renews leases for `duration` from now; a run of messages shares one lease, so all of it is renewed."""
        held = as_list(claims)
        if held:
            term = max(claim.channel.spec.lease for claim in held) if duration is None else duration
            ends = self._parts.transport.messages.extend(settling.acked(held), checked_term(term, "duration"))
            settling.refuse(settling.renew(held, ends))

    # --- look ---------------------------------------------------------------------------------------------------------

    def status(self, message_id: str) -> MessageStatus | None:
        """Where a message is and how often it was tried; None if it is unknown, or its history is over."""
        return self.messages.get(message_id)

    def cancel(self, message_id: str) -> bool:
        """Ends a message that is pending or being worked on; False if it had ended or expired before (or never was).

        What was published to a topic cannot be taken back.
        """
        return self.messages.cancel(message_id)

    def stats(self, queue: str) -> Stats:
        """How many messages are pending, waiting for their time, being worked on, dead."""
        return self._parts.store.reads.stats(self._parts.catalog.channel(queue))

    # --- run consumers ------------------------------------------------------------------------------------------------

    def run(self, *consumers: Consumer | str, grace: Duration = GRACE) -> None:
        """Works until SIGTERM, Ctrl-C or `stop()`: all declared consumers, and commands for sagas; or those given.

        Then nothing new is claimed, what was not begun is handed back, and handlers have `grace` to finish; a second
        signal stops at once. Returns earlier if all consumers end by themselves (`empty="terminate"`).
        """
        run_and_notify(self, consumers, grace)

    def running(self, *consumers: Consumer | str, grace: Duration = GRACE) -> Runner:
        """The same inside of something else: works in threads until the end of a `with` block.

        >>> @hf.consumer("emails")
        ... def send(message):
        ...     return "sent"
        >>> with hf.running():
        ...     receipt = hf.enqueue("emails", {"to": "a@b.c"})
        """
        from holdfast.worker.runner import Runner

        return Runner(self, to_run(self, consumers), seconds(grace, "grace"))

    def stop(self) -> None:
        """Makes `run` stop, from another thread or from a handler."""
        self._parts.consumers.stop()

    def maintain(self) -> int:
        """Sweeps all queues and groups once, removes what topics need not keep, looks whether groups are alive, looks
        after notices, fires schedules, advances sagas, forgets dead consumers and old receipts of commands.

        How much it found to do, of this tenant.

        For queues that nobody claims from, and for those who like to do it by hand: `while hf.maintain(): pass`.
        """
        return self._parts.upkeep.maintain()

    # --- be told, and take part ---------------------------------------------------------------------------------------

    def on(self, kind: type[Happened], callback: Callable[[Happened], object]) -> None:
        """Calls this whenever something of that kind happens to consumers of this process. See `holdfast.events`.

        >>> from holdfast.events import MessageFailed
        >>> hf.on(MessageFailed, lambda event: print(event.queue, event.error))
        """
        if not isinstance(kind, type) or not issubclass(kind, RuntimeEvent):
            raise InvalidInput(f"kind must be a class of holdfast.events, not {shown(kind)}")
        if not callable(callback):
            raise InvalidInput("callback must be a function that takes the event")
        self._parts.listeners.add(kind, callback)

    def on_notice(self, callback: Callback, owner: str | None = None) -> None:
        """Has `callback` told of notices, of one `owner` or of all, whenever this client looks after them.

        It gets a list: one notice, or all of a digest. Of several processes with a callback, one is told, once per
        level: also of a level that the notice has left before anyone looked. If it raises, it is told again after a
        minute.
        """
        self._parts.notice_callbacks.add(callback, owner)

    def around_enqueue(self, middleware: AroundFunction) -> AroundFunction:
        """Runs a function around every enqueue of this client: it may change what goes out, or refuse by raising.

        A `def` is for `Holdfast` and the `context.enqueue` of `def` handlers, an `async def` for `AsyncHoldfast` and
        the `context.enqueue` of `async def` handlers. First is outermost. It returns what `proceed()` gives: receipts.

        >>> @hf.around_enqueue
        ... def no_secrets(outgoing, proceed):
        ...     if any("password" in body for body in outgoing.bodies):
        ...         raise ValueError("passwords do not belong into queues")
        ...     return proceed()
        """
        self._parts.around_enqueue.add(middleware)
        return middleware

    def around_execute(self, middleware: Middleware) -> Middleware:
        """Runs a function around every handler: `def` around `def`, `async def` around `async def`. First is outermost.

        >>> @hf.around_execute
        ... def timed(context, proceed):
        ...     started = time.monotonic()
        ...     try:
        ...         return proceed()
        ...     finally:
        ...         print(context.queue, time.monotonic() - started)
        """
        self._parts.consumers.add_middleware(middleware)
        return middleware

    # --- connections --------------------------------------------------------------------------------------------------

    def acting_as(self, actor: str | None = None, *, tenant: str | None = None) -> Holdfast:
        """A client over the same connections that acts in another person's name, which then stands in the audit, or for
        another tenant. It costs nothing; consumers, callbacks and message types are not its own, and closing either
        closes the connections of both.

        >>> hf.acting_as("anna").queues.pause("emails")
        """
        named = {"actor": actor, "tenant": tenant}
        settings = replace(self.settings, **{name: value for name, value in named.items() if value is not None})
        parts = self._parts
        catalog = parts.catalog if settings.tenant == parts.settings.tenant else None
        return assembled(settings, parts.store, catalog, parts.transport, parts.starts)

    def close(self) -> None:
        """Closes every connection. The client may be used again; it then reopens them."""
        self._parts.bells.close()
        self._parts.store.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @shielded
    def _settle(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        with settling.Attempt(claims, settlements) as attempt:
            attempt.note(self._settlements.call(attempt.asks) if attempt.asks else [])
        attempt.refuse()


def assembled(
    settings: Settings,
    store: Store,
    catalog: ChannelBook | None = None,
    transport: Transport | None = None,
    starts: Starts | None = None,
) -> Holdfast:
    """Return a client over a store that is open already, and over what else it shares with another client."""
    client = Holdfast.__new__(Holdfast)
    client._assemble(settings, store, catalog, transport, starts)
    return client


def internals(client: Holdfast) -> ClientParts:
    """Return what a client is made of: for the modules of Holdfast that run inside of it, and for its tests.

    Not public. Users need none of it, and it changes without notice.
    """
    return client._parts


def to_run(client: Holdfast, consumers: Sequence[Consumer | str]) -> list[Consumer]:
    """Those given; or all that are declared, and with them whatever runs our commands for the steps of sagas."""
    from holdfast.worker.command_handler import step_consumers

    parts = internals(client)
    beside = [] if consumers or not parts.commands.declared else step_consumers(client)
    return [*parts.consumers.chosen(consumers), *beside] if parts.consumers.by_name or not beside else beside


def run_and_notify(
    client: Holdfast, consumers: Sequence[Consumer | str], grace: Duration, notifier: Notifier | None = None
) -> Runner:
    """Run consumers as `Holdfast.run` does, and tell a supervisor of it; what ran them."""
    runner = client.running(*consumers, grace=grace)
    runner.notifier = notifier or runner.notifier
    internals(client).consumers.runner = runner
    try:
        runner.run()
    finally:
        internals(client).consumers.runner = None
    return runner
