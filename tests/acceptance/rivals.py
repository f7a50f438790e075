"""Workers that get in each other's way: at the end of a lease, over the same rows, with commits that come late."""

import json
import multiprocessing
import random
import threading
import time
from functools import partial

from holdfast import Claim, Holdfast, Receipt
from holdfast.client.client import internals
from holdfast.core.message import NewMessage, encode_json
from holdfast.core.priority import NORMAL, lane
from holdfast.store.ids import new_id
from tests.acceptance.forking import fork_by_os
from tests.acceptance.history import Log
from tests.acceptance.working import Orders, settle
from tests.waiting import spend


def racer(log: Log, url: str, queue: str, lease: float, together: int) -> None:
    """Holds several claims to the very end of their leases and then acks: sometimes just in time, sometimes not.

    If all of a round were late, which a slow machine does to short leases, the next round has fewer and longer ones and
    aims earlier; if none was, it aims later. It ends when nothing is left.
    """
    aim = 0
    with Holdfast(url, sweep_every=3600) as hf:
        while claims := [claim for _ in range(together) for claim in hf.claim(queue, n=1, lease=lease)]:
            log.claimed(claims)
            for number, claim in enumerate(claims):
                sleep_until(claim.lease.until_us + aim + (number % 5 - 3) * 500)
                settle(log, "ack", [claim], hf.ack)
            in_time = sum(claim.ended is not None for claim in claims)
            if not in_time:
                together, lease, aim = max(1, together // 2), 2 * lease, 2 * aim - 1_000
            elif in_time == len(claims):
                aim += 1_000
    print(json.dumps("done"), flush=True)


def sleep_until(moment: int) -> None:
    while (left := moment - time.time_ns() // 1000) > 0:
        spend(min(left / 2_000_000, 0.01))


def sweeper(log: Log, url: str, queue: str) -> None:
    """Takes back expired leases as fast as it can."""
    orders = Orders()
    with Holdfast(url) as hf:
        while not orders.over:
            hf.queues.sweep(queue)


def late_writer(log: Log, url: str, queue: str, writers: int, rounds: int, seed: int) -> None:
    """Several threads send as the product does, but in transactions of their own that commit late, or never."""
    hf = Holdfast(url)
    threads = [
        threading.Thread(target=write_late, args=(log, hf, queue, f"{seed}-{number}", rounds))
        for number in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hf.close()


def write_late(log: Log, hf: Holdfast, queue: str, name: str, rounds: int) -> None:
    from holdfast.store.postgres.claim import insert
    from holdfast.store.postgres.connection import PostgresTransaction

    chance = random.Random(name)
    channel = internals(hf).store.channels.find("default", queue)
    assert channel is not None
    try:
        with internals(hf).store.database.connect() as connection:  # type: ignore[attr-defined]
            for round in range(rounds):
                values = [f"{name}-{round}-{number}" for number in range(chance.randint(1, 5))]
                new = [
                    NewMessage(new_id(), channel.group, lane(channel.id, NORMAL), encode_json(value))
                    for value in values
                ]
                connection.execute("BEGIN")
                if chance.random() < 0.5:
                    connection.execute("SELECT pg_current_xact_id()")
                    spend(chance.uniform(0, 0.05))
                for message in new:
                    insert(PostgresTransaction(connection.cursor(binary=True), None), [message])
                    spend(chance.choice([0, 0, 0.02]))
                spend(chance.choice([0, chance.uniform(0, 0.1)]))
                if chance.random() < 0.1:
                    connection.execute("ROLLBACK")
                    continue
                log.write("send", "invoke", values=values)
                connection.execute("COMMIT")
                log.sent([Receipt(message.id) for message in new], values)
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


def firer(log: Log, url: str, since: int, pace: int) -> None:
    """Fires schedules as fast as it can, in a time that runs faster than that of others."""
    orders = Orders()
    with Holdfast(url, clock=partial(fast_time, since, pace)) as hf:
        while not orders.over:
            if sent := hf.schedules.fire():
                log.write("fire", "ok", sent=sent)


def fast_time(since: int, pace: int) -> int:
    """The same in every process."""
    return since + pace * (time.time_ns() // 1000 - since)
