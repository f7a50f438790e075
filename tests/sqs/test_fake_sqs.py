"""The misbehaving SQS behaves, where nothing else is asked of it, as moto's does; and misbehaves as told."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from tests.sqs.emulator import fresh_name
from tests.sqs.fake_sqs import FakeSQS

pytestmark = pytest.mark.above_the_stores


@pytest.fixture
def waiting() -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Begins a call on a thread of its own."""
    with ThreadPoolExecutor() as threads:
        yield threads.submit


@pytest.fixture(params=["fake", "moto"])
def boto(request: pytest.FixtureRequest) -> Any:
    request.getfixturevalue("sqs" if request.param == "fake" else "moto")
    return boto3.client("sqs", config=Config(retries={"total_max_attempts": 1}))


@pytest.fixture
def url(boto: Any) -> str:
    return str(boto.create_queue(QueueName=fresh_name(), Attributes={"VisibilityTimeout": "600"})["QueueUrl"])


@pytest.fixture
def fifo(boto: Any) -> str:
    made = boto.create_queue(QueueName=fresh_name(".fifo"), Attributes={"FifoQueue": "true"})
    return str(made["QueueUrl"])


def take(boto: Any, url: str, most: int = 10, **options: Any) -> list[dict[str, Any]]:
    return boto.receive_message(QueueUrl=url, MaxNumberOfMessages=most, **options).get("Messages", [])  # type: ignore[no-any-return]


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def batch(*texts: str, **more: str) -> list[dict[str, Any]]:
    return [{"Id": str(n), "MessageBody": text, **more} for n, text in enumerate(texts)]


def test_a_message_is_taken_hidden_and_deleted(boto: Any, url: str) -> None:
    sent = boto.send_message(QueueUrl=url, MessageBody="one")
    [message] = take(boto, url)
    assert message["Body"] == "one"
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert take(boto, url) == []
    boto.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    known = boto.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (known["ApproximateNumberOfMessages"], known["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")


def test_what_is_not_deleted_comes_back_with_a_new_handle(boto: Any, url: str) -> None:
    boto.send_message(QueueUrl=url, MessageBody="one")
    [first] = take(boto, url)
    boto.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    [again] = take(boto, url)
    assert again["ReceiptHandle"] != first["ReceiptHandle"]


def test_a_batch_is_confirmed_entry_by_entry(boto: Any, url: str) -> None:
    done = boto.send_message_batch(QueueUrl=url, Entries=batch("a", "b", "c"))
    assert {one["Id"] for one in done["Successful"]} == {"0", "1", "2"}
    assert not done.get("Failed")
    taken = take(boto, url)
    assert sorted(bodies(taken)) == ["a", "b", "c"]
    entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(taken)]
    assert len(boto.delete_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 3


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        (batch(*"abcdefghijk"), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"),
        ([*batch("a"), *batch("b")], "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"),
    ],
)
def test_a_batch_that_is_none_is_refused(boto: Any, url: str, entries: list[Any], code: str) -> None:
    with pytest.raises(ClientError) as refused:
        boto.send_message_batch(QueueUrl=url, Entries=entries)
    assert refused.value.response["Error"]["Code"] == code


def test_an_unknown_queue_is_refused_in_the_same_words(boto: Any, url: str) -> None:
    with pytest.raises(boto.exceptions.QueueDoesNotExist) as refused:
        boto.get_queue_url(QueueName="no-such-queue")
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_an_invented_handle_is_refused(boto: Any, url: str) -> None:
    with pytest.raises(ClientError, match="ReceiptHandleIsInvalid"):
        boto.delete_message(QueueUrl=url, ReceiptHandle="invented")


def test_only_characters_of_xml_are_taken(sqs: FakeSQS) -> None:
    """By AWS's documentation; moto takes them all."""
    url, boto = sqs.create("q"), sqs.client()
    with pytest.raises(ClientError, match="InvalidMessageContents"):
        boto.send_message(QueueUrl=url, MessageBody="\x01")


def test_attributes_count_what_is_there(boto: Any, url: str) -> None:
    boto.send_message_batch(QueueUrl=url, Entries=batch("a", "b", "c"))
    take(boto, url, 1)
    known = boto.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert known["ApproximateNumberOfMessages"] == "2"
    assert known["ApproximateNumberOfMessagesNotVisible"] == "1"
    assert known["VisibilityTimeout"] == "600"
    boto.purge_queue(QueueUrl=url)
    assert take(boto, url) == []


def test_a_fifo_group_waits_for_its_head(boto: Any, fifo: str) -> None:
    for n, group in enumerate(["g", "g", "h"]):
        boto.send_message(QueueUrl=fifo, MessageBody=f"{n}", MessageGroupId=group, MessageDeduplicationId=f"d{n}")
    [head] = take(boto, fifo, 1)
    assert head["Body"] == "0"
    assert bodies(take(boto, fifo)) == ["2"]
    boto.delete_message(QueueUrl=fifo, ReceiptHandle=head["ReceiptHandle"])
    assert bodies(take(boto, fifo)) == ["1"]


def test_a_fifo_queue_takes_an_id_once(boto: Any, fifo: str) -> None:
    for _ in range(2):
        boto.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="g", MessageDeduplicationId="d")
    assert len(take(boto, fifo)) == 1


def test_a_fifo_queue_remembers_an_id_beyond_its_deletion(sqs: FakeSQS) -> None:
    """By AWS's documentation; moto forgets it."""
    url, boto = sqs.create("q.fifo"), sqs.client()
    same = {"QueueUrl": url, "MessageBody": "same", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    boto.send_message(**same)
    [one] = take(boto, url)
    boto.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    boto.send_message(**same)
    assert take(boto, url) == []


def test_the_digest_of_attributes_is_that_of_moto(sqs: FakeSQS, moto: str) -> None:
    told = []
    for endpoint in (sqs.endpoint, moto):
        boto = boto3.client("sqs", endpoint_url=endpoint)
        url = boto.create_queue(QueueName=fresh_name())["QueueUrl"]
        attributes = {name: {"DataType": "String", "StringValue": f"{name}!"} for name in ("b", "a")}
        told.append(boto.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=attributes))
    assert told[0]["MD5OfMessageAttributes"] == told[1]["MD5OfMessageAttributes"]


def test_a_long_poll_ends_as_soon_as_there_is_something(sqs: FakeSQS, waiting: Any) -> None:
    url = sqs.create("q")
    poll = waiting(lambda: take(sqs.client(), url, WaitTimeSeconds=20))
    sqs.wait_for("ReceiveMessage")
    sqs.client().send_message(QueueUrl=url, MessageBody="late")
    assert bodies(poll.result(10)) == ["late"]


def test_its_clock_moves_on_order(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    boto.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=900)
    assert take(boto, url) == []
    sqs.advance(901)
    assert bodies(take(boto, url)) == ["x"]
    assert take(boto, url) == []
    sqs.advance(31)
    assert bodies(take(boto, url)) == ["x"]
    sqs.advance(4 * 86_400)
    assert take(boto, url) == []


def test_a_deduplicating_id_is_forgotten_after_five_minutes(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q.fifo"), sqs.client()
    same = {"QueueUrl": url, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first, second = boto.send_message(**same), boto.send_message(**same)
    assert first["MessageId"] == second["MessageId"]
    sqs.advance(301)
    assert boto.send_message(**same)["MessageId"] != first["MessageId"]


def test_copies_lost_ones_and_late_ones(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    sqs.faults.copies, sqs.faults.shuffled = 3, random.Random(1)
    sqs.faults.lost = lambda body: body == "c"
    boto.send_message_batch(QueueUrl=url, Entries=batch("a", "b", "c"))
    taken = take(boto, url)
    assert sorted(bodies(taken)) == ["a", "a", "a", "b", "b", "b"]
    assert bodies(taken) != sorted(bodies(taken))
    assert len({one["ReceiptHandle"] for one in taken}) == 6
    for one in taken:
        boto.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    sqs.advance(90 * 86_400)
    assert take(boto, url) == []
    sqs.resurrect()
    assert sorted(bodies(take(boto, url))) == ["a", "a", "a", "b", "b", "b"]


def test_entries_fail_or_are_in_neither_list(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    verdicts = {"a": "ok", "b": "failed", "c": "silent", "d": "swallowed"}
    sqs.faults.verdict = lambda entry: verdicts[entry["MessageBody"]]  # type: ignore[return-value]
    done = boto.send_message_batch(QueueUrl=url, Entries=batch(*"abcd"))
    assert [one["Id"] for one in done["Successful"]] == ["0"]
    assert [one["Id"] for one in done["Failed"]] == ["1"]
    assert sorted(bodies(take(boto, url))) == ["a", "c"]


def test_old_handles_are_refused_or_silently_taken(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    boto.send_message(QueueUrl=url, MessageBody="x")
    [one] = take(boto, url)
    sqs.queue("q").expire_handles()
    with pytest.raises(ClientError, match="expired"):
        boto.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    sqs.faults.expired_handles = "accepted"
    boto.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    boto.change_message_visibility(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=10)
    assert sqs.bodies("q") == ["x"]


def test_nobody_holds_a_message_for_more_than_twelve_hours(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    boto.send_message(QueueUrl=url, MessageBody="x")
    [one] = take(boto, url, VisibilityTimeout=43_200)
    sqs.advance(3_600)
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        boto.change_message_visibility(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=43_200)


def test_too_many_in_flight_is_an_error_but_not_for_fifo(sqs: FakeSQS) -> None:
    boto, sqs.faults.in_flight_limit = sqs.client(), 1
    standard, fifo = sqs.create("q"), sqs.create("q.fifo", ContentBasedDeduplication="true")
    for text in "ab":
        boto.send_message(QueueUrl=standard, MessageBody=text)
        boto.send_message(QueueUrl=fifo, MessageBody=text, MessageGroupId=text)
    assert len(take(boto, standard)) == len(take(boto, fifo)) == 1
    with pytest.raises(ClientError, match="OverLimit"):
        take(boto, standard)
    assert take(boto, fifo) == []


def test_throttled_broken_and_with_the_wrong_credentials(sqs: FakeSQS) -> None:
    url, boto = sqs.create("q"), sqs.client()
    sqs.faults.throttled = frozenset({"SendMessage"})
    with pytest.raises(ClientError, match="RequestThrottled"):
        boto.send_message(QueueUrl=url, MessageBody="x")
    assert take(boto, url) == []
    sqs.faults.refused = "InvalidClientTokenId"
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        take(boto, url)
    sqs.faults.broken = True
    with pytest.raises(ClientError, match="InternalError"):
        take(boto, url)


def test_an_outage_cuts_what_is_open_and_ends_on_the_same_port(sqs: FakeSQS, waiting: Any) -> None:
    url, boto = sqs.create("q"), sqs.client()
    poll = waiting(lambda: take(sqs.client(), url, WaitTimeSeconds=20))
    sqs.wait_for("ReceiveMessage")
    sqs.down()
    with pytest.raises(HTTPClientError):
        poll.result(10)
    with pytest.raises(EndpointConnectionError):
        boto.send_message(QueueUrl=url, MessageBody="x")
    sqs.up()
    boto.send_message(QueueUrl=url, MessageBody="x")
    assert bodies(take(boto, url)) == ["x"]
