"""A spec that asks for SQS, applied and run; and what commands and metrics say of it."""

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from holdfast import Holdfast
from holdfast.server.metrics import QueueCollector
from tests.cli.commands import holdfast as run
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen, hand_over
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

SPEC = """
app Desk {
  queue tasks { delivery { via: sqs sqs_queue: "desk-tasks" dead_events: "desk-deaths" max_attempts: 1 } }
}
"""


@pytest.fixture
def applied(url: str, sqs: FakeSQS, tmp_path: Path) -> str:
    """A database that a spec was applied to."""
    for name in ("desk-tasks", "desk-deaths"):
        sqs.create(name)
    spec = tmp_path / "desk.holdfast"
    spec.write_text(SPEC)
    answer = run("apply", str(spec), "--db", url, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    return url


def test_a_spec_is_applied_and_run(applied: str, sqs: FakeSQS) -> None:
    """Who consumes need not know how the messages come."""
    with Holdfast(applied) as hf:
        seen = Seen()

        @hf.consumer("tasks")
        def work(message: object) -> None:
            seen.note(message)  # type: ignore[arg-type]
            if len(seen.bodies) > 1:
                raise ValueError("boom")

        with hf.running():
            done = hf.enqueue("tasks", "first")
            seen.wait(1)
            eventually(lambda: hf.status(done.id).state == "succeeded")
            hf.enqueue("tasks", "second")
            seen.wait(2)
            eventually(lambda: sqs.bodies("desk-deaths"))
        assert seen.bodies == ["first", "second"]
    assert sqs.queue("desk-tasks").accepted == 2


def test_commands_and_metrics_know_what_sqs_has(applied: str, sqs: FakeSQS, tmp_path: Path) -> None:
    with Holdfast(applied) as hf:
        hf.enqueue_many("tasks", [1, 2, 3])
        hand_over(hf, "tasks")
        registry = CollectorRegistry()
        registry.register(QueueCollector(hf))
        told = generate_latest(registry).decode().splitlines()
    assert 'holdfast_enqueued{queue="tasks"} 3.0' in told
    assert 'holdfast_sqs_total{queue="tasks",what="sent"} 3.0' in told
    answer = run("queues", "list", "--db", applied, "--json", folder=tmp_path)
    [queue] = [json.loads(line) for line in answer.stdout.splitlines()]
    assert (queue["enqueued"], queue["delivery"]) == (3, "sqs desk-tasks")
