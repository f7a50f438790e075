"""OpenTelemetry: one trace from a producer through consumers of other processes, and numbers of what they did."""

import asyncio
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import AsyncHoldfast, Cancel, Context, Holdfast, InvalidInput, Message, Snooze, State
from holdfast.client.async_client import async_internals
from holdfast.client.client import internals
from holdfast.telemetry import instrument
from tests.client.test_conn import commit, of_the_driver
from tests.waiting import eventually, until_interrupted
from tests.worker.recorded import Recorded
from tests.worker.steps import Calls, ended, let_time_pass

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def is_below(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context
    assert parent.context
    assert child.parent
    return (child.context.trace_id, child.parent.span_id) == (parent.context.trace_id, parent.context.span_id)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_one_trace_from_the_producer_to_what_follows(url: str, recorded: Recorded, kind: str) -> None:
    with Holdfast(url) as producer, Holdfast(url) as hf:
        recorded.instrument(producer)
        recorded.instrument(hf)
        if kind == "def":

            @hf.consumer("orders")
            def plain(message: Message, context: Context) -> None:
                with recorded.tracer.start_as_current_span("inside"):
                    context.enqueue("bills", message.body)

            @hf.consumer("bills")
            def bill(message: Message) -> None: ...

        else:

            @hf.consumer("orders")
            async def awaited(message: Message, context: Any) -> None:
                with recorded.tracer.start_as_current_span("inside"):
                    await context.enqueue("bills", message.body)

            @hf.consumer("bills")
            async def bill_too(message: Message) -> None: ...

        with recorded.tracer.start_as_current_span("request"):
            producer.enqueue("orders", {"id": 7})
        with hf.running():
            recorded.one("process bills")
    names = ["request", "enqueue orders", "process orders", "inside", "enqueue bills", "process bills"]
    spans = [recorded.one(name) for name in names]
    assert sorted(span.name for span in recorded.spans) == sorted(names)
    for parent, child in pairwise(spans):
        assert is_below(child, parent), f"{child.name} below {parent.name}"
    assert [span.kind for span in spans if " " in span.name] == [SpanKind.PRODUCER, SpanKind.CONSUMER] * 2
    assert all(span.status.status_code is not StatusCode.ERROR for span in spans)


def test_one_trace_through_the_client_for_asyncio(url: str, recorded: Recorded) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url) as hf:
            recorded.instrument(hf)
            done = asyncio.Event()

            @hf.consumer("orders")
            async def handle(message: Message) -> None:
                await hf.enqueue("bills", message.body)
                done.set()

            with recorded.tracer.start_as_current_span("request"):
                await hf.enqueue("orders", 1)
            with recorded.tracer.start_as_current_span("program"):
                async with hf.running():
                    await asyncio.wait_for(done.wait(), 30)

    asyncio.run(main())
    request, sent, worked, followed = map(
        recorded.one, ["request", "enqueue orders", "process orders", "enqueue bills"]
    )
    assert is_below(sent, request)
    assert is_below(worked, sent)
    assert is_below(followed, worked)
    [link] = worked.links
    assert link.context == recorded.one("program").context


def test_what_spans_say(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    hf.queue("q", backoff=0)

    @hf.consumer("q")
    def second_time(message: Message, context: Context) -> None:
        if context.attempt == 1:
            raise RuntimeError("no luck")

    receipt = hf.enqueue("q", 1, correlation_id="request-42")
    with hf.running():
        assert ended(hf, receipt.id) is State.SUCCEEDED
    common = {
        "messaging.system": "holdfast",
        "messaging.destination.name": "q",
        "messaging.message.id": receipt.id,
        "messaging.message.conversation_id": "request-42",
    }
    sent = {
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.holdfast.message.duplicate": False,
    }
    assert recorded.one("enqueue q").attributes == {**common, **sent}
    failed, done = eventually(lambda: len(found := recorded.named("process q")) == 2 and found)
    worked = {**common, "messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert failed.attributes == {
        **worked,
        "messaging.holdfast.message.attempt": 1,
        "messaging.holdfast.outcome": "failed",
        "error.type": "RuntimeError",
    }
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "no luck")
    [event] = failed.events
    assert event.name == "exception"
    assert event.attributes
    assert event.attributes["exception.message"] == "no luck"
    assert "second_time" in event.attributes["exception.stacktrace"]
    assert done.attributes == {
        **worked,
        "messaging.holdfast.message.attempt": 2,
        "messaging.holdfast.outcome": "succeeded",
    }
    assert is_below(failed, recorded.one("enqueue q"))
    assert is_below(done, recorded.one("enqueue q"))


def test_a_batch_is_one_span_above_all_of_its_messages(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    hf.consumer("q", name="handler")(lambda message: None)
    hf.enqueue_many("q", range(3))
    with hf.running():
        spans = eventually(lambda: len(found := recorded.named("process q")) == 3 and found)
    sent = recorded.one("enqueue q")
    assert sent.attributes
    assert sent.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in sent.attributes
    assert all(is_below(span, sent) for span in spans)
    assert len({span.attributes["messaging.message.id"] for span in spans if span.attributes}) == 3


@pytest.mark.parametrize("outcome", [Snooze(3600), Cancel("nobody wants it")], ids=["snoozed", "canceled"])
def test_a_decision_is_no_error(hf: Holdfast, recorded: Recorded, outcome: Exception) -> None:
    recorded.instrument(hf)

    @hf.consumer("q")
    def decide(message: Message) -> None:
        raise outcome

    hf.enqueue("q", 1)
    with hf.running():
        span = recorded.one("process q")
    assert span.attributes
    assert span.attributes["messaging.holdfast.outcome"] == ("snoozed" if isinstance(outcome, Snooze) else "canceled")
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_timeout_is_an_error_that_says_so(hf: Holdfast, recorded: Recorded, kind: str) -> None:
    hf.queue("q", max_attempts=1)
    recorded.instrument(hf)
    begun = Calls()
    if kind == "def":

        @hf.consumer("q", timeout=3600)
        def slow(message: Message, context: Context) -> None:
            begun.note(1)
            until_interrupted()

    else:

        @hf.consumer("q", timeout=3600)
        async def slow_too(message: Message) -> None:
            begun.note(1)
            await asyncio.sleep(3600)

    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        begun.wait(1)
        let_time_pass(runner)
        assert ended(hf, sent.id) is State.DEAD
    span = recorded.one("process q")
    assert span.status.status_code is StatusCode.ERROR
    assert "time" in (span.status.description or "")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise TypeError("cannot be said")


def test_an_exception_without_words_is_still_the_one_that_counts(hf: Holdfast, recorded: Recorded) -> None:
    hf.queue("q", max_attempts=1)
    recorded.instrument(hf)

    @hf.consumer("q")
    def fail(message: Message) -> None:
        raise Unspeakable

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    [letter] = hf.dead_letters.list("q")
    assert "Unspeakable" in letter.error
    assert "cannot be said" not in letter.error
    span = recorded.one("process q")
    assert span.attributes
    assert span.attributes["error.type"] == f"{__name__}.Unspeakable"
    assert span.status.status_code is StatusCode.ERROR


def test_an_enqueue_that_is_refused_is_an_error(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    with pytest.raises(InvalidInput):
        hf.enqueue("q", object(), correlation_id="\ud800")
    span = recorded.one("enqueue q")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes
    assert span.attributes["error.type"] == "holdfast.errors.InvalidInput"
    assert "messaging.message.conversation_id" not in span.attributes
    assert [event.name for event in span.events] == ["exception"]


def test_in_the_callers_transaction(hf: Holdfast, url: str, recorded: Recorded) -> None:
    hf.queue("q")
    recorded.instrument(hf)
    with of_the_driver(url) as conn:
        hf.enqueue("q", 1, conn=conn)
        commit(conn)
    [message] = hf.queues.peek("q")
    context = recorded.one("enqueue q").context
    assert context
    assert message.headers["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_outcomes_are_counted_and_handlers_timed(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    hf.queue("q", max_attempts=2, backoff=0)

    @hf.consumer("q")
    def handle(message: Message) -> None:
        if message.body == "bad":
            raise RuntimeError("no luck")
        if message.body == "late":
            raise Snooze(3600)
        if message.body == "unwanted":
            raise Cancel

    hf.enqueue_many("q", ["good", "good", "bad", "late", "unwanted"])
    expected = {"succeeded": 2, "failed": 1, "dead": 1, "snoozed": 1, "canceled": 1}

    def counted() -> dict[str, int]:
        return {
            outcome: point.value
            for (_, outcome), point in recorded.points("messaging.holdfast.worker.outcomes").items()
        }

    with hf.running():
        eventually(lambda: counted() == expected, "every outcome")
    timed = recorded.points("messaging.process.duration")
    assert {key: point.count for key, point in timed.items()} == {
        ("q", "succeeded"): 2,
        ("q", "failed"): 1,
        ("q", "dead"): 1,
    }
    point = timed["q", "succeeded"]
    assert 0 < point.sum < 30
    assert point.explicit_bounds[0] == 0.005
    assert point.attributes["messaging.consumer.group.name"] == "handle"


# --- around it --------------------------------------------------------------------------------------------------------


def test_nothing_is_told_without_instrument(url: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with a global provider, and beside a client that is instrumented."""
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", recorded.tracers)
    with Holdfast(url) as hf, Holdfast(url) as other:
        recorded.instrument(other)
        hf.consumer("q", name="handler")(lambda message: None)
        sent = hf.enqueue("q", 1)
        assert hf.queues.peek("q")[0].headers == {}
        with hf.running():
            assert ended(hf, sent.id) is State.SUCCEEDED
    assert recorded.spans == []
    assert recorded.points("messaging.holdfast.worker.outcomes") == {}


def test_the_global_provider_is_the_default(hf: Holdfast, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", recorded.tracers)
    instrument(hf)
    hf.enqueue("q", 1)
    assert recorded.one("enqueue q")


def test_without_an_sdk_nothing_changes(hf: Holdfast) -> None:
    instrument(hf)
    hf.consumer("q", name="handler")(lambda message: None)
    sent = hf.enqueue("q", 1)
    assert hf.queues.peek("q")[0].headers == {}
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"hf": 7}, r"^hf must be a Holdfast"),
        ({"hf": None}, r"^hf must be a Holdfast"),
        ({"tracer_provider": 7}, r"^tracer_provider must be"),
        ({"meter_provider": "x"}, r"^meter_provider must be"),
    ],
)
def test_bad_input_is_refused(sqlite_path: Any, arguments: dict[str, Any], says: str) -> None:
    hf = Holdfast(f"sqlite:///{sqlite_path}")
    with pytest.raises(InvalidInput, match=says):
        instrument(**{"hf": hf, **arguments})
    assert internals(hf).around_enqueue.plain == []


def test_twice_is_refused(sqlite_path: Any) -> None:
    hf = AsyncHoldfast(f"sqlite:///{sqlite_path}")
    instrument(hf)
    for again in (hf, async_internals(hf).hf):
        with pytest.raises(InvalidInput, match="instrumented already"):
            instrument(again)


def test_opentelemetry_is_loaded_only_when_it_is_asked_for() -> None:
    loaded = "holdfast, holdfast.client.async_client, holdfast.worker.worker"
    program = f"import sys, {loaded}; print('opentelemetry' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False"]


def test_without_the_package_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import holdfast.telemetry"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].endswith("pip install 'holdfast[otel]'")
