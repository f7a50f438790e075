"""Expressions of a spec at work, on messages that really came."""

from pathlib import Path

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.spec.model import CommandCall, QueueDeclaration
from holdfast.spec.reading import read_text
from holdfast.spec.running import enveloped, function_of, message_inputs
from tests.spec.golden import text_of

ENVELOPE = {
    "payload": {"incident": {"title": "disk full", "urgency": "high", "id": "P1"}},
    "headers": {"a": "b"},
    "source_ip": "192.0.2.7",
    "received_at": "2026-11-16T12:00:00Z",
}


def test_the_seeds_command_gets_what_the_seed_says(tmp_path: Path) -> None:
    spec = read_text(text_of("seed")).spec
    assert spec is not None
    call = spec.queues["WebhookIngress"].map_to
    assert call is not None
    with Holdfast(f"sqlite:///{tmp_path}/work.db") as hf:
        hf.enqueue("WebhookIngress", ENVELOPE)
        (claim,) = hf.claim("WebhookIngress")
    assert message_inputs(call)(claim.message) == {
        "title": "disk full",
        "severity": "critical",
        "source": "pagerduty",
        "external_id": "P1",
    }


@pytest.mark.parametrize("body", [None, [1], "text", 7])
def test_a_body_that_is_no_object_has_no_fields(tmp_path: Path, body: object) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/work.db") as hf:
        hf.enqueue("q", body)
        (claim,) = hf.claim("q")
    call = CommandCall(entity_type="A", command="B", input_map={"title": "payload.title", "fixed": "1 + 1"})
    assert message_inputs(call)(claim.message) == {"title": None, "fixed": 2}


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no expression"):
        function_of("a ==")


def test_an_envelope_is_cut_to_the_message_type() -> None:
    assert enveloped(QueueDeclaration(message_type={"payload": "json"}))(ENVELOPE) == {"payload": ENVELOPE["payload"]}
    assert enveloped(QueueDeclaration())(ENVELOPE) == ENVELOPE
