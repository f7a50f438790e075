"""The workloads that peers take part in: Holdfast, `ref` and every peer of a store take turns on the same case."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.cases import Case, Outcome, Row
from bench.peers import workloads
from bench.peers.catalog import RUNTIME
from bench.peers.environment import Program
from bench.peers.workloads import Measure
from bench.places import Place
from bench.queues import Contender, Target
from bench.sizes import Sizes
from bench.workloads import w1, w2, w3, w4, w5, w6, w7, wr, ws

OWN = ("holdfast", RUNTIME, "ref")
CLAIM = 1_000
SMALL_CLAIM = 100
SMALL = f"holdfast, claim {SMALL_CLAIM}"
"""Holdfast once more where the size of a claim matters, as a peer's batch does; `holdfast` itself claims 1,000."""


@dataclass(frozen=True)
class PeerGoal:
    """A figure of DESIGN.md, section 6, that has a peer as its yardstick: Holdfast's value divided by the peer's."""

    row: str
    peer: str
    bound: float
    stores: tuple[str, ...]
    below: bool = False

    def is_met(self, ratio: float) -> bool:
        return ratio < self.bound if self.below else ratio >= self.bound


ONE_PROCESS = "drain, 1 process"
BULK = "in bulk, calls of 1,000"
WAKE = "enqueue to handler, p50"

GOALS = (
    PeerGoal(ONE_PROCESS, "huey", 20, ("sqlite",)),
    PeerGoal(ONE_PROCESS, "graphile-worker", 1.5, ("postgres",)),
    PeerGoal(ONE_PROCESS, "redis-streams", 1, ("sqlite", "postgres")),
    PeerGoal(BULK, "graphile-worker", 1.5, ("postgres",)),
    PeerGoal(w6.OVERALL, "redis-streams", 1, ("sqlite", "postgres")),
    PeerGoal(w6.OVERALL, "pgq", 1, ("postgres",)),
    PeerGoal(w6.OVERALL, "pgmq", 1, ("postgres",)),
    PeerGoal(ws.NAME, "dbos", 5, ("sqlite", "postgres")),
    PeerGoal(WAKE, "graphile-worker", 1, ("postgres",), below=True),
    PeerGoal(WAKE, "persist-queue", 1, ("sqlite",), below=True),
)


def cases(names: Sequence[str], sizes: Sizes, programs: Sequence[Program]) -> list[Case]:
    """Of the named workloads, for one store and the peers that were installed for it."""
    return [case for name in names for case in WORKLOADS[name](sizes, programs)]


def _enqueue(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    own = partial(w1.measure, w1.one_by_one, sizes.enqueue_seconds, 1)
    yield _case("w1", [Row("one by one")], {"holdfast": own, "ref": own}, programs, sizes, workloads.one_by_one)


def _bulk(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    own = _of(sizes.bulk, partial(w2.measure, sizes.bulk, workloads.CALL))
    yield _case("w2", [Row(BULK)], {"holdfast": own, "ref": own}, programs, sizes, workloads.bulk)


def _drain(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    for processes in sizes.processes:
        name = ONE_PROCESS if processes == 1 else f"drain, {processes} processes"
        large, small = (
            _of(sizes.bulk, partial(w3.measure, claim, sizes.bulk, "fused", processes))
            for claim in (CLAIM, SMALL_CLAIM)
        )
        consumer = _of(sizes.bulk, partial(wr.measure_drain, sizes.bulk, processes))
        own = {"holdfast": large, SMALL: small, RUNTIME: consumer, "ref": large}
        yield _case("w3", [Row(name)], own, programs, sizes, partial(workloads.drain, processes))


def _wake(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    own, consumer = (
        _of(sizes.latency_messages, partial(measure, sizes.latency_messages, sizes.latency_rate))
        for measure in (w4.measure, wr.measure_wake)
    )
    rows = [Row(WAKE, "p50", "ms"), Row(WAKE.replace("p50", "p99"), "p99", "ms")]
    yield _case("w4", rows, {"holdfast": own, RUNTIME: consumer, "ref": own}, programs, sizes, workloads.wake)


def _backlog(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    short, long = (
        _of(backlog, partial(w5.measure, backlog, sizes.backlogs[0], sizes.backlog_seconds))
        for backlog in sizes.backlogs
    )
    own = partial(workloads.long_against_short, short, long)
    rows = [
        Row(f"drain, {sizes.backlogs[0]:,} waiting", "short"),
        Row(f"drain, {sizes.backlogs[1]:,} waiting", "long"),
        Row(f"{sizes.backlogs[1]:,} against {sizes.backlogs[0]:,}", "kept", "×"),
    ]
    yield _case("w5", rows, {"holdfast": own, "ref": own}, programs, sizes, workloads.backlog)


def _fan_out(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    for groups in sizes.groups:
        own = partial(w6.measure, sizes.fan_out, groups)
        name = w6.name_of(groups)
        rows = [Row(f"publish, {name}", "publish"), Row(f"consume, {name}", "consume")]
        yield _case("w6", rows, {"holdfast": own}, programs, sizes, partial(workloads.fan_out, groups, 1))
    own = partial(w6.measure_together, sizes.fan_out)
    rows = [Row(w6.TOGETHER, "consume"), Row(w6.OVERALL, "overall")]
    theirs = partial(workloads.fan_out, w6.READERS, w6.READERS)
    yield _case("w6", rows, {"holdfast": own}, programs, sizes, theirs)


def _idle(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    own, consumer = (
        partial(w7.measure, sizes.idle_seconds, 1),
        partial(wr.measure_idle, "hibernate", sizes.idle_seconds),
    )
    rows = [Row("idle memory", "rss", "MB"), Row("idle processor", "cpu", "%")]
    yield _case("w7", rows, {"holdfast": own, RUNTIME: consumer, "ref": own}, programs, sizes, workloads.idle)


def _sagas(sizes: Sizes, programs: Sequence[Program]) -> Iterator[Case]:
    own, consumer = partial(ws.measure, sizes.sagas), partial(ws.measure_run, sizes.sagas)
    yield _case("ws", [Row(ws.NAME)], {"holdfast": own, RUNTIME: consumer}, programs, sizes, workloads.sagas)


WORKLOADS: dict[str, Callable[[Sizes, Sequence[Program]], Iterator[Case]]] = {
    "w1": _enqueue,
    "w2": _bulk,
    "w3": _drain,
    "w4": _wake,
    "w5": _backlog,
    "w6": _fan_out,
    "w7": _idle,
    "ws": _sagas,
}


def _case(
    workload: str,
    rows: Sequence[Row],
    own: Mapping[Contender, Measure],
    programs: Sequence[Program],
    sizes: Sizes,
    theirs: Callable[[Program, Sizes, Place, Target], Outcome],
) -> Case:
    measures: dict[Contender, Measure] = {
        **own,
        **{
            program.peer.name: partial(theirs, program, sizes)
            for program in programs
            if program.peer.takes_part(workload)
        },
    }
    return Case(workload, rows[0].name, partial(_take_turn, measures), rows, tuple(measures))


def _take_turn(measures: Mapping[Contender, Measure], place: Place, target: Target) -> Outcome:
    queue = "holdfast" if target.contender in (SMALL, RUNTIME) else target.contender
    return measures[target.contender](place, replace(target, contender=queue))


def _of(messages: int, measure: Measure) -> Measure:
    """Says with how many messages it was measured, as the peers do."""
    return lambda place, target: {**measure(place, target), "messages": messages}
