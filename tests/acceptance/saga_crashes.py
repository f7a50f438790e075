"""Sagas of five steps, killed at every write that one of them takes, forwards and backwards.

`python -m tests.acceptance.saga_crashes URL FOLDER WAY` has many sagas in one database, all of them before the same
turn: the start, or the next step. For each crash point of that turn a process is forked that takes it for one of them
and is killed: on SQLite at its n-th write or sync, in the middle of it; on PostgreSQL before its n-th statement. When
one comes through, the turn has no more points. An hour later the other sagas are taken past it, and those that were
left in the middle of it, and the next turn begins. What a step does is a line in a file, written before its ack; at
the end every saga is judged by its lines.
"""

import json
import os
import signal
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Claim, Holdfast, Step
from holdfast.store.postgres.prepared import Prepared
from tests.acceptance.crashpoints import ENOUGH, SECOND, Countdown, KillingFiles, die
from tests.waiting import eventually

NAMES = [f"s{number}" for number in range(5)]
UNDOS = [f"un{name}" for name in NAMES]
TURNS = {"forwards": NAMES, "backwards": [*NAMES, *reversed(UNDOS[:-1])]}
HOUR = 3600 * SECOND
POOL = 80
"""More than are killed between their claim and their ack, each of which waits for the hour to pass."""
CHILD = "killed"


class Story:
    """Who starts sagas and works for them."""

    def __init__(self, url: str, folder: Path, way: str) -> None:
        self.url, self.folder, self.way = url, folder, way
        self.now = 1_800_000_000 * SECOND
        # Nobody is killed here, but nobody has to wait for the disk either.
        self.files = None if url.startswith("postgresql") else KillingFiles(Countdown(0))
        self.diary = os.open(folder / "diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.hf = self.client(sweep_every=0)

    def client(self, sweep_every: float = 3600) -> Holdfast:
        return Holdfast(self.url, worker="w", clock=lambda: self.now, sweep_every=sweep_every)

    def start(self, hf: Holdfast, number: int) -> None:
        hf.start_saga("s", {"way": self.way}, id=f"x{number}")

    def take(self, hf: Holdfast, queue: str, n: int = 1) -> list[Claim]:
        """Claims, works, and says how it went."""
        claims = hf.claim(queue, n=n)
        if self.way == "backwards" and queue == NAMES[-1]:
            hf.dead_letter(claims, "no")
        else:
            lines = [claim.message.headers["holdfast-step-key"] + "\n" for claim in claims]
            os.write(self.diary, "".join(lines).encode())
            hf.ack(claims, queue)
        return claims

    def lines(self) -> dict[str, list[str]]:
        """What was done for each saga, in order."""
        found = defaultdict(list)
        for line in (self.folder / "diary").read_text().split():
            saga, _, what = line.split("/", 2)
            found[saga].append(what)
        return found


def main(url: str, folder: Path, way: str) -> dict[str, Any]:
    story = Story(url, folder, way)
    hf = story.hf
    hf.saga("s", steps=[Step(name, name, undo=undo) for name, undo in zip(NAMES, UNDOS, strict=True)])
    points = [crash(story, story.start)]
    ids = range(1, points[0] + POOL)
    for number in ids:
        story.start(hf, number)
    for queue in TURNS[way]:
        points.append(crash(story, lambda child, point, queue=queue: must(story.take(child, queue))))
        story.now += HOUR
        for taken in [queue, UNDOS[-1]] if queue == NAMES[-1] else [queue]:
            while story.take(hf, taken, n=100):
                pass
    lines = story.lines()
    faults = [fault for number in ids if (fault := judged(hf, way, f"x{number}", lines[f"x{number}"]))]
    left = {queue: found.pending for queue in [*NAMES, *UNDOS] if (found := hf.stats(queue)).pending}
    again = sum(len(done) - len(set(done)) for done in lines.values())
    return {"points": points, "faults": faults, "left": left, "again": again}


def crash(story: Story, turn: Callable[[Holdfast, int], None]) -> int:
    """Takes a turn again and again, killed at its first write, its second, … until one comes through; how many died."""
    for point in range(1, ENOUGH):
        ended = fork(lambda point=point: killed_at(point, story, turn))
        if ended == 0:
            if story.files is None:
                eventually(lambda: not backends(story.url), "the server has noticed that they are gone")
            return point - 1
        assert ended == -signal.SIGKILL, f"the child of point {point} ended with {ended}"
    raise AssertionError("it has more writes than that")


def killed_at(point: int, story: Story, turn: Callable[[Holdfast, int], None]) -> None:
    if story.files is None:
        story.url += f"?application_name={CHILD}"
        hf = story.client()
        hf.queues.list()
        countdown = kill_at_statement(point)
    else:
        countdown, hf = story.files.countdown, story.client()
        countdown.left = point
    turn(hf, point)
    assert countdown.left > 0


def kill_at_statement(point: int) -> Countdown:
    """Those of other threads only ring bells, after the commit."""
    countdown, main = Countdown(point), threading.current_thread()

    def counted(kind: type, name: str) -> None:
        call = getattr(kind, name)

        def count(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is main and countdown.is_over():
                die()
            return call(*args, **options)

        setattr(kind, name, count)

    for kind in (psycopg.Cursor, Prepared):
        counted(kind, "execute")
        counted(kind, "executemany")
    return countdown


def backends(url: str) -> int:
    """Of killed processes: what they had sent is done, or undone, when the server has noticed."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [CHILD])
        return int(found.fetchall()[0][0])


def judged(hf: Holdfast, way: str, saga_id: str, done: Sequence[str]) -> str:
    """What is wrong with a saga, if anything."""
    saga = hf.sagas.get(saga_id)
    assert saga is not None
    worked = NAMES if way == "forwards" else NAMES[:-1]
    expected = [f"{name}/do" for name in worked]
    if way == "backwards":
        if any(line.what == "outcome_unknown" for line in saga.timeline):  # Killed between its claim and its end.
            expected.append(f"{NAMES[-1]}/undo")
        expected += [f"{name}/undo" for name in reversed(worked)]
    whats = [line.what for line in saga.timeline if line.step is None]
    is_as_it_should = (
        saga.status == ("completed" if way == "forwards" else "compensated")
        and saga.data == {"way": way, **{name: name for name in worked}}
        and [what for what, _ in groupby(done)] == expected
        and max(Counter(done).values()) <= 2  # Once more if it was on its way.
        and whats.count(saga.status) == 1
    )
    return "" if is_as_it_should else f"{saga_id}: {saga.status}, {saga.data}, {list(done)}, {whats}"


def must(claims: list[Claim]) -> None:
    assert claims, "the pool has no saga left"


def fork(work: Callable[[], None]) -> int:
    """How a child with this work has ended: 0, or minus the signal that killed it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
