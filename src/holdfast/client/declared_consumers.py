"""The consumers and pools that a client has declared, and what is around their handlers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput, shown

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer, Middleware
    from holdfast.worker.pools.pool import Pool
    from holdfast.worker.runner import Runner

GRACE = 30.0


class DeclaredConsumers:
    """Declared with `hf.consumer`, `hf.subscriber` and `hf.pool`. `runner` is what runs them now."""

    def __init__(self) -> None:
        self.by_name: dict[str, Consumer] = {}
        self.pools: dict[str, Pool] = {}
        self.middleware: list[Middleware] = []
        self.runner: Runner | None = None

    def add(self, consumer: Consumer) -> Consumer:
        """One more, of a name of its own."""
        if consumer.name in self.by_name:
            raise InvalidInput(f"there is a consumer {consumer.name!r} already: give this one another name=")
        self.by_name[consumer.name] = consumer
        return consumer

    def add_pool(self, pool: Pool, before: Pool | None) -> Pool:
        """One more, or new settings of the one `before`."""
        if pool.name in self.pools and before is not self.pools[pool.name]:
            raise InvalidInput(
                f"there is a pool {pool.name!r} of another consumer already: give this one another name="
            )
        if before is None:
            self.pools[pool.name] = pool
            return pool
        del self.pools[before.name]
        self.pools[pool.name] = before
        before.become(pool)
        return before

    def pool_of(self, consumer: Consumer) -> Pool | None:
        """The pool of a consumer, if it has one."""
        return next((one for one in self.pools.values() if one.consumer is consumer), None)

    def add_middleware(self, middleware: Middleware) -> None:
        """One more function around handlers, inside of the others."""
        if not callable(middleware):
            raise InvalidInput("middleware must be a function that takes (context, proceed)")
        self.middleware.append(middleware)

    def middleware_for(self, consumer: Consumer) -> list[Middleware]:
        """`def` around `def`, `async def` around `async def`."""
        return [one for one in self.middleware if inspect.iscoroutinefunction(one) == consumer.is_async]

    def chosen(self, consumers: Sequence[Consumer | str]) -> list[Consumer]:
        """Those given, or all that are declared."""
        from holdfast.worker.consumer import Consumer

        if not self.by_name:
            raise InvalidInput('there is no consumer to run: declare one with @hf.consumer("queue")')
        chosen = []
        for one in consumers or self.by_name.values():
            found = one if isinstance(one, Consumer) else self.by_name.get(one)
            if found is None:
                known = ", ".join(sorted(self.by_name))
                raise InvalidInput(f"there is no consumer {shown(one)}; declared are {known}")
            chosen.append(found)
        return chosen

    def stop(self) -> None:
        """Asks what runs them to stop, if anything does."""
        if self.runner is not None:
            self.runner.ask_to_stop(self.runner.grace)
