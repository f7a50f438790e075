"""SQS is no part of a client that does not use it, and takes part from the moment on that it is needed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals

pytestmark = pytest.mark.unit

ORDINARY = """
import sys
from holdfast import Holdfast
from holdfast.client.client import internals

hf = Holdfast(sys.argv[1])
hf.queue("q", max_attempts=2, empty="terminate")
hf.topic("orders")
hf.subscribe("orders", "mail")
hf.publish("orders.new", 1)
hf.ack(hf.claim("orders", group="mail"))
hf.enqueue_many("q", [1, 2, 3])
first, second = hf.claim("q", n=2)
first.extend("1m")
first.nack("boom", delay=0)
hf.claim("q", ack=[second])[0].dead_letter("hopeless")
hf.maintain()
done = []
hf.consumer("q")(lambda message: done.append(message.body))
hf.run()
assert done == [3], done
hf.close()
inner = ("rules", "steps")
print([name for name in sys.modules if name.startswith("holdfast.sqs.") and name.split(".")[2] not in inner])
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'work.db'}"


def test_nothing_of_sqs_is_imported_for_queues_of_the_database(url: str) -> None:
    asked = [sys.executable, "-c", ORDINARY, url]
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.stdout.strip(), answer.stderr) == ("[]", "")


def test_calls_go_straight_to_the_store(url: str) -> None:
    with Holdfast(url) as hf:
        hf.enqueue("q", 1)
        hf.ack(hf.claim("q"))
        assert internals(hf).transport.messages is internals(hf).store.messages


@pytest.mark.parametrize("settings", [{"delivery": "sqs"}, {"dead_events": "callback"}])
def test_another_client_may_bring_it_in_at_any_time(
    url: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever uses the queue next goes through SQS, and so do all clients of the same store."""
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 0.0)
    with Holdfast(url) as hf, Holdfast(url) as other:
        anna = hf.acting_as("anna", tenant="hers")
        hf.enqueue("q", 1)
        other.queue("q", **settings)
        assert internals(hf).transport.sqs is None
        hf.enqueue("q", 2)
        assert internals(hf).transport.messages is internals(hf).transport.sqs is internals(anna).transport.sqs


def test_a_client_that_delivers_through_sqs_is_ready_for_it_from_the_start(url: str) -> None:
    with Holdfast(url, delivery="sqs") as hf:
        assert internals(hf).transport.messages is internals(hf).transport.sqs
