"""moto's SQS as a server on loopback: one per process of the test run, started when a test first wants it."""

import functools
import itertools
import logging
import os
import time
import urllib.request

from moto.server import ThreadedMotoServer
from moto.sqs import models

from tests.servers import HOST
from tests.sqs.fake_sqs import CREDENTIALS

_numbers = itertools.count(1)


def hasten() -> None:
    """moto counts all messages of a queue, by a slow clock, whenever one is sent or received: a thousand take seconds.
    Nothing here is old enough to be forgotten, which is what it counts them for."""
    models.unix_time_millis = lambda: time.time() * 1000  # type: ignore[attr-defined]
    models.SQSBackend.is_message_valid_based_on_retention_period = lambda *_: True  # type: ignore[method-assign]


@functools.cache
def endpoint() -> str:
    """Its URL. It ends with the process, whose threads are all that it is."""
    hasten()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    return f"http://{HOST}:{server.get_host_and_port()[1]}"


def reset() -> None:
    """No queue is left. Asked again where the server hangs up, as it seldom does on a busy machine."""
    request = urllib.request.Request(f"{endpoint()}/moto-api/reset", method="POST")
    for left in reversed(range(5)):
        try:
            return urllib.request.urlopen(request, timeout=30).close()
        except OSError:
            if not left:
                raise


def environment() -> dict[str, str]:
    """What makes any boto3 find it."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL_SQS": endpoint()}


def fresh_name(suffix: str = "") -> str:
    """A queue's name that no other test of this run has."""
    return f"holdfast-{os.getpid()}-{next(_numbers)}{suffix}"
