"""One process of a run: `python -m holdfast.torture.process`. The first line of its input is its job."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.client.client import Holdfast, internals
from holdfast.errors import StoreError
from holdfast.torture.control_channel import FILL, HOLD, Strings
from holdfast.torture.history import ERROR, FAIL, HistoryLog
from holdfast.torture.plan import GROUPS, ORDERED_GROUPS, STEP_QUEUES, SWEEP, TOPICS, WORK_QUEUES, TortureJob, settings
from holdfast.torture.producing import PATIENCE, TortureProducer, send_late
from holdfast.torture.recording import introduce, recorded
from holdfast.torture.working import TortureWorker, consume

PRODUCER, WORKER, CONSUMER, SUBSCRIBER, STEPPER, KEEPER = (
    *("producer", "worker", "consumer"),
    *("subscriber", "stepper", "keeper"),
)

Role = Callable[[Holdfast, TortureJob, HistoryLog, Strings], None]


def produce(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    TortureProducer(hf, job, log, strings).work()


def work(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    TortureWorker(hf, job, strings, WORK_QUEUES).work()


def run(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    consume(hf, job, strings, WORK_QUEUES)


def subscribe(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    """By turns: bare claims, and a running consumer."""
    groups = (*ORDERED_GROUPS, *GROUPS)
    if job.number % 2:
        consume(hf, job, strings, groups)
    else:
        TortureWorker(hf, job, strings, groups).work()


def step(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    TortureWorker(hf, job, strings, STEP_QUEUES).work()


def keep(hf: Holdfast, job: TortureJob, log: HistoryLog, strings: Strings) -> None:
    """What time does to queues, topics and sagas; and on demand a transaction that does not end."""
    numbers = itertools.count()

    def hold(span: float) -> None:
        number = next(numbers)
        send_late(hf, log, (f"{job.name}-late-{number}", f"{job.name}-late-tick-{number}"), strings.wait, span)

    strings.teach(HOLD, hold)
    while not strings.wait(SWEEP):
        try:
            hf.maintain()
        except StoreError:
            continue


ROLES: dict[str, Role] = {
    PRODUCER: produce,
    WORKER: work,
    CONSUMER: run,
    SUBSCRIBER: subscribe,
    STEPPER: step,
    KEEPER: keep,
}


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=TortureJob)
    log = HistoryLog(Path(job.log))
    strings = Strings()
    patience = PATIENCE if job.role == PRODUCER else 60.0
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    try:
        with recorded(settings(job.plan, job.url, job.name, patience), log) as hf:
            strings.teach(FILL, lambda full: internals(hf).store.faults.fill(bool(full)))
            strings.listen()
            meet(hf, strings)
            ROLES[job.role](hf, job, log, strings)
    except BaseException as problem:
        log.note(ERROR, FAIL, note=f"{type(problem).__name__}: {problem}")
        raise
    finally:
        # Threads that still wait for the database have nothing more to say.
        sys.stderr.flush()
    os._exit(0)


def meet(hf: Holdfast, strings: Strings) -> None:
    """The first words with a database that may be full or away."""
    while not strings.over:
        try:
            introduce(hf, (*WORK_QUEUES, *STEP_QUEUES, *ORDERED_GROUPS, *GROUPS), TOPICS)
            return
        except StoreError:
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
