"""Processes that publish from many transactions at once, each of which takes its time to commit, or never does."""

import fcntl
import os
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from holdfast import Holdfast
from tests.acceptance.history import Log
from tests.acceptance.working import Orders
from tests.waiting import spend

PLACES = ("eu", "us")
KINDS = ("created", "paid", "gone")
ROLLED_BACK = 0.1
LONGEST = {"postgresql": 0.03, "sqlite": 0.001}
"""Seconds between a publish and its commit; on SQLite everyone else waits for them."""


def late_publisher(log: Log, url: str, topic: str, name: str, writers: int, seed: int, count: int = 0) -> None:
    """Values are `name|key|number`: of one key they are committed in this order, by one writer.

    Each writer publishes until there are no more orders, or `count` messages if that is said.
    """
    orders = Orders()
    with Holdfast(url) as hf:
        threads = [
            threading.Thread(target=write, args=(log, hf, url, topic, f"{name}{number}", seed + number, count, orders))
            for number in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def write(log: Log, hf: Holdfast, url: str, topic: str, key: str, seed: int, count: int, orders: Orders) -> None:
    chance, conn, number, turns = random.Random(seed), connection(url), 0, Turns(url)
    while number < count if count else not orders.over:
        name = f"{topic}.{chance.choice(PLACES)}.{chance.choice(KINDS)}"
        value = f"{name}|{key}|{number}"
        log.write("send", "invoke", values=[value])
        with turns.turn():
            conn.execute("BEGIN IMMEDIATE" if url.startswith("sqlite") else "BEGIN")
            receipt = hf.publish(name, value, key=key, conn=conn)
            spend(chance.random() * LONGEST[url.split(":")[0]])
            if chance.random() < ROLLED_BACK:
                conn.execute("ROLLBACK")
            else:
                conn.execute("COMMIT")
                log.sent([receipt], [value])
        number += 1
    conn.close()
    turns.close()


class Turns:
    """On SQLite publishers queue up for the file, in which there is one transaction at a time.

    SQLite tells nobody that it is free. Who waits looks more and more seldom, and starves for seconds beside many who
    come back at once, while these publish thousands of messages. A lock of the system wakes the next one.
    """

    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:///").split("?")[0] + "-turns"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600) if url.startswith("sqlite") else None

    @contextmanager
    def turn(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        spend(0.001)  # The next one has to wake up first.

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


def connection(url: str) -> Any:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").split("?")[0]
        return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    return psycopg.connect(url, autocommit=True)
