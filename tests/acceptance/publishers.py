"""Processes that publish from many transactions at once, each of which takes its time to commit, or never does."""

import random
import sqlite3
import threading
import time
from typing import Any

import psycopg

from holdfast import Holdfast
from tests.acceptance.history import Log
from tests.acceptance.working import Orders

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
    chance, conn, number = random.Random(seed), connection(url), 0
    while number < count if count else not orders.over:
        name = f"{topic}.{chance.choice(PLACES)}.{chance.choice(KINDS)}"
        value = f"{name}|{key}|{number}"
        log.write("send", "invoke", values=[value])
        conn.execute("BEGIN IMMEDIATE" if url.startswith("sqlite") else "BEGIN")
        receipt = hf.publish(name, value, key=key, conn=conn)
        time.sleep(chance.random() * LONGEST[url.split(":")[0]])
        if chance.random() < ROLLED_BACK:
            conn.execute("ROLLBACK")
        else:
            conn.execute("COMMIT")
            log.sent([receipt], [value])
        number += 1
    conn.close()


def connection(url: str) -> Any:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").split("?")[0]
        return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    return psycopg.connect(url, autocommit=True)
