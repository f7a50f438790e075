"""Consumers for users: declared with a decorator, run by `run`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from holdfast.core import routing
from holdfast.core.duration import Duration, seconds
from holdfast.core.topic import Subscription, address, group_name, start_of
from holdfast.errors import InvalidInput, shown
from holdfast.events import Happened, Listeners, RuntimeEvent
from holdfast.starts import Starts

if TYPE_CHECKING:
    from holdfast.client import Holdfast
    from holdfast.runtime.consumer import Consumer, ConsumerOptions, Handler, Middleware
    from holdfast.runtime.gate import Gate
    from holdfast.runtime.pool import Pool, PoolOptions
    from holdfast.runtime.runner import Runner
    from holdfast.sd_notify import Notifier

GRACE = 30.0


class Consuming(Starts):
    """The part of a client that works on messages by itself."""

    def __init__(self) -> None:
        self._consumers: dict[str, Consumer] = {}
        self._pools: dict[str, Pool] = {}
        self._runner: Runner | None = None
        self._listeners = Listeners()
        self._middleware: list[Middleware] = []
        self._gates: set[Gate] = set()

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
        from holdfast.runtime.consumer import Consumer

        def decorate(handler: Handler) -> Consumer:
            consumer = Consumer(self._client(), handler, queues, **options)
            if consumer.name in self._consumers:
                raise InvalidInput(f"there is a consumer {consumer.name!r} already: give this one another name=")
            self._consumers[consumer.name] = consumer
            return consumer

        return decorate

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
        from holdfast.runtime.pool import Pool

        (chosen,) = self._chosen([consumer])
        before = next((one for one in self._pools.values() if one.consumer is chosen), None)
        pool = Pool(chosen, options, before)
        if pool.name in self._pools and before is not self._pools[pool.name]:
            raise InvalidInput(
                f"there is a pool {pool.name!r} of another consumer already: give this one another name="
            )
        if before is None:
            self._pools[pool.name] = pool
            return pool
        del self._pools[before.name]
        self._pools[pool.name] = before
        before.become(pool)
        return before

    def run(self, *consumers: Consumer | str, grace: Duration = GRACE) -> None:
        """Works until SIGTERM, Ctrl-C or `stop()`: all declared consumers, and commands for sagas; or those given.

        Then nothing new is claimed, what was not begun is handed back, and handlers have `grace` to finish; a second
        signal stops at once. Returns earlier if all consumers end by themselves (`empty="terminate"`).
        """
        self._run_and_notify(consumers, grace)

    def _run_and_notify(
        self, consumers: Sequence[Consumer | str], grace: Duration, notifier: Notifier | None = None
    ) -> Runner:
        runner = self.running(*consumers, grace=grace)
        runner.notifier = notifier or runner.notifier
        self._runner = runner
        try:
            runner.run()
        finally:
            self._runner = None
        return runner

    def running(self, *consumers: Consumer | str, grace: Duration = GRACE) -> Runner:
        """The same inside of something else: works in threads until the end of a `with` block.

        >>> with hf.running():
        ...     hf.enqueue("emails", {"to": "a@b.c"})
        """
        from holdfast.runtime.runner import Runner

        return Runner(self._client(), self._to_run(consumers), seconds(grace, "grace"))

    def stop(self) -> None:
        """Makes `run` stop, from another thread or from a handler."""
        if self._runner is not None:
            self._runner.ask_to_stop(self._runner.grace)

    def on(self, kind: type[Happened], callback: Callable[[Happened], object]) -> None:
        """Calls this whenever something of that kind happens to consumers of this process. See `holdfast.events`.

        >>> from holdfast.events import MessageFailed
        >>> hf.on(MessageFailed, lambda event: print(event.queue, event.error))
        """
        if not isinstance(kind, type) or not issubclass(kind, RuntimeEvent):
            raise InvalidInput(f"kind must be a class of holdfast.events, not {shown(kind)}")
        if not callable(callback):
            raise InvalidInput("callback must be a function that takes the event")
        self._listeners.add(kind, callback)

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
        if not callable(middleware):
            raise InvalidInput("middleware must be a function that takes (context, proceed)")
        self._middleware.append(middleware)
        return middleware

    def _middleware_for(self, consumer: Consumer) -> list[Middleware]:
        return [one for one in self._middleware if inspect.iscoroutinefunction(one) == consumer.is_async]

    def _client(self) -> Holdfast:
        return self  # type: ignore[return-value]

    def _to_run(self, consumers: Sequence[Consumer | str]) -> list[Consumer]:
        """Those given; or all that are declared, and with them whatever runs our commands for the steps of sagas."""
        from holdfast.runtime.commands import step_consumers

        beside = [] if consumers or not self._client()._declared else step_consumers(self._client())
        return [*self._chosen(consumers), *beside] if self._consumers or not beside else beside

    def _chosen(self, consumers: Sequence[Consumer | str]) -> list[Consumer]:
        from holdfast.runtime.consumer import Consumer

        if not self._consumers:
            raise InvalidInput('there is no consumer to run: declare one with @hf.consumer("queue")')
        chosen = []
        for one in consumers or self._consumers.values():
            found = one if isinstance(one, Consumer) else self._consumers.get(one)
            if found is None:
                known = ", ".join(sorted(self._consumers))
                raise InvalidInput(f"there is no consumer {shown(one)}; declared are {known}")
            chosen.append(found)
        return chosen
