"""What a nemesis does, and how the processes of a run obey; and a run that would not end."""

import io
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from holdfast.errors import Unavailable
from holdfast.store import ids
from holdfast.store.ids import new_id
from holdfast.torture import crew, nemesis, run
from holdfast.torture.control_channel import Clock, Deed, Order
from holdfast.torture.crew import ProcessFleet
from holdfast.torture.history import ENDED, FAULT, MARK, HistoryEvent, Memory
from holdfast.torture.nemesis import FAULTS, Nemesis, NotDone
from holdfast.torture.plan import TortureJob, TorturePlan
from holdfast.torture.process import KEEPER, PRODUCER
from holdfast.torture.run import TortureRun

PLAN = TorturePlan(url="postgresql://a@b/c", tenant="t", seed=1, seconds=7.0, faults=tuple(FAULTS))


def nemesis_of(plan: TorturePlan, members: Any = None) -> tuple[Nemesis, list[HistoryEvent]]:
    events: list[HistoryEvent] = []
    return Nemesis(plan, cast(Any, None), members, Memory("nemesis", events), None), events


# --- the nemesis ------------------------------------------------------------------------------------------------------


def act(one: Nemesis) -> str:
    while not (told := one.act()):
        one._next = 0.0
    return told


def test_every_round_has_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FAULTS:
        monkeypatch.setattr(Nemesis, f"_{name}", lambda self: "")
    one, events = nemesis_of(PLAN)
    rounds = []
    for _ in range(3):
        assert one.owes == (not rounds)
        rounds.append([act(one).partition(":")[0] for _ in FAULTS])
    assert [sorted(names) for names in rounds] == [sorted(FAULTS)] * 3
    assert rounds[0] != rounds[1]
    assert not one.owes
    other, _ = nemesis_of(PLAN)
    assert [act(other).partition(":")[0] for _ in FAULTS] == rounds[0], "the seed says in which order"
    assert {event.op for event in events} == {FAULT}


@pytest.mark.parametrize("seconds", [1.0, 7.0, 20.0, 1200.0])
def test_a_round_fits_into_a_run(seconds: float) -> None:
    one, _ = nemesis_of(msgspec.structs.replace(PLAN, seconds=seconds))
    pauses = [one._pause() for _ in range(1000)]
    assert 0 < min(pauses) <= max(pauses) <= min(2.0, seconds / len(FAULTS))


def test_a_fault_that_cannot_be_done_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    one, events = nemesis_of(msgspec.structs.replace(PLAN, faults=("restart",), restart_command="false"))
    for _ in range(2):
        assert act(one) == "restart was not done: the command ended with 1: "
    assert (one.done, one.owes) == (Counter(), True)
    assert {event.op for event in events} == {MARK}
    one, _ = nemesis_of(msgspec.structs.replace(PLAN, restart_command="true"))
    assert one._restart() == "done"
    monkeypatch.setattr(nemesis, "RESTART_WITHIN", 0.01)
    for command, said in (("sleep 600", "took longer"), ("/nowhere/restart", "could not be started")):
        one, _ = nemesis_of(msgspec.structs.replace(PLAN, restart_command=command))
        with pytest.raises(NotDone, match=said):
            one._restart()


class Pipe(io.BytesIO):
    """What a process is told."""

    def close(self) -> None: ...


class Process:
    """One that does nothing."""

    pid, returncode = 0, None

    def __init__(self, *_: object, **__: object) -> None:
        self.stdin = Pipe()

    def poll(self) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float | None = None) -> None: ...


@pytest.fixture
def crew_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes crews of processes that are not there, and their notes."""
    monkeypatch.setattr(crew.subprocess, "Popen", Process)
    events: list[HistoryEvent] = []

    def make(plan: TorturePlan) -> tuple[ProcessFleet, list[HistoryEvent]]:
        return ProcessFleet(plan, tmp_path, Memory("nemesis", events), "postgresql://proxy/c"), events

    return make


def told(one: Any) -> list[bytes]:
    return cast(list[bytes], one.process.stdin.getvalue().splitlines())


def test_all_but_the_keeper_go_through_the_proxy(crew_of: Any) -> None:
    """So answers to those who send are lost as well."""
    members, _ = crew_of(PLAN)
    jobs = [msgspec.json.decode(told(member)[0], type=TortureJob) for member in members.members]
    assert {job.role for job in jobs if job.url != "postgresql://proxy/c"} == {KEEPER}
    assert PRODUCER in {job.role for job in jobs}


def test_whoever_is_spared_outlives_a_crash(crew_of: Any) -> None:
    members, events = crew_of(msgspec.structs.replace(PLAN, spares=True))
    one, _ = nemesis_of(PLAN, members)
    one._crash()
    spared = {member.role for member in members.members if not member.generation}
    assert spared == {member.role for member in members.members}
    assert sorted(event.note for event in events if event.op == ENDED) == [
        *("consumer-3.0", "producer-1.0", "subscriber-1.0", "worker-2.0"),
    ]
    assert one._kill() in {f"{member.role}-{member.number}.1" for member in members.mortals}
    everybody, _ = crew_of(PLAN)
    assert everybody.mortals == everybody.members


def test_a_clock_is_right_again_after_the_heal(crew_of: Any) -> None:
    members, _ = crew_of(PLAN)
    one, _ = nemesis_of(PLAN, members)
    one._clock()
    one.heal()
    [orders] = [told(member)[1:] for member in members.members if len(told(member)) > 1]
    shift, back = (msgspec.json.decode(order, type=Order).value for order in orders)
    assert (abs(shift) >= 60, back) == (True, 0.0)


# --- those who obey ---------------------------------------------------------------------------------------------------


def test_orders_are_obeyed_one_after_the_other_until_they_work() -> None:
    done: list[float] = []
    through, luck = threading.Event(), iter([False, False, True])

    def fill(value: float) -> None:
        done.append(value)
        if value == 0.0 and not next(luck):
            raise Unavailable
        if value == 0.0:
            through.set()

    deed = Deed(fill)
    deed.order(1.0)
    deed.order(0.0)
    assert through.wait(60)
    assert done == [1.0, 0.0, 0.0, 0.0]


def test_a_wrong_clock_makes_wrong_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))
    monkeypatch.setitem(vars(ids), "uuid7", vars(ids)["uuid7"])
    clock, before = Clock(), new_id()
    for shift in (7200.0, -7200.0, 0.0):
        clock.shift(shift)
        assert abs(milliseconds(new_id()) - milliseconds(before) - shift * 1000) < 600_000
        assert UUID(bytes=bytes(new_id())).version == 7


def milliseconds(id: bytes) -> int:
    return int.from_bytes(id[:6])


# --- the run ----------------------------------------------------------------------------------------------------------


class Nobody:
    """Watches, and looks after."""

    def show(self, *_: object) -> None: ...
    def tell(self, *_: object) -> None: ...
    def dismiss(self, *_: object) -> None: ...
    def replace(self, *_: object) -> None: ...
    def look_after(self) -> None: ...


def test_a_store_that_gives_out_the_same_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It always moves, and comes to no end: so it is ended."""
    monkeypatch.setattr("holdfast.torture.plan.SLACK", 0.0)
    monkeypatch.setattr(run, "LOOK", 0.0)
    monkeypatch.setattr(run, "is_quiet", lambda hf, plan: False)
    one = TortureRun(msgspec.structs.replace(PLAN, seconds=0.1, lease=0.1), tmp_path, Nobody())

    def done_again() -> Counter[str]:
        one.progress.counts["done"] += 1
        return one.progress.counts

    monkeypatch.setattr(one.progress, "look", done_again)
    one._drain(cast(Any, None), cast(Any, Nobody()))
    assert one.progress.counts["done"] > 1
