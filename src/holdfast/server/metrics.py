"""Metrics for Prometheus: what the database knows of queues, groups and consumers, and what this process has measured.

The numbers of queues come out of the database, so every server tells the same ones. Times of requests and handlers are
this process's own. However many queues, hooks or consumers there are, a scrape has a bounded number of lines.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.client.client import Holdfast, internals
from holdfast.consumers.rules import ConsumerStatus
from holdfast.core.stats import METRICS, Stats, metrics
from holdfast.events import MessageDied, MessageEvent, MessageFailed, MessageSucceeded
from holdfast.server.admin.models import refusals
from holdfast.server.admin.roles import Reads
from holdfast.server.webhooks.hook import HOOK_PATH
from holdfast.topics.rules.declaration import GroupStatus, address

MOST_LABELS = 1_000
"""So many queues and groups are told one by one; of consumers, schedules, hooks and routes a fifth of that."""

MOST_SAGAS = 10_000
"""Sagas of a status are counted up to here."""

MOST_AT_ONCE = 100
"""Deliveries of a webhook that are counted together."""

OTHERS = "(others)"
FRESH = 1.0
"""Seconds for which an answer is good for the next one who asks."""

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

WORDS = {
    "queue_depth": "Messages that wait, due or not.",
    "in_flight_count": "Messages that are claimed and not settled.",
    "consumer_count": "Consumers that asked for work a short while ago.",
    "claim_rate": "Claims per second, over the last minute.",
    "completion_rate": "Acks per second, over the last minute.",
    "failure_rate": "Failed attempts per second, over the last minute.",
    "dlq_depth": "Dead letters.",
    "avg_processing_time": "Seconds from claim to ack, over the last minute.",
    "timeout_rate": "Leases per second that ended without a word, over the last minute.",
    "age_of_oldest_item": "Seconds since the oldest message came that waits.",
}
assert tuple(WORDS) == METRICS, "each has its words"

router = APIRouter(tags=["metrics"])


class QueueCollector(Collector):
    """What the database knows of one tenant, at one moment."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        groups = [group for topic in self._hf.topics.list() for group in self._hf.groups.list(topic)]
        names = sorted([*self._hf.queues.list(), *(address(one.topic, one.group) for one in groups)])
        told = [(name, self._hf.stats(name)) for name in names[:MOST_LABELS]]
        yield from _ten(told)
        yield _enqueued(told)
        yield _seen_of_sqs(self._hf)
        yield _gauge("queues_left_out", "Queues and groups beyond those that are told.", len(names) - len(told))
        yield from _groups(groups[:MOST_LABELS])
        yield from self._crew()
        yield self._sagas()
        yield self._schedules()
        yield _gauge("open_notices", "Notices that nobody has acknowledged.", len(self._hf.notices.list(n=MOST_LABELS)))

    def _sagas(self) -> Metric:
        open_sagas = GaugeMetricFamily("holdfast_sagas", f"Sagas, up to {MOST_SAGAS}.", labels=["status"])
        for status, number in internals(self._hf).store.sagas.count(self._hf.settings.tenant, MOST_SAGAS).items():
            open_sagas.add_metric([status], number)
        return open_sagas

    def _crew(self) -> Iterator[Metric]:
        crew: dict[str, list[ConsumerStatus]] = {}
        for one in self._hf.consumers.list():
            crew.setdefault(one.consumer, []).append(one)
        busy = GaugeMetricFamily(
            "holdfast_consumer_saturation", "Share of the time spent working, on average.", labels=["consumer"]
        )
        for name, members in sorted(crew.items())[: MOST_LABELS // 5]:
            busy.add_metric([name], sum(one.saturation for one in members) / len(members))
        yield busy
        yield _gauge(
            "amplification", "Consumers that are busy at least half of the time.", self._hf.consumers.amplification()
        )

    def _schedules(self) -> Metric:
        clock = self._hf.settings.clock
        now = time.time_ns() // 1_000 if clock is None else clock()
        lag = GaugeMetricFamily("holdfast_schedule_lag_seconds", "How long a slot has been due.", labels=["schedule"])
        for one in self._hf.schedules.list()[: MOST_LABELS // 5]:
            lag.add_metric([one.name], 0 if one.next_at_us is None else max(0, now - one.next_at_us) / 1_000_000)
        return lag


def _ten(told: Iterable[tuple[str, Stats]]) -> list[Metric]:
    families = {name: GaugeMetricFamily(f"holdfast_{name}", words, labels=["queue"]) for name, words in WORDS.items()}
    for queue, stats in told:
        for name, value in metrics(stats).items():
            if value is not None:
                families[name].add_metric([queue], value)
    return list(families.values())


def _enqueued(told: Iterable[tuple[str, Stats]]) -> Metric:
    waiting = GaugeMetricFamily("holdfast_enqueued", "Messages that are handed over to SQS.", labels=["queue"])
    for queue, stats in told:
        if stats.enqueued:
            waiting.add_metric([queue], stats.enqueued)
    return waiting


def _seen_of_sqs(hf: Holdfast) -> Metric:
    """Since this process began."""
    words = "What became of pointers, and of calls of SQS, in this process."
    seen = CounterMetricFamily("holdfast_sqs", words, labels=["queue", "what"])
    sqs = internals(hf).transport.sqs
    if sqs is None:
        return seen
    counts = sqs.counts
    for queue in counts.queues()[: MOST_LABELS // 20]:
        for what, count in counts.of(queue).items():
            seen.add_metric([queue, what], count)
    return seen


def _groups(groups: list[GroupStatus]) -> list[Metric]:
    labels = ["topic", "group"]
    lag = GaugeMetricFamily("holdfast_group_lag", "Messages that a group has not come to yet.", labels=labels)
    lost = GaugeMetricFamily("holdfast_group_lost", "Messages that retention took from a group.", labels=labels)
    active = GaugeMetricFamily("holdfast_group_active", "1 for a group that is neither paused nor dead.", labels=labels)
    state = GaugeMetricFamily(
        "holdfast_group_state", "1 for the state that a group is in, told by its label.", labels=[*labels, "state"]
    )
    deaths = CounterMetricFamily("holdfast_group_deaths", "How often a group was found dead.", labels=labels)
    revivals = CounterMetricFamily("holdfast_group_revivals", "How often a dead group came back.", labels=labels)
    for one in groups:
        place = [one.topic, one.group]
        state.add_metric([*place, one.state], 1.0)
        deaths.add_metric(place, one.deaths)
        revivals.add_metric(place, one.revivals)
        lag.add_metric(place, one.lag)
        lost.add_metric(place, one.lost)
        active.add_metric(place, float(one.state == "active"))
    return [lag, lost, active, state, deaths, revivals]


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_{name}", words, value=value)


class BoundedLabel:
    """A label's values, of which there are so many at most; the rest share one."""

    def __init__(self, most: int = MOST_LABELS // 5) -> None:
        self._most = most
        self._values: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._values:
            return value
        if len(self._values) >= self._most:
            return OTHERS
        self._values.add(value)
        return value


class Metrics:
    """What this process measures, and the page that Prometheus reads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._histogram("http_request_seconds", "Time of a request.", "method", "route", "status")
        self._ingress = self._histogram("ingress_seconds", "Time of a webhook.", "hook", "status")
        self._handlers = self._histogram("handler_seconds", "Time of a handler.", "consumer", "queue", "outcome")
        self._routes, self._hooks, self._consumers, self._queues = (
            BoundedLabel(),
            BoundedLabel(),
            BoundedLabel(),
            BoundedLabel(),
        )
        self._deliveries: dict[tuple[str, int], deque[float]] = {}
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[float, bytes]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(_method(method), self._routes(route), str(status)).observe(seconds)

    def hook(self, hook: str, status: int, seconds: float) -> None:
        """A webhook was answered."""
        self._ingress.labels(self._hooks(hook), str(status)).observe(seconds)

    def delivery(self, hook: str, status: int, seconds: float) -> None:
        """A webhook was answered, past the routes."""
        took = self._deliveries.get((hook, status))
        if took is None:
            took = self._deliveries.setdefault((hook, status), deque())
        took.append(seconds)
        if len(took) >= MOST_AT_ONCE:
            self._count_deliveries()

    def _count_deliveries(self) -> None:
        """Telling a histogram costs a tenth of what else a delivery does; many at once cost less, and it can wait."""
        for (hook, status), took in list(self._deliveries.items()):
            of_requests = self._requests.labels("POST", self._routes(HOOK_PATH), str(status))
            of_hooks = self._ingress.labels(self._hooks(hook), str(status))
            with suppress(IndexError):  # Whoever asks for the page is another thread, and takes some of them.
                while True:
                    seconds = took.popleft()
                    of_requests.observe(seconds)
                    of_hooks.observe(seconds)

    def watch(self, hf: Holdfast) -> None:
        """From now on the handlers of this client's consumers are measured."""
        for kind, outcome in ((MessageSucceeded, "succeeded"), (MessageFailed, "failed"), (MessageDied, "died")):
            hf.on(kind, partial(self._handled, outcome))

    def page(self, hf: Holdfast) -> bytes:
        """All that is known of a client's tenant, and of this process."""
        with self._lock:  # Those who ask meanwhile get the same.
            made, page = self._pages.get(hf.settings.tenant, (0.0, b""))
            if time.monotonic() - made > FRESH or not page:
                self._pages = {tenant: one for tenant, one in self._pages.items() if one[0] > time.monotonic() - FRESH}
                page = self._made(hf)
                self._pages[hf.settings.tenant] = (time.monotonic(), page)
            return page

    def _made(self, hf: Holdfast) -> bytes:
        self._count_deliveries()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(list(QueueCollector(hf).collect())))
        return generate_latest(registry) + generate_latest(self.registry)

    def _handled(self, outcome: str, event: MessageEvent) -> None:
        seconds: float = getattr(event, "seconds", 0.0)
        self._handlers.labels(self._consumers(event.consumer), self._queues(event.queue), outcome).observe(seconds)

    def _histogram(self, name: str, words: str, *labels: str) -> Histogram:
        return Histogram(f"holdfast_{name}", words, labels, registry=self.registry, buckets=BUCKETS)


class _Once(Collector):
    """Metrics that were collected: errors of the database have come up before a page begins."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _method(method: str) -> str:
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH") else OTHERS


class TimedApp:
    """Measures the requests of an application, by route: paths are as many as there are queues."""

    def __init__(self, app: ASGIApp, measured: Metrics) -> None:
        self._app = app
        self._measured = measured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            self._note(scope, status, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", OTHERS)
        self._measured.request(scope["method"], route, status, seconds)
        hook = scope.get("path_params", {}).get("name") if route.startswith("/hook/") and status != 404 else None
        if hook is not None:
            self._measured.hook(str(hook), status, seconds)


def measure(app: FastAPI, hf: Holdfast) -> Metrics:
    """Measures a client's handlers, and whatever is `TimedApp` with the result, for the app to tell."""
    measured = Metrics()
    app.state.metrics = measured
    measured.watch(hf)
    return measured


_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", operation_id="metrics", response_class=Response, responses=refusals() | _PAGE)
def page(access: Reads, request: Request) -> Response:
    """Everything about a tenant's queues, groups and consumers, and this process's times, for Prometheus."""
    if not hasattr(request.app.state, "metrics"):
        request.app.state.metrics = Metrics()
    measured: Metrics = request.app.state.metrics
    return Response(measured.page(access.client), media_type=CONTENT_TYPE)
