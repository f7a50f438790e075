"""An application that has Holdfast's file open through a second SQLite library:
`python -m tests.acceptance.second_library FOLDER ENGINE`.

For each call, on a file of its own, prints which messages were confirmed before and what the call said. Then it is
killed.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import apsw

from holdfast import AsyncHoldfast, EngineConflict, Holdfast
from holdfast.client.client import internals

OTHERS: dict[str, Any] = {"apsw": sqlite3.connect, "stdlib": apsw.Connection}

CALLS = [
    *("enqueue", "enqueue later", "claim", "ack", "stats", "transaction"),
    *("another client", "closed before", "asyncio"),
]


def calls(hf: Holdfast, url: str) -> dict[str, Callable[[], Any]]:
    """What a client may be asked once the log is gone."""
    (held,) = hf.claim("held")
    return {
        "enqueue": lambda: hf.enqueue("q", "lost"),
        "enqueue later": lambda: hf.enqueue("q", "lost", delay=60),
        "claim": lambda: hf.claim("q"),
        "ack": lambda: hf.ack(held),
        "stats": lambda: hf.stats("q"),
        "transaction": lambda: lend(hf),
        "another client": lambda: Holdfast(url).enqueue("q", "lost"),
        "closed before": lambda: (hf.close(), hf.enqueue("q", "lost")),
        "asyncio": lambda: asyncio.run(enqueue(url)),
    }


def lend(hf: Holdfast) -> None:
    with internals(hf).store.lend() as connection:
        connection.execute("DELETE FROM holdfast_message")


async def enqueue(url: str) -> None:
    async with AsyncHoldfast(url) as hf:
        await hf.enqueue("q", "lost")


def open_and_close(path: str, engine: str) -> None:
    other = OTHERS[engine](path)
    other.execute("SELECT count(*) FROM holdfast_message").fetchall()
    other.close()


def conflict(path: str, engine: str, call: str) -> dict[str, Any]:
    """Which messages were confirmed, and what the client said after that."""
    url = f"sqlite:///{path}?engine={engine}"
    hf, said = Holdfast(url), []
    hf.enqueue("held", "x")
    ask = calls(hf, url)[call]
    confirmed = [hf.enqueue("q", number).id for number in range(50)]
    open_and_close(path, engine)
    for attempt in (ask, ask, lambda: hf.enqueue("q", "lost")):
        try:
            said.append(str(attempt()))
        except EngineConflict as problem:
            said.append(f"EngineConflict: {problem}")
    hf.close()
    return {"path": path, "call": call, "confirmed": confirmed, "said": said}


if __name__ == "__main__":
    folder, engine = sys.argv[1:]
    outcomes = [conflict(f"{folder}/{number}.db", engine, call) for number, call in enumerate(CALLS)]
    print(json.dumps(outcomes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
