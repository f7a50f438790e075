"""Processes that publish from many transactions at once, each of which takes its time to commit, or never does."""

import random
import sqlite3
import threading
import time
from typing import Any

import psycopg

from holdfast import Holdfast
from tests.acceptance.history import Log

PLACES = ("eu", "us")
KINDS = ("created", "paid", "gone")
ROLLED_BACK = 0.1
LONGEST = {"postgresql": 0.03, "sqlite": 0.001}
"""Seconds between a publish and its commit; on SQLite everyone else waits for them."""


def late_publisher(log: Log, url: str, topic: str, name: str, writers: int, count: int, seed: int) -> None:
    """Values are `name|key|number`: of one key they are committed in this order, by one writer."""
    with Holdfast(url) as hf:
        threads = [
            threading.Thread(target=write, args=(log, hf, url, topic, f"{name}{number}", count, seed + number))
            for number in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def write(log: Log, hf: Holdfast, url: str, topic: str, key: str, count: int, seed: int) -> None:
    chance, conn = random.Random(seed), connection(url)
    for number in range(count):
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
    conn.close()


def connection(url: str) -> Any:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").split("?")[0]
        return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    return psycopg.connect(url, autocommit=True)
