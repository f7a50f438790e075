"""OpenTelemetry in headers: which ones carry a trace on, and which say nothing."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from holdfast import Holdfast, Outgoing
from tests.client.test_conn import of_the_driver
from tests.waiting import eventually
from tests.worker.recorded import Recorded
from tests.worker.steps import Calls

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def work_off(hf: Holdfast, recorded: Recorded, headers: dict[str, Any] | None) -> ReadableSpan:
    """The span of a message that a program without telemetry has sent."""
    with Holdfast(hf.settings.url) as stranger:
        stranger.enqueue("q", 1, headers=headers)
    recorded.instrument(hf)
    calls = Calls()
    hf.consumer("q", name="handler")(lambda message: calls.note(message.headers))
    with hf.running():
        span = recorded.one("process q")
    assert calls.seen == [headers or {}]
    assert span.attributes
    assert span.attributes["messaging.holdfast.outcome"] == "succeeded"
    return span


@pytest.mark.parametrize(
    "malformed",
    [
        7,
        None,
        [],
        [PARENT],
        {"a": PARENT},
        "",
        "garbage",
        PARENT[:-1],
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        PARENT + "-more",
        "0" * 100_000,
        "00-\0",
        "\N{SNOWMAN}",
    ],
    ids=lambda malformed: repr(malformed)[:20],
)
def test_a_malformed_parent_is_none(sqlite_path: Any, recorded: Recorded, malformed: Any) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        span = work_off(hf, recorded, {"traceparent": malformed, "tracestate": malformed})
    assert span.parent is None


@pytest.mark.parametrize("state", [7, None, ["a=1"], "", "=,=", "a" * 100_000, "a=" + "b" * 10_000, "\0", "a=1,,b"])
def test_a_malformed_state_leaves_the_parent(sqlite_path: Any, recorded: Recorded, state: Any) -> None:
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        span = work_off(hf, recorded, {"traceparent": PARENT, "tracestate": state})
    assert span.parent
    assert f"{span.parent.trace_id:032x}" == TRACE


def test_a_stranger_may_know_the_convention_too(hf: Holdfast, recorded: Recorded) -> None:
    span = work_off(hf, recorded, {"traceparent": PARENT, "tracestate": "vendor=1"})
    assert span.parent
    assert span.parent.is_remote
    assert span.parent.trace_state == {"vendor": "1"}


def test_a_message_without_a_trace_begins_one(hf: Holdfast, recorded: Recorded) -> None:
    assert work_off(hf, recorded, None).parent is None


def test_headers_that_are_no_json_say_nothing(sqlite_path: Any, recorded: Recorded) -> None:
    """What a consumer makes of such a message is its own affair; there is a span about it."""
    url = f"sqlite:///{sqlite_path}?engine=stdlib"
    with Holdfast(url) as hf:
        recorded.instrument(hf)
        hf.consumer("q", name="handler")(lambda message: None)
        hf.enqueue("q", 1)
        with of_the_driver(url) as conn:
            conn.execute("UPDATE holdfast_message SET headers = 'no json'")
            conn.commit()
        with hf.running():
            [span, *_] = eventually(lambda: recorded.named("process q"))
    assert span.parent is None


def test_forwarded_headers_get_a_new_place(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    forwarded = {"mine": 1, "traceparent": PARENT, "tracestate": "vendor=1"}
    hf.enqueue("q", 1, headers=forwarded)
    [message] = hf.queues.peek("q")
    assert message.headers.keys() == {"mine", "traceparent"}
    assert TRACE not in message.headers["traceparent"]
    assert forwarded["tracestate"] == "vendor=1"


def test_functions_put_around_later_run_inside_of_the_spans(hf: Holdfast, recorded: Recorded) -> None:
    recorded.instrument(hf)
    seen = []

    @hf.around_enqueue
    def look(outgoing: Outgoing, proceed: Any) -> Any:
        seen.append((outgoing.headers or {})["traceparent"].split("-")[1])
        seen.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")
        return proceed()

    hf.enqueue("q", 1)
    context = recorded.one("enqueue q").context
    assert context
    assert seen == [f"{context.trace_id:032x}"] * 2
