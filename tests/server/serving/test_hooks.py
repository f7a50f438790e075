"""What a spec's webhooks do with a delivery: which queue, which key, which priority, how much of it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.server.serving.webhooks import expect_message_types, hooks_of
from holdfast.server.webhooks.hook import Hook
from holdfast.spec.apply import apply
from holdfast.spec.reading import read_text

pytestmark = pytest.mark.above_the_stores

SECRETS = {"A": "first secret", "B": "second secret"}


def envelope(**payload: Any) -> dict[str, Any]:
    return {"payload": payload, "headers": {}, "source_ip": "192.0.2.1", "received_at": "2026-11-16T12:00:00Z"}


def hook_of(hf: Holdfast, webhook: str, queues: str = "queue q {}") -> Hook:
    spec = read_text(f"app X {{ {queues} webhook W {{ {webhook} }} }}").spec
    assert spec is not None
    apply(hf, spec)
    expect_message_types(hf, spec)
    [hook] = hooks_of(hf, spec, SECRETS)
    return hook


@pytest.fixture
def hf(tmp_path: Any) -> Any:
    with Holdfast(f"sqlite:///{tmp_path}/a.db") as hf:
        yield hf


def test_key_and_priority_are_computed(hf: Holdfast) -> None:
    hook = hook_of(hf, 'queue: q key: payload.customer priority: payload.urgent ? "urgent" : "low"')
    assert hook.options_of(envelope(customer="ann", urgent=True)) == {"key": "ann", "priority": "urgent"}
    assert hook.options_of(envelope()) == {"key": None, "priority": "low"}
    assert hook_of(hf, "queue: q").options_of(envelope()) == {}


def test_routing_chooses_among_the_queues_of_the_spec(hf: Holdfast) -> None:
    hook = hook_of(hf, 'queue: q routing: "mail_" + payload.kind', "queue q {} queue mail_a {}")
    assert hook.queue_of(envelope(kind="a")) == "mail_a"
    assert hook.queue_of(envelope(kind="b")) == "q", "what is no queue of ours goes to the default"


def test_a_filter_decides(hf: Holdfast) -> None:
    hook = hook_of(hf, 'queue: q filter: payload.action in ["opened", "closed"]')
    assert hook.wanted is not None
    assert bool(hook.wanted(envelope(action="opened"))) is True
    assert bool(hook.wanted(envelope(action="labeled"))) is False
    assert not hook.wanted(envelope())


def test_only_what_the_message_type_has_is_stored(hf: Holdfast) -> None:
    queues = "queue q { message_type { payload: json received_at: time } } queue all {}"
    hook = hook_of(hf, "queue: q", queues)
    assert set(hook.shapes["q"](envelope(a=1))) == {"payload", "received_at"}
    assert "all" not in hook.shapes
    hf.enqueue("q", hook.shapes["q"](envelope(a=1)))
    with pytest.raises(InvalidInput, match="message type"):
        hf.enqueue("q", {"payload": 1})


def test_every_secret_counts_and_one_that_is_missing_is_refused(hf: Holdfast) -> None:
    hook = hook_of(hf, 'queue: q verify_hmac { header: "X-Sig" secrets: ["A", "B"] }')
    assert hook.verifier is not None
    assert "secret" not in repr(hook.verifier).replace("secrets", "")
    with pytest.raises(InvalidInput, match="environment variable C"):
        hook_of(hf, 'queue: q verify_hmac { header: "X-Sig" secrets: ["A", "C"] }')
