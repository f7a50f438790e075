"""What the drivers are asked to do, workload by workload; every run checks itself, as Holdfast's own do."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench import payload
from bench.cases import Outcome
from bench.peers.driving import driver, drivers
from bench.peers.environment import Program
from bench.peers.redis_server import redis_server
from bench.places import Place
from bench.processes import Failed
from bench.queues import Target
from bench.sizes import Sizes
from bench.workloads import w6
from bench.workloads.w4 import PATIENCE, percentiles

DRAINING = {"patience": 5.0, "quiet": 0.5, "loaded": True}
"""Over when nothing came for so long: one of two processes cannot know how much the other one took."""

WAITING = {"seconds": 600.0, "patience": PATIENCE, "quiet": PATIENCE, "loaded": False}
SETTLE_SECONDS = 0.5
"""A worker has this long to get to its waiting before the first message is sent."""

CALL = 1_000
Measure = Callable[[Place, Target], Outcome]


def one_by_one(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    with _created(program, target) as url:
        with driver(program.command, url) as producer:
            answer = producer.ask("enqueue", seconds=sizes.enqueue_seconds)
        _check_left(program, url, answer["count"])
    return {"rate": answer["count"] / answer["took"], "messages": answer["count"]}


def bulk(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    with _created(program, target) as url:
        with driver(program.command, url) as producer:
            answer = producer.ask("enqueue_many", count=sizes.bulk, call=CALL, seconds=sizes.bulk_seconds)
        _check_left(program, url, answer["count"])
    return {"rate": answer["count"] / answer["took"], "messages": answer["count"]}


def drain(processes: int, program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    with _created(program, target) as url:
        loaded = _load(program, place, target, url, sizes.bulk, sizes.bulk_seconds)
        return _drain(program, url, loaded, sizes.drain_seconds, processes)


def wake(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    count = sizes.latency_messages
    with _created(program, target) as url:
        with drivers(program.command, url, 2) as (producer, consumer):
            consumer.tell("work", expected=count, **WAITING)
            time.sleep(SETTLE_SECONDS)
            producer.ask("produce", count=count, rate=sizes.latency_rate)
            answer = consumer.answer()
        _check_left(program, url, 0)
    if problem := payload.fault(answer["numbers"], count):
        raise Failed(problem)
    return {**percentiles(answer["waits"]), "messages": count}


def backlog(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    """The same drain from a short and from a long queue, each on a database of its own."""
    short = partial(_drain_from, program, sizes, sizes.backlogs[0])
    long = partial(_drain_from, program, sizes, sizes.backlogs[1])
    return long_against_short(short, long, place, target)


def long_against_short(short: Measure, long: Measure, place: Place, target: Target) -> Outcome:
    first = short(place, target)
    with place.fresh() as url:
        second = long(place, Target(target.contender, target.store, url))
    return {
        "short": first["rate"],
        "short_messages": first["messages"],
        "long": second["rate"],
        "long_messages": second["messages"],
        "kept": second["rate"] / first["rate"],
        "kept_messages": second["messages"],
    }


def fan_out(groups: int, processes: int, program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    """Everything is published, then it is read to the end: for one group after the other by one process, or for each by
    a process of its own."""
    names = [f"group_{number}" for number in range(groups)]
    readers = names[: w6.READERS]
    with _created(program, target) as url:
        with driver(program.command, url) as producer:
            producer.ask("subscribe", groups=names)
            published = producer.ask("publish_many", count=sizes.fan_out, call=CALL, seconds=sizes.load_seconds)
        count = published["count"]
        with drivers(program.command, url, processes) as consumers:
            for number, consumer in enumerate(consumers):
                own = readers[number::processes]
                consumer.tell("read_groups", groups=own, expected=count, **{**WAITING, "loaded": True})
            answers = [consumer.answer() for consumer in consumers]
        with driver(program.command, url) as fresh:
            left = fresh.ask("left_for", groups=readers)["left"]
    numbers = [got for answer in answers for got in answer["numbers"]]
    for got in numbers:
        if problem := payload.fault(got, count, left):
            raise Failed(problem)
    took = max(answer["ended"] for answer in answers) - min(answer["started"] for answer in answers)
    return w6.outcome(count, published["took"], numbers, took)


def sagas(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    """As many as it brings to an end in its time; a process that was not there before finds none that is not."""
    with _created(program, target) as url:
        with driver(program.command, url) as worker:
            answer = worker.ask("sagas", count=sizes.sagas, seconds=sizes.saga_seconds)
        _check_left(program, url, 0)
    numbers = answer["numbers"]
    if not numbers or sorted(numbers) != list(range(len(numbers))):
        raise Failed(f"{len(numbers)} came to an end, and not each of the first of them once")
    return {"rate": len(numbers) / answer["took"], "messages": len(numbers)}


def idle(program: Program, sizes: Sizes, place: Place, target: Target) -> Outcome:
    with _created(program, target) as url, driver(program.command, url) as worker:
        answer = worker.ask("idle", seconds=sizes.idle_seconds)
    if answer["claimed"]:
        raise Failed("something was claimed from an empty queue")
    return {"rss": answer["rss"] / 1e6, "cpu": 100 * answer["cpu"] / sizes.idle_seconds}


def _drain_from(program: Program, sizes: Sizes, count: int, place: Place, target: Target) -> Outcome:
    with _created(program, target) as url:
        loaded = _load(program, place, target, url, count, sizes.load_seconds)
        return {**_drain(program, url, loaded, sizes.drain_seconds), "messages": loaded}


@contextmanager
def _created(program: Program, target: Target) -> Iterator[str]:
    """The database that the peer uses, its tables made by a process that is gone."""
    with _database(program, target) as url:
        with driver(program.command, url) as first:
            first.ask("create")
        yield url


@contextmanager
def _database(program: Program, target: Target) -> Iterator[str]:
    if not program.peer.own_server:
        yield target.url
        return
    with redis_server() as url:
        yield url


def _load(program: Program, place: Place, target: Target, url: str, count: int, seconds: float) -> int:
    with driver(program.command, url) as producer:
        loaded: int = producer.ask("enqueue_many", count=count, call=CALL, seconds=seconds)["count"]
    if url == target.url:
        place.settle(url)
    return loaded


def _drain(program: Program, url: str, loaded: int, seconds: float, processes: int = 1) -> Outcome:
    """Stopped after so many seconds; then what came out and what is left must make up what went in."""
    with drivers(program.command, url, processes) as workers:
        for worker in workers:
            worker.tell("work", expected=loaded, seconds=seconds, **DRAINING)
        answers = [worker.answer() for worker in workers]
    numbers = [number for answer in answers for number in answer["numbers"]]
    if len(numbers) != len(set(numbers)):
        raise Failed(f"{len(numbers) - len(set(numbers))} messages came twice")
    _check_left(program, url, loaded - len(numbers))
    if not numbers:
        raise Failed("nothing came out")
    worked = [answer for answer in answers if answer["numbers"]]
    took = max(answer["ended"] for answer in worked) - min(answer["started"] for answer in worked)
    return {"rate": len(numbers) / took, "messages": len(numbers)}


def _check_left(program: Program, url: str, expected: int) -> None:
    with driver(program.command, url) as fresh:
        left = fresh.ask("left")["left"]
    if left != expected:
        raise Failed(f"{left} messages are in the queue, it should be {expected}")
