"""DBOS: durable workflows of three steps, called directly by several threads, which is the fastest of its ways.

Measured beside each other, `start_workflow` in as many threads, `start_workflow_async` and awaited workflows came to
0.5 to 0.9 of that, and its queue to less: a workflow that is called commits its start, its steps and its end, and
the other ways commit more.
"""

import itertools
import logging
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOS, DBOSClient

from bench import payload
from bench.peers.drivers.serving import serve

THREADS = 10


def _do(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"step": name, "of": body["n"]}


def _flow(body: dict[str, Any]) -> int:
    for name in payload.STEPS:
        do(name, body)
    return int(body["n"])


do = DBOS.step()(_do)
flow = DBOS.workflow()(_flow)


class Dbos:
    """It is no queue, and has none of a queue's verbs."""

    async def open(self, url: str) -> None:
        logging.disable(logging.ERROR)
        self.url = url

    async def create(self) -> None:
        if self.url.startswith("sqlite"):  # As Holdfast has it; a file stays in the mode it was set to.
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as file:
                file.execute("PRAGMA journal_mode = WAL")
            file.close()
        self._launch()
        DBOS.destroy()

    async def sagas(self, count: int, seconds: float) -> tuple[list[int], float]:
        """The numbers of those that came to their end, and how long that took."""
        self._launch()
        numbers, started = itertools.count(), time.monotonic()

        def caller(_: int) -> list[int]:
            done = []
            while (number := next(numbers)) < count and time.monotonic() - started < seconds:
                done.append(flow(payload.body(number)))
            return done

        with ThreadPoolExecutor(THREADS) as callers:
            found = [number for done in callers.map(caller, range(THREADS)) for number in done]
        took = time.monotonic() - started
        DBOS.destroy()
        return found, took

    async def left(self) -> int:
        client = DBOSClient(system_database_url=self.url)
        left = client.list_workflows(status=["PENDING", "ENQUEUED"])
        client.destroy()
        return len(left)

    async def close(self) -> None:
        """Every command ends what it has begun."""

    def _launch(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.url,
                "run_admin_server": False,
                "log_level": "ERROR",
                "console_log_level": "ERROR",
            }
        )
        DBOS.launch()


if __name__ == "__main__":
    serve(Dbos())
