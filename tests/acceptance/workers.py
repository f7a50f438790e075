"""What the processes of the acceptance tests do: `python -m tests.acceptance.workers ROLE LOG SETTINGS`.

Orders come as lines on stdin, answers go to stdout, and everything that matters goes to the log first.
"""

import faulthandler
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast import Claim, Holdfast, HoldfastError, LeaseLost, Receipt
from holdfast.core.message import NewMessage, encode_json, id_text
from holdfast.core.priority import NORMAL, lane
from holdfast.store.ids import new_id
from tests.acceptance.history import Log

POISON = "poison"
"""A message that kills whoever works on it."""

Role = Callable[..., None]


# --- producers and consumers ------------------------------------------------------------------------------------------


def produce(log: Log, url: str, queue: str, name: str, count: int, batch: int = 1, **options: Any) -> None:
    """Sends `count` messages, whose bodies are `name-0`, `name-1`, …"""
    with Holdfast(url) as hf:
        for start in range(0, count, batch):
            send(log, hf, queue, [f"{name}-{number}" for number in range(start, min(start + batch, count))], **options)


def stream(log: Log, url: str, queue: str, name: str, batch: int = 1, pause: float = 0.0) -> None:
    """Sends until it is told to stop."""
    orders, number = Orders(), 0
    with Holdfast(url) as hf:
        while not orders.over:
            send(log, hf, queue, [f"{name}-{number + more}" for more in range(batch)])
            number += batch
            orders.wait(pause)


def send(log: Log, hf: Holdfast, queue: str, values: list[str], **options: Any) -> None:
    log.write("send", "invoke", values=values)
    if len(values) == 1:
        receipts = [hf.enqueue(queue, values[0], **options)]
    else:
        receipts = hf.enqueue_many(queue, values, **options)
    log.sent(receipts, values)


def consume(
    log: Log,
    url: str,
    queue: str,
    n: int = 1,
    fused: bool = False,
    moody: bool = False,
    worker: str | None = None,
) -> None:
    """Works until there are no more orders and nothing is left in the queue, waiting or in someone's hands."""
    orders = Orders()
    with Holdfast(url, worker=worker, sweep_every=0.1) as hf:
        held: list[Claim] = []
        while True:
            held = take(log, hf, queue, n, held)
            if not held and orders.over and is_drained(hf, queue):
                return
            if any(claim.message.body == POISON for claim in held):
                os.kill(os.getpid(), signal.SIGKILL)
            if moody:
                held = settle_moodily(log, hf, held)
            elif not fused:
                settle(log, "ack", held, hf.ack)
                held = []


def settle_moodily(log: Log, hf: Holdfast, held: list[Claim]) -> list[Claim]:
    """Ends some of the claims in one of the many ways; the rest may be acked with the next claim, or is forgotten."""
    chance = random.random()
    some = [claim for claim in held if random.random() < 0.5]
    if chance < 0.2:
        settle(log, "nack", some, lambda claims: hf.nack(claims, "a bad mood", delay=random.choice([0, 0.05])))
    elif chance < 0.3:
        settle(log, "release", some, hf.release)
    elif chance < 0.4:
        settle(log, "snooze", some, lambda claims: hf.snooze(claims, 0.05))
    elif chance < 0.7:
        settle(log, "ack", some, hf.ack)
    else:
        some = []
    return [] if chance < 0.05 else [claim for claim in held if claim not in some]


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


# --- a worker on strings ----------------------------------------------------------------------------------------------


def puppet(log: Log, url: str, queue: str, worker: str | None = None, patience: float = 60.0) -> None:
    """Does what it is told, one order at a time, and says what came of it."""
    orders = Orders()
    with Holdfast(url, worker=worker, patience=patience, sweep_every=3600) as hf:
        strings = Strings(log, hf, queue)
        for verb, details in orders:
            try:
                answer = getattr(strings, verb)(**details)
            except HoldfastError as problem:
                answer = type(problem).__name__
            print(json.dumps(answer), flush=True)


class Strings:
    """The orders that a puppet knows."""

    def __init__(self, log: Log, hf: Holdfast, queue: str) -> None:
        self._log, self._hf, self._queue = log, hf, queue
        self._held: list[Claim] = []

    def send(self, value: str, **options: Any) -> str:
        send(self._log, self._hf, self._queue, [value], **options)
        return value

    def send_many(self, values: list[str], **options: Any) -> int:
        send(self._log, self._hf, self._queue, values, **options)
        return len(values)

    def claim(self, **options: Any) -> list[Any]:
        self._held = self._hf.claim(self._queue, **options)
        self._log.claimed(self._held)
        return [claim.message.body for claim in self._held]

    def settle(self, op: str, **options: Any) -> str:
        """Ends what it holds; the answer is the name of the error, if any."""
        self._log.settling(op, self._held)
        try:
            getattr(self._hf, op)(self._held, **options)
        except LeaseLost:
            self._log.refused(op, self._held)
            raise
        self._log.settled(op, self._held)
        return ""

    def extend(self, duration: float) -> str:
        self._hf.extend(self._held, duration)
        return ""

    def sweep(self) -> int:
        return self._hf.sweep(self._queue)

    def time_claims(self, count: int) -> list[float]:
        """How long each of so many claims of one message takes; they are acked outside of the measurement."""
        times = []
        for _ in range(count):
            began = time.perf_counter()
            claims = self._hf.claim(self._queue)
            times.append(time.perf_counter() - began)
            self._hf.ack(claims)
        return times

    def stats(self) -> list[int]:
        found = self._hf.stats(self._queue)
        return [found.pending, found.waiting, found.processing, found.dead]


# --- special ones -----------------------------------------------------------------------------------------------------


def racer(log: Log, url: str, queue: str, lease: float, rounds: int, together: int) -> None:
    """Holds several claims to the very end of their leases and then acks: sometimes just in time, sometimes not."""
    with Holdfast(url, sweep_every=3600) as hf:
        for _ in range(rounds):
            claims = [claim for _ in range(together) for claim in hf.claim(queue, n=1, lease=lease)]
            log.claimed(claims)
            for number, claim in enumerate(claims):
                sleep_until(claim.lease.until + (number % 5 - 3) * 500)
                settle(log, "ack", [claim], hf.ack)
    print(json.dumps("done"), flush=True)


def sleep_until(moment: int) -> None:
    while (left := moment - time.time_ns() // 1000) > 0:
        time.sleep(min(left / 2_000_000, 0.01))


def sweeper(log: Log, url: str, queue: str) -> None:
    """Takes back expired leases as fast as it can."""
    orders = Orders()
    with Holdfast(url) as hf:
        while not orders.over:
            hf.sweep(queue)


def onlooker(log: Log, url: str, queue: str) -> None:
    """A busy process of many clients that look, come and go, beside one that sends and works."""
    orders = Orders()
    watching = threading.Thread(target=look_around, args=(log, url, queue, orders), daemon=True)
    watching.start()
    with Holdfast(url) as hf:
        number = 0
        while not orders.over:
            send(log, hf, queue, [f"{os.getpid()}-{number + more}" for more in range(3)])
            settle(log, "ack", take(log, hf, queue, 2, []), hf.ack)
            number += 3


def look_around(log: Log, url: str, queue: str, orders: "Orders") -> None:
    try:
        while not orders.over:
            with Holdfast(url) as hf:
                found = hf.peek(queue, 5)
                hf.stats(queue)
                hf.status(found[0].id if found else str(os.urandom(16).hex()))
                hf.dead_letters(queue)
                hf.queues()
            log.write("look", "ok")
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        raise


def late_writer(log: Log, url: str, queue: str, writers: int, rounds: int, seed: int) -> None:
    """Several threads send as the product does, but in transactions of their own that commit late, or never."""
    hf = Holdfast(url)
    threads = [
        threading.Thread(target=write_late, args=(log, hf, queue, f"{seed}-{number}", rounds)) for number in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hf.close()


def write_late(log: Log, hf: Holdfast, queue: str, name: str, rounds: int) -> None:
    from holdfast.store.postgres.connection import PostgresTransaction
    from holdfast.store.postgres.lanes import insert

    chance = random.Random(name)
    channel = hf.store.channels.find("default", queue)
    assert channel is not None
    try:
        with hf.store.database.connect() as connection:  # type: ignore[attr-defined]
            for round in range(rounds):
                values = [f"{name}-{round}-{number}" for number in range(chance.randint(1, 5))]
                new = [NewMessage(new_id(), lane(channel.id, NORMAL), encode_json(value)) for value in values]
                connection.execute("BEGIN")
                if chance.random() < 0.5:
                    connection.execute("SELECT pg_current_xact_id()")
                    time.sleep(chance.uniform(0, 0.05))
                for message in new:
                    insert(PostgresTransaction(connection, None, False), [message])
                    time.sleep(chance.choice([0, 0, 0.02]))
                time.sleep(chance.choice([0, chance.uniform(0, 0.1)]))
                if chance.random() < 0.1:
                    connection.execute("ROLLBACK")
                    continue
                log.write("send", "invoke", values=values)
                connection.execute("COMMIT")
                log.sent([Receipt(id_text(message.id)) for message in new], values)
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        raise


def duelist(log: Log, url: str, queue: str, rounds: int, size: int, against: str) -> None:
    """Two processes end the same claims at the same moment, in opposite order: one acks, the other does otherwise."""
    with Holdfast(url) as hf:
        batches = [hf.claim(queue, n=size, lease=300) for _ in range(rounds)]
        for claims in batches:
            log.claimed(claims)
        barrier = multiprocessing.get_context("fork").Barrier(2)

        def fight(log: Log, op: str) -> None:
            for claims in batches:
                barrier.wait(60)
                if op == "cancel":
                    cancel(log, hf, claims[::-1])
                elif op == "ack":
                    settle(log, "ack", claims, lambda done: hf.claim(queue, ack=done))
                else:
                    settle(log, op, claims[::-1], getattr(hf, op))

        wait = fork_by_os(fight, log, against)
        fight(log, "ack")
        assert wait() == 0, "the other process has failed"


def cancel(log: Log, hf: Holdfast, claims: list[Claim]) -> None:
    for claim in claims:
        log.write("cancel", "ok", id=claim.message.id, done=hf.cancel(claim.message.id))


# --- forks ------------------------------------------------------------------------------------------------------------


def forker(log: Log, url: str, queue: str, count: int, way: str, busy: bool) -> None:
    """Forks with an open client, while another thread uses it if `busy`; then both processes send and work."""
    with Holdfast(url) as hf:
        send(log, hf, queue, ["before"])
        settle(log, "ack", take(log, hf, queue, 1, []), hf.ack)
        assert hf.claim(queue, wait=0.01) == []
        enough = threading.Event()
        sending = threading.Thread(target=send_until, args=(log, hf, queue, enough))
        if busy:
            sending.start()
        fork: Callable[..., Callable[[], int]] = fork_by_os if way == "os" else fork_by_multiprocessing
        waits = [fork(send_and_work, log, hf, queue, f"child-{number}", count) for number in range(2)]
        send_and_work(log, hf, queue, "parent", count)
        codes = [wait() for wait in waits]
        enough.set()
        if busy:
            sending.join()
        assert codes == [0, 0], f"the children ended with {codes}"
        while claims := take(log, hf, queue, 1000, []):
            settle(log, "ack", claims, hf.ack)


def send_until(log: Log, hf: Holdfast, queue: str, enough: threading.Event) -> None:
    number = 0
    while not enough.is_set():
        send(log, hf, queue, [f"thread-{number}"])
        number += 1


def send_and_work(log: Log, hf: Holdfast, queue: str, name: str, count: int) -> None:
    for start in range(0, count, 200):
        send(log, hf, queue, [f"{name}-{number}" for number in range(start, start + 200)])
        settle(log, "ack", take(log, hf, queue, 150, []), hf.ack)
        send(log, hf, queue, [f"{name}-single-{start}"])
        if start % 1000 == 0:
            hf.close()  # Whoever closes last tidies up the file; it must not believe that of itself while others are left.


def fork_by_os(work: Callable[..., None], log: Log, *arguments: Any) -> Callable[[], int]:
    pid = os.fork()
    if not pid:
        os._exit(ended_well(work, log, *arguments))
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_by_multiprocessing(work: Callable[..., None], log: Log, *arguments: Any) -> Callable[[], int]:
    child = multiprocessing.get_context("fork").Process(target=ended_well, args=(work, log, *arguments))
    child.start()

    def wait() -> int:
        child.join()
        return child.exitcode or 0

    return wait


def ended_well(work: Callable[..., None], log: Log, *arguments: Any) -> int:
    signal.alarm(30)
    try:
        work(log, *arguments)
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        return 1
    return 0


def fork_while_opening(log: Log, url: str, queue: str) -> None:
    """Forks at the moment when another thread is in the middle of the client's first use."""
    hf = Holdfast(url)
    begun, go_on = threading.Event(), threading.Event()
    migrate = hf.store.schema.migrate

    def migrate_slowly() -> list[str]:
        begun.set()
        go_on.wait()
        return migrate()

    hf.store.schema.migrate = migrate_slowly  # type: ignore[method-assign]
    opening = threading.Thread(target=send, args=(log, hf, queue, ["parent"]))
    opening.start()
    begun.wait()
    hf.store.schema.migrate = migrate  # type: ignore[method-assign]
    wait = fork_by_os(send, log, hf, queue, ["child"])
    go_on.set()
    opening.join()
    code = wait()
    assert code == 0, f"the child ended with {code}"
    hf.close()


def fork_in_threads(log: Log, url: str, queue: str, threads: int, forks: int) -> None:
    """Several threads fork at the same time, while others use the client."""
    with Holdfast(url) as hf:
        enough = threading.Event()
        sending = threading.Thread(target=send_until, args=(log, hf, queue, enough))
        sending.start()
        forking = [threading.Thread(target=fork_often, args=(log, hf, queue, number, forks)) for number in range(threads)]
        for thread in forking:
            thread.start()
        for thread in forking:
            thread.join()
        enough.set()
        sending.join()


def fork_often(log: Log, hf: Holdfast, queue: str, thread: int, forks: int) -> None:
    for number in range(forks):
        code = fork_by_os(send, log, hf, queue, [f"forked-{thread}-{number}"])()
        if code:
            log.write("error", "fail", error=f"a child ended with {code}")


# --- running ----------------------------------------------------------------------------------------------------------


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


ROLES: dict[str, Role] = {
    role.__name__: role
    for role in (
        *(produce, stream, consume, puppet, racer, sweeper, onlooker),
        *(forker, fork_while_opening, fork_in_threads),
        *(late_writer, duelist),
    )
}


def main(arguments: Sequence[str]) -> int:
    role, path, settings = arguments
    faulthandler.dump_traceback_later(150, exit=True)
    log = Log(Path(path))
    try:
        ROLES[role](log, **json.loads(settings))
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
