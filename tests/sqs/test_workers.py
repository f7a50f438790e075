"""Three worker processes, a misbehaving SQS, and kill -9: no attempt is executed twice, and everything is done.

HOLDFAST_SQS_TASKS=10000 is the long form.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.acceptance.children import ROOT
from tests.acceptance.template import end_with
from tests.long import size
from tests.sqs.fake_sqs import FakeSQS
from tests.waiting import eventually

TASKS = size(100, 300, "HOLDFAST_SQS_TASKS")
PATIENCE = 180 + TASKS / 20

pytestmark = [pytest.mark.timeout(4 * PATIENCE), pytest.mark.above_the_stores]


class Workers:
    """Processes of `tests.sqs.worker`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self.alive: list[subprocess.Popen[str]] = []
        self._begun = 0

    def begin(self) -> None:
        self._begun += 1
        errors = (self._folder / f"{self._begun}.errors").open("w")
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.sqs.worker", self._url, str(self.log(self._begun)), "0.002"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=partial(end_with, os.getpid()),
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", (self._folder / f"{self._begun}.errors").read_text()
        self.alive.append(worker)

    def kill_one(self) -> None:
        worker = self.alive.pop(0)
        worker.kill()
        worker.wait()

    def end(self) -> None:
        while self.alive:
            self.kill_one()

    def log(self, number: int) -> Path:
        return self._folder / f"{number}.log"

    def runs(self) -> Counter[tuple[str, str]]:
        """How often each attempt of each message was begun."""
        found: Counter[tuple[str, str]] = Counter()
        for number in range(1, self._begun + 1):
            if self.log(number).exists():
                found.update((line.split()[0], line.split()[1]) for line in self.log(number).read_text().splitlines())
        return found


@pytest.fixture
def workers(url: str, sqs: FakeSQS, tmp_path: Path) -> Iterator[Workers]:
    folder = tmp_path / "workers"
    folder.mkdir()
    with ExitStack() as ending:
        workers = Workers(url, folder)
        ending.callback(workers.end)
        yield workers


def test_three_workers_no_attempt_twice_and_kill_9_in_between(url: str, sqs: FakeSQS, workers: Workers) -> None:
    sqs.faults.copies, sqs.faults.shuffled = 3, random.Random(5)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", lease=2, max_attempts=20, backoff=[0], history="1d")
        sent = [one.id for one in hf.enqueue_many("q", list(range(TASKS)))]
        for _ in range(3):
            workers.begin()
        for part in (0.3, 0.6):
            eventually(lambda part=part: len(workers.runs()) >= TASKS * part, within=PATIENCE)  # type: ignore[misc]
            workers.kill_one()
            workers.begin()
        eventually(lambda: is_empty(hf), within=PATIENCE)
        assert {hf.status(one).state for one in sent} == {"succeeded"}
        runs = workers.runs()
        assert {int(body) for body, _ in runs} == set(range(TASKS))
        assert [attempt for attempt, times in runs.items() if times > 1] == []


def is_empty(hf: Holdfast) -> bool:
    stats = hf.stats("q")
    return stats.pending + stats.waiting + stats.processing == 0
