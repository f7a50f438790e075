"""What every kind of worker does: hear orders, send, take, settle; each step noted in the log, before and after."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from holdfast import Claim, Holdfast, LeaseLost
from tests.acceptance.history import Log


class Orders:
    """The lines of stdin, read by a thread of their own so that a worker can be busy meanwhile."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._news = threading.Condition()
        self.over = False
        threading.Thread(target=self._read, daemon=True).start()

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._lines or self.over)
                if not self._lines:
                    return
                line = self._lines.pop(0)
            verb, details = json.loads(line)
            yield verb, details

    def wait(self, seconds: float) -> None:
        if seconds:
            with self._news:
                self._news.wait_for(lambda: self.over, seconds)

    def _read(self) -> None:
        for line in sys.stdin:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self.over = True
            self._news.notify_all()


def send(log: Log, hf: Holdfast, queue: str, values: list[str], **options: Any) -> None:
    log.write("send", "invoke", values=values)
    if len(values) == 1:
        receipts = [hf.enqueue(queue, values[0], **options)]
    else:
        receipts = hf.enqueue_many(queue, values, **options)
    log.sent(receipts, values)


def take(log: Log, hf: Holdfast, queue: str, n: int, held: list[Claim]) -> list[Claim]:
    """Claims, and settles in the same transaction what was held before."""
    if not held:
        claims = hf.claim(queue, n=n, wait=0.1)
        if claims:
            log.claimed(claims)
        return claims
    claims = settle(log, "ack", held, lambda done: hf.claim(queue, n=n, ack=done))
    if claims:
        log.claimed(claims)
    return claims or []


def settle(log: Log, op: str, claims: list[Claim], verb: Callable[[list[Claim]], Any]) -> Any:
    """Ends claims; a lost lease is an answer like any other."""
    if not claims:
        return None
    log.settling(op, claims)
    try:
        result = verb(claims)
    except LeaseLost:
        log.settled(op, [claim for claim in claims if claim.ended is not None])
        log.refused(op, [claim for claim in claims if claim.ended is None])
        return None
    log.settled(op, claims)
    return result


def is_drained(hf: Holdfast, queue: str) -> bool:
    stats = hf.stats(queue)
    return stats.pending + stats.waiting + stats.processing == 0
