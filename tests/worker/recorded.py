"""What was told to OpenTelemetry, for tests to look at."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.telemetry import instrument
from tests.waiting import eventually


class Recorded:
    """What was told to OpenTelemetry."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        self.tracer = self.tracers.get_tracer("test")

    def instrument(self, hf: Any) -> None:
        instrument(hf, tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The span of that name, once it is over."""
        [span] = eventually(lambda: self.named(name), name)
        return span

    def points(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Of a metric: queue and outcome → its data."""
        found = self._reader.get_metrics_data()
        scopes = [scope for resource in found.resource_metrics for scope in resource.scope_metrics] if found else []
        return {
            (point.attributes["messaging.destination.name"], point.attributes["messaging.holdfast.outcome"]): point
            for scope in scopes
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }
