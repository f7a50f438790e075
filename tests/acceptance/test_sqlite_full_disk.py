"""SQLite on a real file system that is full: what waits can be claimed and ended; and a log that shrinks again."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import Holdfast, StoreFull
from tests.acceptance.children import GUARD, ROOT

ENGINES = ["apsw", "stdlib"]

IN_MEMORY = 'mount -t tmpfs -o size=6m tmpfs "$1" && shift && exec "$@"'
"""A file system of 6 MB in a namespace of its own: it is gone when the program ends."""


def fill_and_drain(folder: str, engine: str, size: int, batch: int) -> dict[str, Any]:
    """Three times: enqueues until the disk is full, fills what is left with something else, and ends all that waits.

    The first time another client does that, which has to open the database on the full disk.
    """
    url, rounds = f"sqlite:///{folder}/work.db?engine={engine}", []
    other = Path(folder) / "other"
    hf = Holdfast(url)
    hf.queue("q", max_attempts=1, history=0)
    hf.queue("r", history=0)
    for number in range(3):
        stored = enqueue_until_full(hf, size, batch)
        if number == 0:
            hf.close()
        fill(other)
        if number == 0:
            assert "work.db-reserve" in os.listdir(folder), "where there is little room, it stays"
            hf = Holdfast(url)
        with Holdfast(url) as rival:
            ended = [claim.message.body[0] for claim in end_all(hf, rival)]
        rounds.append([stored, ended == list(range(stored))])
        other.unlink()
    hf.enqueue("q", "there is room again")
    hf.ack(hf.claim("q"))
    hf.close()
    connection = apsw.Connection(f"{folder}/work.db")
    sound = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return {"rounds": rounds, "sound": sound}


def enqueue_until_full(hf: Holdfast, size: int, batch: int) -> int:
    stored = 0
    try:
        while True:
            hf.enqueue_many("q", [[stored + number, "x" * size] for number in range(batch)])
            stored += batch
    except StoreFull:
        return stored


def end_all(hf: Holdfast, rival: Holdfast) -> list[Any]:
    """Ends what waits, while a rival would take all the room there is for messages of its own."""
    ended: list[Any] = []
    while claims := hf.claim("q", n=25):
        with suppress(StoreFull):
            rival.enqueue("r", "x" * 100_000)
        hf.extend(claims[0], 60)
        hf.ack(claims if ended else claims[1:])
        if not ended:
            hf.nack(claims[0], "it dies")
        ended += claims
    while claims := hf.claim("r", n=7):
        hf.ack(claims)
    hf.maintain()
    return ended


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


@pytest.mark.parametrize(("size", "batch"), [(3_000, 20), (15_000, 1)])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk_can_be_drained(tmp_path: Path, engine: str, size: int, batch: int) -> None:
    arguments = [str(tmp_path), engine, str(size), str(batch)]
    program = [sys.executable, "-m", "tests.acceptance.test_sqlite_full_disk", *arguments]
    command = ["unshare", "-Urm", "sh", "-c", IN_MEMORY, "sh", str(tmp_path), *program]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=GUARD, check=True)
    found = json.loads(done.stdout)
    assert all(stored > 0 and complete for stored, complete in found["rounds"]), found
    assert found["sound"] == [["ok"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_that_readers_kept_from_starting_anew_shrinks_again(sqlite_path: Path, engine: str) -> None:
    log = sqlite_path.with_name(sqlite_path.name + "-wal")
    with Holdfast(f"sqlite:///{sqlite_path}?engine={engine}") as hf:
        hf.queue("q")
        hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN'); "
        hold += "c.execute('SELECT * FROM holdfast_message').fetchall(); print('held', flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", hold, str(sqlite_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"held\n"
            while log.stat().st_size < 80_000_000:
                hf.enqueue_many("q", ["x" * 10_000] * 500)
        for number in range(3):
            hf.enqueue("q", number)
        assert log.stat().st_size < 48_000_000


if __name__ == "__main__":
    print(json.dumps(fill_and_drain(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
