"""An SQS of our own that misbehaves on order: a real HTTP server, so that a real boto3 talks to it.

It speaks as much of the AWS JSON 1.0 protocol as delivery needs. Left alone it is an honest SQS; `faults` says what
goes wrong. It has a clock of its own (`advance`), and remembers every request (`requests`).
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import boto3

from tests.servers import HOST
from tests.sqs.fake_queue import Entry, FakeQueue, Faults, Refusal, Stored, attributes_md5, md5

MOST_BATCH_BYTES = 1_048_576

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-must-not-be-logged",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class Request:
    """One that arrived, whatever became of it."""

    at: float
    action: str
    payload: dict[str, Any]


class FakeSQS:
    """`with FakeSQS() as sqs:` serves until the block ends; `down()` and `up()` in between are an outage."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.queues: dict[str, FakeQueue] = {}
        self.requests: list[Request] = []
        self._place = socket.socket()  # Never listens. It keeps the port ours while the server is down.
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind((HOST, 0))
        self.port = self._place.getsockname()[1]
        self.changed = threading.Condition()
        self._offset = 0.0
        self._server: Listening | None = None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._server is not None:
            self.down()
        self._place.close()

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes any boto3 of this or a child process find this server."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL_SQS": self.endpoint}

    def client(self) -> Any:
        """A boto3 client that does not try again by itself."""
        return boto3.client(
            "sqs",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            config=boto3.session.Config(retries={"total_max_attempts": 1}),
        )

    def create(self, name: str, **attributes: str) -> str:
        """A queue, and its URL."""
        given = {"FifoQueue": "true", **attributes} if name.endswith(".fifo") else attributes
        with self.changed:
            return self._create_queue({"QueueName": name, "Attributes": given})["QueueUrl"]  # type: ignore[no-any-return]

    def queue(self, name: str) -> FakeQueue:
        return self.queues[name]

    def now(self) -> float:
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Its clock moves on: what was in flight becomes visible, what is old is forgotten."""
        with self.changed:
            self._offset += seconds
            self.changed.notify_all()

    def bodies(self, name: str) -> list[str]:
        """What is in a queue now, in flight or not."""
        with self.changed:
            return [message.body for message in self.queues[name].messages]

    def drop_all(self) -> None:
        """Every message of every queue is lost."""
        with self.changed:
            for queue in self.queues.values():
                queue.messages.clear()

    def resurrect(self) -> None:
        """Everything that was ever deleted is delivered again."""
        with self.changed:
            for queue in self.queues.values():
                queue.resurrect(self.now())
            self.changed.notify_all()

    def count(self, *actions: str) -> int:
        """How many requests came, of these kinds or of all."""
        tally = Counter(request.action for request in list(self.requests))
        return sum(tally[action] for action in actions) if actions else tally.total()

    def wait_for(self, action: str, count: int = 1, patience: float = 60.0) -> None:
        """Until so many requests of a kind have come in all."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.count(action) >= count, patience), Counter(
                one.action for one in self.requests
            )

    def down(self) -> None:
        """Connections are refused, and those that are open are cut."""
        server, self._server = self._server, None
        assert server is not None, "it is down already"
        server.stop()
        with self.changed:
            self.changed.notify_all()

    def up(self) -> None:
        self._server = Listening(self)

    @property
    def is_up(self) -> bool:
        return self._server is not None

    def answer(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        """What a request leads to; raises what is wrong with it."""
        with self.changed:
            self.requests.append(Request(time.monotonic(), action, payload))
            self.changed.notify_all()
            self._hang(action)
            self._misbehave(action)
            done: dict[str, Any] = ACTIONS[action](self, payload)
            return done

    def _hang(self, action: str) -> None:
        if self.faults.hanging & {action, "*"}:
            server = self._server
            self.changed.wait_for(lambda: self._server is not server or not self.faults.hanging & {action, "*"})
            raise Refusal("ServiceUnavailable", "It took too long.", status=503)

    def _misbehave(self, action: str) -> None:
        if self.faults.broken:
            raise Refusal("InternalError", "We encountered an internal error.", status=500)
        if self.faults.refused:
            raise Refusal(self.faults.refused, "The security token included in the request is invalid.", status=403)
        if self.faults.throttled & {action, "*"}:
            raise Refusal("RequestThrottled", "Rate exceeded")
        if action not in ACTIONS:
            raise Refusal("InvalidAction", f"The action {action} is not known here.")

    def _of(self, payload: dict[str, Any]) -> FakeQueue:
        name = payload["QueueUrl"].rsplit("/", 1)[-1]
        if name not in self.queues:
            raise Refusal(
                "QueueDoesNotExist",
                "The specified queue does not exist.",
                code="AWS.SimpleQueueService.NonExistentQueue",
            )
        return self.queues[name]

    def _create_queue(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = payload["QueueName"]
        queue = self.queues.setdefault(
            name, FakeQueue(name, f"{self.endpoint}/000000000000/{name}", self.faults, payload.get("Attributes", {}))
        )
        return {"QueueUrl": queue.url}

    def _get_queue_url(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"QueueUrl": self._of({"QueueUrl": payload["QueueName"]}).url}

    def _get_queue_attributes(self, payload: dict[str, Any]) -> dict[str, Any]:
        known, wanted = self._of(payload).described(self.now()), set(payload.get("AttributeNames", []))
        return {"Attributes": {n: value for n, value in known.items() if "All" in wanted or n in wanted}}

    def _send_message(self, payload: dict[str, Any]) -> dict[str, Any]:
        sent = self._of(payload).send(payload, self.now())
        self.changed.notify_all()
        return sent

    def _send_message_batch(self, payload: dict[str, Any]) -> dict[str, Any]:
        queue = self._of(payload)
        if sum(len(entry.get("MessageBody", "").encode()) for entry in payload["Entries"]) > MOST_BATCH_BYTES:
            raise Refusal("BatchRequestTooLong", code="AWS.SimpleQueueService.BatchRequestTooLong")
        done = self._each(payload, lambda entry: queue.send(entry, self.now()))
        self.changed.notify_all()
        return done

    def _receive_message(self, payload: dict[str, Any]) -> dict[str, Any]:
        queue, most = self._of(payload), payload.get("MaxNumberOfMessages", 1)
        wait = payload.get("WaitTimeSeconds", queue.setting("ReceiveMessageWaitTimeSeconds"))
        if not 1 <= most <= 10 or not 0 <= wait <= 20:
            raise Refusal("InvalidParameterValue", "MaxNumberOfMessages is 1 to 10, WaitTimeSeconds 0 to 20.")
        server, deadline = self._server, self.now() + wait
        while True:
            found = queue.receive(most, payload.get("VisibilityTimeout"), self.now())
            left = deadline - self.now()
            if found or left <= 0 or self._server is not server:
                return {"Messages": [received(message) for message in found]} if found else {}
            self._hang("ReceiveMessage")
            self._misbehave("ReceiveMessage")
            # Never past the moment at which something becomes visible by itself.
            self.changed.wait(min(left, 0.05))

    def _delete_message(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._of(payload).delete(payload["ReceiptHandle"], self.now())
        self.changed.notify_all()
        return {}

    def _delete_message_batch(self, payload: dict[str, Any]) -> dict[str, Any]:
        queue = self._of(payload)
        done = self._each(payload, lambda entry: queue.delete(entry["ReceiptHandle"], self.now()) or {})
        self.changed.notify_all()
        return done

    def _change_message_visibility(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._of(payload).change_visibility(payload["ReceiptHandle"], payload["VisibilityTimeout"], self.now())
        self.changed.notify_all()
        return {}

    def _change_message_visibility_batch(self, payload: dict[str, Any]) -> dict[str, Any]:
        queue = self._of(payload)

        def change(entry: Entry) -> Entry:
            queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"], self.now())
            return {}

        done = self._each(payload, change)
        self.changed.notify_all()
        return done

    def _purge_queue(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._of(payload).purge()
        return {}

    def _each(self, payload: dict[str, Any], act: Callable[[Entry], Entry]) -> dict[str, Any]:
        entries = payload.get("Entries", [])
        check_batch(entries)
        successful: list[Entry] = []
        failed: list[Entry] = []
        for entry in entries:
            verdict = self.faults.verdict(entry)
            try:
                if verdict == "failed":
                    raise Refusal("InternalError", "Try again later.", status=500)
                if verdict == "swallowed":
                    continue
                done = act(entry)
                if verdict == "ok":
                    successful.append({"Id": entry["Id"], **done})
            except Refusal as refusal:
                fault = {"Code": refusal.code, "Message": str(refusal), "SenderFault": refusal.status < 500}
                failed.append({"Id": entry["Id"], **fault})
        answered: dict[str, Any] = {"Successful": successful}
        return {**answered, "Failed": failed} if failed else answered


ACTIONS: dict[str, Callable[[FakeSQS, dict[str, Any]], dict[str, Any]]] = {
    "CreateQueue": FakeSQS._create_queue,
    "GetQueueUrl": FakeSQS._get_queue_url,
    "GetQueueAttributes": FakeSQS._get_queue_attributes,
    "SendMessage": FakeSQS._send_message,
    "SendMessageBatch": FakeSQS._send_message_batch,
    "ReceiveMessage": FakeSQS._receive_message,
    "DeleteMessage": FakeSQS._delete_message,
    "DeleteMessageBatch": FakeSQS._delete_message_batch,
    "ChangeMessageVisibility": FakeSQS._change_message_visibility,
    "ChangeMessageVisibilityBatch": FakeSQS._change_message_visibility_batch,
    "PurgeQueue": FakeSQS._purge_queue,
}


def received(message: Stored) -> Entry:
    told: Entry = {
        "MessageId": message.id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": md5(message.body),
        "Body": message.body,
        "Attributes": {"ApproximateReceiveCount": str(message.received)},
    }
    if message.group is not None:
        told["Attributes"]["MessageGroupId"] = message.group
    if message.attributes:
        told["MessageAttributes"] = message.attributes
        told["MD5OfMessageAttributes"] = attributes_md5(message.attributes)
    return told


def check_batch(entries: list[Entry]) -> None:
    older = "AWS.SimpleQueueService."
    if not entries:
        raise Refusal("EmptyBatchRequest", "There should be at least one entry.", code=f"{older}EmptyBatchRequest")
    if len(entries) > 10:
        shape = "TooManyEntriesInBatchRequest"
        raise Refusal(shape, "Maximum number of entries per request are 10.", code=older + shape)
    if len({entry["Id"] for entry in entries}) < len(entries):
        raise Refusal("BatchEntryIdsNotDistinct", code=f"{older}BatchEntryIdsNotDistinct")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Listening"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        action = self.headers.get("X-Amz-Target", "").removeprefix("AmazonSQS.")
        try:
            self._say(200, self.server.sqs.answer(action, json.loads(body or b"{}")))
        except Refusal as refusal:
            told = {"__type": f"com.amazonaws.sqs#{refusal.shape}", "message": str(refusal)}
            self._say(refusal.status, told, refusal.code)

    def _say(self, status: int, told: dict[str, Any], code: str = "") -> None:
        text = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(text)))
        if code:
            self.send_header("x-amzn-query-error", f"{code};Sender")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing: tests ask `requests`."""


class Listening(ThreadingHTTPServer):
    """From `up` to `down`."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, sqs: FakeSQS) -> None:
        self.sqs = sqs
        self._open: set[socket.socket] = set()
        super().__init__((HOST, sqs.port), Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name="fake-sqs", daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up when they please."""

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
