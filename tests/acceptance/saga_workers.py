"""A worker of sagas that fails, gives up and dies as chance has it. What its steps do stands in a ledger.

`python -m tests.acceptance.saga_workers URL SEED` works until its stdin ends. Steps write their lines into the ledger
in a transaction of its own, before their ack; an undo removes its line; a step that gives up leaves none behind.
"""

import os
import random
import select
import sys
from contextlib import closing, suppress
from typing import Any

import apsw
import psycopg

from holdfast import Claim, Holdfast, LeaseLost, Step

STEPS = ("a", "b", "c", "d")
MOST = 20
DEATHS = 6
DIES_WITHIN = 20
"""The first workers die after so many rounds of work at most: no run of the test is without deaths."""
LAST_LEASE = 3.0
"""Seconds. What a worker takes before it dies comes back soon; not before it has written its lines."""
QUEUES = [*STEPS, *(f"un{step}" for step in STEPS)]


def declare(hf: Holdfast) -> None:
    """One step, two side by side, one more."""
    for queue in QUEUES:
        hf.queue(queue, lease=60, max_attempts=50, backoff=None)  # The ledger does not ask who holds it by now.
    a, b, c, d = (Step(step, step, undo=f"un{step}") for step in STEPS)
    hf.saga("s", steps=[a, [b, c], d])


class Ledger:
    """Which steps of which sagas are done."""

    def __init__(self, url: str) -> None:
        self.connection: Any
        if url.startswith("postgresql"):
            self.connection = psycopg.connect(url, autocommit=True)
        else:
            self.connection = apsw.Connection(url.removeprefix("sqlite:///"))
            self.connection.set_busy_timeout(60_000)
        self.connection.execute("CREATE TABLE IF NOT EXISTS ledger (line text PRIMARY KEY)")

    def change(self, written: list[str], removed: list[str]) -> None:
        """All of it, or nothing."""
        statements = [f"INSERT INTO ledger VALUES ('{line}') ON CONFLICT DO NOTHING" for line in sorted(written)]
        statements += [f"DELETE FROM ledger WHERE line = '{line}'" for line in sorted(removed)]
        self.connection.execute("; ".join(["BEGIN", *statements, "COMMIT"]))

    def lines(self) -> set[str]:
        return {line for (line,) in self.connection.execute("SELECT line FROM ledger")}

    def close(self) -> None:
        self.connection.close()


def work(hf: Holdfast, claims: list[Claim], ledger: Ledger, chance: random.Random, dies: bool) -> None:
    """Most go well."""
    done, failed, given_up = list[Claim](), list[Claim](), list[Claim]()
    for claim in claims:
        chance.choices([done, failed, given_up], [84, 10, 6])[0].append(claim)
    written, removed = lines_of(done, "do"), [*lines_of(done, "undo"), *lines_of(given_up, "do")]
    ledger.change(written, removed)
    if dies:
        os._exit(9)
    with suppress(LeaseLost):
        hf.ack(done, "done")
    with suppress(LeaseLost):
        hf.nack(failed, "bad luck", delay=0)
    with suppress(LeaseLost):
        hf.dead_letter(given_up, "given up")


def lines_of(claims: list[Claim], direction: str) -> list[str]:
    keys = [claim.message.headers["holdfast-step-key"].split("/") for claim in claims]
    return [f"{saga}/{step}" for saga, _, step, found, *_ in keys if found == direction]


def main(url: str, seed: int) -> None:
    chance = random.Random(seed)
    left = chance.randint(2, DIES_WITHIN) if seed < DEATHS else 0
    with Holdfast(url) as hf, closing(Ledger(url)) as ledger:
        while not select.select([sys.stdin], [], [], 0)[0]:
            lease = LAST_LEASE if left == 1 else None
            if claims := hf.claim(*chance.sample(QUEUES, len(QUEUES)), n=MOST, wait=0.1, lease=lease):
                left -= 1
                work(hf, claims, ledger, chance, dies=left == 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
