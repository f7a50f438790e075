"""A consumer as declared: its queues, its handler, and how it is to be run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.core.duration import Duration, micros, seconds
from holdfast.core.labels import labels as checked_labels
from holdfast.core.queue import EMPTY, channel_name
from holdfast.errors import InvalidInput, shown
from holdfast.topics.rules.declaration import Subscription, reader_name
from holdfast.worker import import_path
from holdfast.worker.rotation import POLICIES

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast

MOST_HANDS = 10_000
ISOLATIONS = ("thread", "process")

Handler = Callable[..., Any]
Middleware = Callable[[Any, Callable[[], Any]], Any]


class ConsumerOptions(TypedDict, total=False):
    """The keywords of `hf.consumer(*queues, …)`."""

    name: str | None
    policy: str
    weights: Mapping[str, float] | None
    concurrency: int
    lease: Duration | None
    timeout: Duration | None
    empty: str | Mapping[str, str] | None
    labels: Mapping[str, str] | None
    permanent: Iterable[type[BaseException]]
    isolation: str
    middleware: Sequence[Middleware]
    preflight: Callable[[], object] | None
    trust_commitments: bool


class Consumer:
    """What `@hf.consumer(…)` makes of a function. Calling it calls the function, so tests need nothing else."""

    def __init__(
        self,
        hf: Holdfast,
        handler: Handler,
        queues: Sequence[str],
        *,
        name: str | None = None,
        policy: str = "round_robin",
        weights: Mapping[str, float] | None = None,
        concurrency: int = 1,
        lease: Duration | None = None,
        timeout: Duration | None = None,
        empty: str | Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        permanent: Iterable[type[BaseException]] = (),
        isolation: str = "thread",
        middleware: Sequence[Middleware] = (),
        preflight: Callable[[], object] | None = None,
        trust_commitments: bool = False,
        find_queues: Callable[[], list[str]] | None = None,
    ) -> None:
        self.hf = hf
        self.handler = handler
        self.subscription: Subscription | None = None
        self.find_queues = find_queues
        """Says which queues there are now, for a consumer of ours that is there for whatever comes."""
        if not callable(handler):
            raise InvalidInput(f"the handler must be a function that takes (message), not {shown(handler)}")
        self.name = channel_name(name if name is not None else _name_of(handler), "name")
        self.queues = [reader_name(queue, "queue") for queue in queues]
        if not queues and name is None:
            raise InvalidInput('a consumer needs the name of a queue: @hf.consumer("emails")')
        self.policy = _one_of(policy, POLICIES, "policy")
        self.weights = _weights(weights or {}, self.queues, policy)
        self.concurrency = _count(concurrency)
        self.lease = None if lease is None else _term(lease)
        self.timeout = None if timeout is None else _time(timeout)
        self.empty = _empty(empty, self.queues)
        self.labels = checked_labels(dict(labels or {}))
        self.permanent = _errors(permanent)
        self.isolation = _one_of(isolation, ISOLATIONS, "isolation")
        self.is_async = _is_async(handler)
        self.interruptible = isolation == "thread" and getattr(handler, "interruptible", True)
        self.stop_grace = float(getattr(handler, "stop_grace", 0.0))
        self.middleware = _functions(middleware, self.is_async)
        self.wants_context = _wants_context(handler)
        self.preflight = checked_preflight(preflight) or getattr(handler, "preflight", None)
        self.trust_commitments = bool(trust_commitments)
        if isinstance(getattr(handler, "secrets", None), tuple):
            handler.secrets = (*handler.secrets, hf.settings.url)  # type: ignore[attr-defined]
        if self.is_async and isolation == "process":
            raise InvalidInput('isolation="process" is for `def` handlers; an `async def` runs on an event loop')
        if isolation == "process":
            import_path.address(handler, 'with isolation="process" the handler')
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Consumer({self.name!r}, queues={self.queues!r}, concurrency={self.concurrency})"


def _name_of(handler: Handler) -> str:
    return str(getattr(handler, "__name__", type(handler).__name__)).strip("<>")


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _wants_context(handler: Handler) -> bool:
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return False
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in placed if one.default is one.empty]
    if len(needed) > 2 or not placed:
        raise InvalidInput(
            f"the handler {_name_of(handler)!r} must take (message) or (message, context), "
            f"not ({', '.join(map(str, parameters))})"
        )
    return len(placed) > 1 and (len(needed) > 1 or placed[1].name == "context")


def _one_of(value: str, words: Sequence[str], what: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise InvalidInput(f"{what} must be one of {', '.join(words)}, not {shown(value)}")
    return value


def _count(value: int) -> int:
    if type(value) is not int or not 1 <= value <= MOST_HANDS:
        raise InvalidInput(f"concurrency must be a whole number from 1 to {MOST_HANDS}, not {shown(value)}")
    return value


def _term(lease: Duration) -> float:
    if micros(lease, "lease") < 1:
        raise InvalidInput("lease must be longer than 0 seconds: a lease that is over at once holds nothing")
    return seconds(lease, "lease")


def _time(timeout: Duration) -> float:
    if seconds(timeout, "timeout") <= 0:
        raise InvalidInput("timeout must be longer than 0 seconds; None is no limit")
    return seconds(timeout, "timeout")


def _weights(weights: Mapping[str, float], queues: Sequence[str], policy: str) -> dict[str, float]:
    if weights and policy != "weighted":
        raise InvalidInput(f'weights are for policy="weighted", and this is {shown(policy)}')
    for queue, weight in weights.items():
        if queue not in queues:
            raise InvalidInput(f"weights has {shown(queue)}, which is none of this consumer's queues")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise InvalidInput(f"weights must be numbers above 0, not {shown(weight)} for {queue!r}")
    return {queue: float(weights.get(queue, 1.0)) for queue in queues}


def _empty(empty: str | Mapping[str, str] | None, queues: Sequence[str]) -> dict[str, str]:
    """What to do about an empty queue, by queue; a queue that is not in here says so itself."""
    if empty is None:
        return {}
    chosen = dict(empty) if isinstance(empty, Mapping) else dict.fromkeys(queues, empty)
    for queue, word in chosen.items():
        if queue not in queues:
            raise InvalidInput(f"empty has {shown(queue)}, which is none of this consumer's queues")
        _one_of(word, EMPTY, "empty")
    return chosen


def _functions(middleware: Sequence[Middleware], are_awaited: bool) -> list[Middleware]:
    for one in middleware:
        if not callable(one):
            raise InvalidInput(f"middleware must be functions that take (context, proceed), not {shown(one)}")
        if _is_async(one) and not are_awaited:
            raise InvalidInput(
                f"middleware of a `def` handler must be `def` functions, and {_name_of(one)!r} is an `async def`, "
                "which nobody would await: make it a `def`, or the handler an `async def`"
            )
    return list(middleware)


def checked_preflight(preflight: Callable[[], object] | None) -> Callable[[], object] | None:
    """Something that can be called, and says by that how the check went."""
    if preflight is not None and not callable(preflight):
        raise InvalidInput(f"preflight must be a function without arguments, not {shown(preflight)}")
    if preflight is not None and _is_async(preflight):
        raise InvalidInput(
            f"preflight must be a plain function: nobody awaits {shown(preflight)}. Give it one that calls asyncio.run"
        )
    return preflight


def _errors(permanent: Iterable[type[BaseException]]) -> tuple[type[BaseException], ...]:
    kinds: tuple[Any, ...] = (permanent,) if isinstance(permanent, type) else tuple(permanent)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise InvalidInput(f"permanent must be exception classes such as (ValueError,), not {shown(kind)}")
    return kinds
