"""A sweep of crashes: one script of everything a store does, killed at its first write, its second, … to its last.

`python -m tests.acceptance.crashpoints FOLDER FIRST STEP` forks a fresh process per crash point, and opens nothing
itself. In each, a file layer below SQLite counts writes and syncs and kills the process at the n-th: in the middle of a
write, half of it done. Afterwards the file must hold exactly what the last finished transaction left, or the one that
was on its way. Time stands still except where the script moves it, so that two runs differ in nothing but their ids.
"""

import json
import os
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw

import holdfast.store.sqlite  # noqa: F401 - once here, rather than in every child
from holdfast import Holdfast, Message
from holdfast.client.client import internals

Dump = dict[str, list[Any]]

LEASE, HISTORY = 10, 100
SECOND = 1_000_000
ENOUGH = 5_000
"""More points than the script can have."""

# What two runs of the script cannot have in common: ids, and when the file was made.
RANDOM_COLUMNS = {"id", "message_id", "dead_id", "replayed_as", "replay_of", "applied_at", "copy_id"}
UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# --- the file layer ---------------------------------------------------------------------------------------------------


class Countdown:
    """Kills this process at the n-th write or sync."""

    def __init__(self, point: int) -> None:
        self.left = point

    def is_over(self) -> bool:
        self.left -= 1
        return self.left == 0


class KillingFiles(apsw.VFS):
    """The operating system's files, until the countdown is over. Used by every connection that is opened after it."""

    def __init__(self, countdown: Countdown) -> None:
        self.countdown = countdown
        self.below = apsw.vfs_names()[0]
        super().__init__("killing", self.below, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return KillingFile(self.countdown, self.below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if self.countdown.is_over():
            die()
        super().xDelete(filename, syncdir)


class KillingFile(apsw.VFSFile):
    def __init__(self, countdown: Countdown, below: str, name: Any, flags: Any) -> None:
        self.countdown = countdown
        super().__init__(below, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.countdown.is_over():
            super().xWrite(bytes(data[: len(data) // 2]), offset)
            die()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        """Only counted: a killed process loses nothing that it has written, and hundreds of runs want to be quick."""
        if self.countdown.is_over():
            die()

    def xTruncate(self, size: int) -> None:
        if self.countdown.is_over():
            die()
        super().xTruncate(size)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- the script -------------------------------------------------------------------------------------------------------


class Script:
    """Every way in which the store is written, one step after the other."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_800_000_000 * SECOND
        self.hf = Holdfast(f"sqlite:///{folder}/work.db", worker="w", sweep_every=3600, clock=lambda: self.now)
        self.claims: list[Any] = []
        self._diary = os.open(folder / "diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def steps(self) -> list[Callable[[], Any]]:
        hf = self.hf
        return [
            lambda: hf.queue("q", lease=LEASE, max_attempts=2, backoff=None, history=HISTORY, dead_letter="q.dead"),
            lambda: hf.queue("brief", lease=LEASE, history=0),
            lambda: self.send("q", ["one"]),
            lambda: self.send("q", ["high"], priority="high"),
            lambda: self.send("q", [f"many-{number}" for number in range(12)]),
            lambda: self.send("brief", [f"brief-{number}" for number in range(60)]),
            lambda: self.send("q", ["later", "much later"], delay=5),
            lambda: self.claim("q", 3),
            lambda: self.ack(self.claims),
            lambda: self.claim("brief", 40),
            lambda: self.claim("brief", 20, ack=self.ending(self.claims)),
            lambda: self.ack(self.claims[:7]),
            lambda: hf.close(),
            lambda: self.ack(self.claims[7:]),
            lambda: self.claim("q", 4),
            lambda: self.ack(self.claims[:1]),
            lambda: hf.nack(self.claims[1], "no"),
            lambda: hf.dead_letter(self.claims[2], "never"),
            lambda: hf.extend(self.claims[3], LEASE),
            lambda: hf.release(self.claims[3]),
            lambda: self.pass_time(6),
            lambda: self.claim("q", 3),
            lambda: hf.snooze(self.claims, 1),
            lambda: self.claim("q", 2),
            lambda: self.pass_time(LEASE + 1),
            lambda: hf.queues.sweep("q"),
            lambda: self.claim("q", 1),
            lambda: self.pass_time(LEASE + 1),
            lambda: hf.queues.sweep("q"),
            lambda: hf.dead_letters.replay(hf.dead_letters.list("q")[0].id),
            lambda: self.cancel(hf.queues.peek("q", 1)[0]),
            lambda: self.claim("q", 30),
            lambda: self.ack(self.claims),
            lambda: self.pass_time(HISTORY + 1),
            lambda: hf.queues.sweep("q"),
            lambda: self.send("q", ["purged", "purged too"]),
            lambda: self.purge("q"),
            lambda: hf.schedule("s", queue="q", body="tick", every=5, missed="all"),
            lambda: self.pass_time(12),
            lambda: hf.schedules.fire(),
            lambda: self.send("q", ["the end"]),
            lambda: hf.close(),
        ]

    def send(self, queue: str, bodies: list[str], **options: Any) -> None:
        if len(bodies) == 1:
            self.hf.enqueue(queue, bodies[0], **options)
        else:
            self.hf.enqueue_many(queue, bodies, **options)
        self.note("sent", bodies)

    def ack(self, claims: list[Any]) -> None:
        self.hf.ack(self.ending(claims))

    def cancel(self, message: Message) -> None:
        self.note("ending", [message.body])
        assert self.hf.cancel(message.id)

    def purge(self, queue: str) -> None:
        self.note("ending", [message.body for message in self.hf.queues.peek(queue, 100)])
        assert self.hf.queues.purge(queue)

    def ending(self, claims: list[Any]) -> list[Any]:
        self.note("ending", [claim.message.body for claim in claims])
        return claims

    def note(self, what: str, bodies: Sequence[str] = ()) -> None:
        """Survives the crash: that bodies were sent, or that their end was begun, or that a step is done."""
        os.write(self._diary, json.dumps([what, list(bodies)]).encode() + b"\n")

    def claim(self, queue: str, n: int, **options: Any) -> None:
        self.claims = self.hf.claim(queue, n=n, **options)
        assert self.claims, "the script expects something here"

    def pass_time(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


def run_and_record(folder: Path) -> list[list[Dump]]:
    """The script without a crash: for each step, every state that the file was in while it ran."""
    script = Script(folder)
    looking = apsw.Connection(str(folder / "work.db"))
    looking.execute("PRAGMA journal_mode = WAL").fetchall()
    recorded = [[dump(looking)]]
    database = internals(script.hf).store.database  # type: ignore[attr-defined]

    def and_look(write: Callable[[Any], Any], work: Any) -> Any:
        result = write(work)
        recorded[-1].append(dump(looking))
        return result

    for verb in ("write", "accept", "single"):
        setattr(database, verb, partial(and_look, getattr(database, verb)))
    for step in script.steps():
        recorded.append([recorded[-1][-1]])
        step()
    looking.close()
    return recorded


def run_until_killed(folder: Path, point: int) -> None:
    """The script with a crash; what was finished by then is in its diary."""
    files = KillingFiles(Countdown(point))
    script = Script(folder)
    for step in script.steps():
        step()
        script.note("done")
    assert files.countdown.left > 0


# --- looking afterwards -----------------------------------------------------------------------------------------------


def dump(connection: apsw.Connection) -> Dump:
    """All that is in the file, except what is random."""
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    return {table: contents(connection, table) for table in tables}


def contents(connection: apsw.Connection, table: str) -> list[Any]:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in RANDOM_COLUMNS]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall() if columns else []
    return sorted(repr(without_ids(row)) for row in rows)


def without_ids(row: tuple[Any, ...]) -> list[Any]:
    """The envelope of a dead letter names the message."""
    return [UUID.sub(b"id", value) if isinstance(value, bytes) else value for value in row]


def examine(folder: Path, recorded: list[list[Dump]]) -> None:
    """The file is sound, has the state of a whole transaction, and the next process can go on with it."""
    files = KillingFiles(Countdown(0))
    connection = apsw.Connection(str(folder / "work.db"))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    found = dump(connection)
    connection.close()
    diary = [json.loads(line) for line in (folder / "diary").read_bytes().splitlines()]
    finished = sum(what == "done" for what, _ in diary)
    allowed = [recorded[finished][-1], *(recorded[finished + 1] if finished + 1 < len(recorded) else [])]
    assert found in allowed, f"after step {finished}: {difference(found, allowed)}"
    sent, ending = ({body for what, bodies in diary if what == kind for body in bodies} for kind in ("sent", "ending"))
    lost = sent - ending - go_on(folder)
    assert not lost, f"lost after step {finished}: {lost}"
    assert files.countdown.left < 0


def go_on(folder: Path) -> set[str]:
    """A new process finds everything that was pending or in the hands of the dead one; what it found, or is dead."""
    script = Script(folder)
    script.pass_time(10 * HISTORY)
    found: list[Any] = []
    with script.hf as hf:
        hf.enqueue("q", "afterwards")
        hf.queue("q", lease=LEASE, max_attempts=5)
        for queue in ("q", "brief"):
            hf.queues.sweep(queue)
            while claims := hf.claim(queue, n=100):
                found += [claim.message.body for claim in claims]
                hf.ack(claims)
            left = hf.stats(queue)
            assert (left.pending, left.waiting, left.processing) == (0, 0, 0), f"stranded in {queue}: {left}"
        found += [letter.message.body for letter in hf.dead_letters.list()]
    return set(found)


def difference(found: Dump, allowed: list[Dump]) -> str:
    nearest = min(allowed, key=lambda one: sum(found.get(table) != rows for table, rows in one.items()))
    tables = found.keys() | nearest.keys()
    return str(
        {table: (found.get(table), nearest.get(table)) for table in tables if found.get(table) != nearest.get(table)}
    )


# --- the sweep --------------------------------------------------------------------------------------------------------


def sweep(folder: Path, first: int, step: int) -> dict[str, Any]:
    """Every `step`-th point from the first on, so that several can share the work."""
    recorded = in_a_child(lambda: run_and_record(fresh(folder)))
    assert isinstance(recorded, list), recorded
    faults, points = [], 0
    for point in range(first, ENOUGH, step):
        here = fresh(folder)
        if was_killed(partial(run_until_killed, here, point)):
            fault = in_a_child(partial(examine, here, recorded))
            faults += [f"killed at {point}: {fault}"] if fault else []
            points += 1
        else:
            return {"points": points, "faults": faults}
    raise AssertionError("the script never came to its end")


def fresh(folder: Path) -> Path:
    here = folder / "here"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    return here


def was_killed(work: Callable[[], Any]) -> bool:
    pid = os.fork()
    if not pid:
        end_with(work)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), f"the script ended with {status}"
    return status != 0


def in_a_child(work: Callable[[], Any]) -> Any:
    """What the work returns, by way of a pipe, or the traceback of why it failed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            end_with(lambda: print(json.dumps(work()), file=pipe, flush=True), pipe)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(answer)


def end_with(work: Callable[[], Any], pipe: Any = sys.stderr) -> None:
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        print(json.dumps(traceback.format_exc()), file=pipe, flush=True)
    finally:
        os._exit(code)


if __name__ == "__main__":
    print(json.dumps(sweep(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
