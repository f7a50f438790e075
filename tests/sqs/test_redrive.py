"""A redrive policy on the user's own queue of SQS would move pointers away: it is told, against moto."""

import json
import logging
from pathlib import Path
from typing import Any

import boto3
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.cli.commands import holdfast as run
from tests.sqs.emulator import fresh_name
from tests.sqs.steps import Seen
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores


@pytest.fixture
def redriven(moto: str) -> str:
    """The name of a queue that has a policy."""
    client, name = boto3.client("sqs", endpoint_url=moto), fresh_name()
    dead = client.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "3"})
    client.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "45"})
    return name


def test_consumers_say_so_once(url: str, redriven: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    with Holdfast(url) as hf:
        hf.queue("q", delivery="sqs", sqs_queue=redriven)
        seen = Seen()
        hf.consumer("q")(seen.note)
        hf.enqueue("q", 1)
        with hf.running():
            seen.wait(1)
            eventually(lambda: "redrive policy" in caplog.text)
            internals(hf).transport.through_sqs().reconcile(internals(hf).catalog.readers())
    assert sum("redrive policy" in line for line in caplog.messages) == 1


def test_doctor_looks_at_the_queues_of_sqs(url: str, redriven: str, moto: str, tmp_path: Path) -> None:
    plain = fresh_name()
    boto3.client("sqs", endpoint_url=moto).create_queue(QueueName=plain)
    with Holdfast(url) as hf:
        hf.queue("bad", delivery="sqs", sqs_queue=redriven)
        hf.queue("good", delivery="sqs", sqs_queue=plain)
    bad, good = look(url, tmp_path)
    assert (bad["state"], good["state"]) == ("advice", "ok")
    assert f"bad: {redriven}" in bad["found"]
    assert "visibility 45 s" in bad["found"]
    assert "maxReceiveCount" in bad["found"]
    assert "Remove the redrive policy" in bad["advice"]
    assert good["found"] == f"good: {plain}, 0 waiting, 0 hidden, visibility 30 s, no redrive policy"


def test_doctor_says_if_there_is_no_such_queue(url: str, moto: str, tmp_path: Path) -> None:
    with Holdfast(url) as hf:
        hf.queue("q", delivery="sqs", sqs_queue=fresh_name())
    [finding] = look(url, tmp_path)
    assert finding["state"] == "problem"
    assert "there is no SQS queue" in finding["found"]


def look(url: str, folder: Path) -> list[dict[str, Any]]:
    """What doctor says of SQS."""
    answer = run("doctor", "--db", url, "--json", folder=folder)
    return [one for one in map(json.loads, answer.stdout.splitlines()) if one["check"] == "SQS"]
