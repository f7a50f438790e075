"""The comparison with peers, with a peer that needs no installing: a driver of the tests' own, in a real process."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import payload
from bench.__main__ import main
from bench.cases import Case, Row
from bench.peers import catalog, comparison, environment, running, workloads
from bench.peers.cases import GOALS, ONE_PROCESS, WORKLOADS, cases
from bench.peers.catalog import PEERS, RUNTIME, Peer
from bench.peers.driving import driver
from bench.peers.environment import DRIVERS, Pins, Program, Unavailable, read_pins
from bench.peers.running import Choice
from bench.places import SqlitePlace
from bench.processes import Failed
from bench.queues import Target
from bench.runner import Result
from bench.sizes import QUICK

PEER = Peer("table", "", ("sqlite",), "FULL", bulk="one transaction", worker="takes 50", wake="polls every 2 ms")


UNCAPPED = replace(QUICK, bulk_seconds=30.0, drain_seconds=30.0, load_seconds=30.0)
"""For tests that count messages: a slow disk must not stop a driver before it is through."""


def program(*faults: str) -> Program:
    return Program(PEER, "1.0", (sys.executable, "-m", "tests.acceptance.queue_driver", *faults))


@pytest.mark.parametrize(
    ("measure", "metric"),
    [
        (workloads.one_by_one, "rate"),
        (workloads.bulk, "rate"),
        (partial(workloads.drain, 1), "rate"),
        (partial(workloads.drain, 2), "rate"),
        (workloads.wake, "p50"),
        (workloads.backlog, "kept"),
        (partial(workloads.fan_out, 4, 1), "consume"),
        (partial(workloads.fan_out, 4, 4), "overall"),
        (workloads.idle, "rss"),
        (workloads.sagas, "rate"),
    ],
    ids=["w1", "w2", "w3", "w3 by two", "w4", "w5", "w6", "w6 by four", "w7", "ws"],
)
def test_a_driver_is_measured(measure: Callable[..., dict[str, float]], metric: str, tmp_path: Path) -> None:
    assert measured(tmp_path, partial(measure, program(), QUICK))[metric] > 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("loses", "0 messages are in the queue, it should be 40"),
        ("doubles", "40 messages came twice"),
        ("dies", "the driver ended: cannot go on"),
        ("raises", "ValueError: no work today"),
    ],
)
def test_a_driver_that_misbehaves_does_not_count(fault: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=re.escape(told)):
        measured(tmp_path, partial(workloads.drain, 1, program(fault), UNCAPPED))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("loses", "of 2000 messages 40 did not come out, and 0 came twice"),
        ("doubles", "40 came twice"),
        ("keeps", "4 messages left in the queue that should be empty"),
    ],
)
def test_every_group_must_get_every_message_once(
    fault: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(workloads.WAITING, "quiet", 0.1)
    with pytest.raises(Failed, match=re.escape(told)):
        measured(tmp_path, partial(workloads.fan_out, 4, 4, program(fault), UNCAPPED))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("loses", "59 came to an end, and not each of the first of them once"),
        ("doubles", "61 came to an end, and not each of the first of them once"),
        ("keeps", "1 messages are in the queue, it should be 0"),
    ],
)
def test_every_saga_must_come_to_its_end_once(fault: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=re.escape(told)):
        measured(tmp_path, partial(workloads.sagas, program(fault), QUICK))


def test_who_has_sagas_and_no_queue_takes_part_in_sagas_only() -> None:
    dbos = replace(program(), peer=PEERS["dbos"])
    contenders = {case.workload: case.contenders for case in cases(list(WORKLOADS), QUICK, [program(), dbos])}
    assert contenders.pop("ws") == ("holdfast", RUNTIME, "dbos")
    assert all("dbos" not in found for found in contenders.values())


def test_only_peers_with_fan_out_take_part_in_it() -> None:
    able = replace(program(), peer=replace(PEERS["pgmq"], name="able"))
    found_cases = cases(["w6"], QUICK, [program(), able])
    assert [case.contenders for case in found_cases] == [("holdfast", "able")] * (len(QUICK.groups) + 1)
    case = found_cases[0]
    own = Result("postgres", case, "holdfast", [{"publish": 1.0, "consume": 1.0}])
    absent = dict.fromkeys(("pgmq", "pgqueuer"), "not here")
    found = comparison.standings([own], {}, absent)
    assert [standing.contender for standing in found] == ["holdfast", "pgmq"] * 2


def test_a_driver_that_hangs_is_given_up(tmp_path: Path) -> None:
    late = pytest.raises(Failed, match="not finished in time")
    with SqlitePlace(tmp_path).fresh() as url, late, driver(program().command, url) as waiting:
        waiting.answer(limit=0.1)


def test_holdfast_and_a_peer_are_held_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, page = compared(tmp_path, monkeypatch, lambda peer, pins, tell: program())
    assert {row["contender"] for row in rows} == {"holdfast", "holdfast, claim 100", RUNTIME, "ref", "table"}
    (peer,) = (row for row in rows if row["contender"] == "table" and row["row"] == "drain, 1 process")
    (own,) = (row for row in rows if row["contender"] == "holdfast" and row["row"] == "drain, 1 process")
    (run,) = (row for row in rows if row["contender"] == RUNTIME and row["row"] == "drain, 1 process")
    assert peer["holdfast_ratio"] == pytest.approx(own["value"] / peer["value"])
    assert peer["run_ratio"] == pytest.approx(run["value"] / peer["value"])
    assert (run["run_ratio"], run["how"], run["messages"]) == (None, "one consumer, 1 thread", 2_000)
    assert (peer["version"], peer["durability"], peer["how"], peer["messages"]) == ("1.0", "FULL", "takes 50", 2_000)
    assert "| table | 1.0 | FULL | takes 50 | 2,000 |" in page


@pytest.mark.parametrize(("peer", "verdict"), [(4.0, "✓ ≥ 20 ×"), (10.0, "✗ ≥ 20 ×")])
def test_a_goal_is_judged_by_the_ratio(peer: float, verdict: str) -> None:
    own, other = comparison.standings([result("holdfast", 100.0), result("huey", peer)], {"huey": "3"}, {})
    assert (own.ratio, list(own.verdicts())) == (None, [])
    assert other.ratio == 100 / peer
    assert [text for text, _ in other.verdicts()] == [verdict]


def test_a_goal_is_judged_by_what_consumers_reach_too() -> None:
    results = [result("holdfast", 100.0), result(RUNTIME, 50.0), result("huey", 4.0)]
    own, run, other = comparison.standings(results, {"huey": "3"}, {})
    assert (own.ratio, own.runtime_ratio, run.ratio, run.runtime_ratio) == (None, 0.5, 2.0, None)
    assert (other.ratio, other.runtime_ratio) == (25.0, 12.5)
    assert list(other.verdicts()) == [("✓ ≥ 20 ×", True), ("✗ ≥ 20 × by run()", False)]


def test_a_peer_that_fails_is_a_line_of_its_own() -> None:
    failed = result("huey", problem="lost:\n one")
    own, other = comparison.standings([result("holdfast", 100.0), failed], {}, {})
    assert (other.value, other.ratio, other.problem) == (None, None, "lost: one")
    assert not own.is_own_failure
    assert not other.is_own_failure


def test_without_a_number_of_our_own_there_is_no_ratio() -> None:
    own, other = comparison.standings([result("holdfast", problem="lost one"), result("huey", 4.0)], {}, {})
    assert own.is_own_failure
    assert (other.value, other.ratio) == (4.0, None)


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(peer: Peer, pins: Pins, tell: Callable[[str], None]) -> Program:
        raise Unavailable("table-server is not installed")

    rows, page = compared(tmp_path, monkeypatch, refuse)
    problems = {row["row"]: row["problem"] for row in rows if row["contender"] == "table"}
    assert problems == dict.fromkeys(("drain, 1 process", "drain, 2 processes"), "table-server is not installed")
    assert page.count("table-server is not installed") == 2


def test_a_failed_installation_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(folder: Path, packages: Sequence[str]) -> None:
        environment.run(folder, sys.executable, "-c", "exit('looking\\nERROR: nothing fits\\nread the manual')")

    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setitem(environment.KINDS, "python", (install, lambda folder, driver: ()))
    told: list[str] = []
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be installed: ERROR: nothing fits"):
            environment.prepare(PEER, Pins("python", ("table==1.0",)), told.append)
    assert told == ["table: installing table==1.0"] * 2


def test_a_program_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="npm is not installed"):
        environment.prepare(PEERS["pg-boss"], read_pins()["pg-boss"], lambda line: None)
    with pytest.raises(Unavailable, match="redis-server is not installed"):
        environment.prepare(PEERS["redis-streams"], read_pins()["redis-streams"], lambda line: None)


def test_every_peer_is_pinned_and_has_its_driver() -> None:
    pins = read_pins()
    assert list(pins) == list(PEERS)
    assert pins["pgqueuer"].version == "1.6.0"
    assert pins["pg-boss"].version == "12.30.0"
    for name, pinned in pins.items():
        assert all(re.fullmatch(r"[\w./@-]+?(==|@)\d[\w.]*", package) for package in pinned.packages), name
        assert (DRIVERS / PEERS[name].driver).exists()


def test_every_goal_belongs_to_a_row_and_a_peer_of_its_stores() -> None:
    rows = {row.name for case in cases(list(WORKLOADS), QUICK, []) for row in case.rows}
    for goal in GOALS:
        assert goal.row in rows
        assert set(goal.stores) <= set(PEERS[goal.peer].stores)


def test_both_languages_send_the_same_message() -> None:
    source = (DRIVERS / "payload.mjs").read_text()
    body = payload.body(7)
    assert re.findall(r"^    (\w+):", source, re.MULTILINE) == list(body)
    assert all(f'"{body[key]}"' in source for key in ("template", "locale", "text"))


@pytest.mark.parametrize("options", [["--markdown", "page.md"], ["--peers", "--workloads", "churn"], ["--peers", "x"]])
def test_what_makes_no_sense_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert re.search("add --peers|no peer takes part in churn|'x' is none of huey", capsys.readouterr().err)


CASE = Case("w3", ONE_PROCESS, lambda place, target: {}, [Row(ONE_PROCESS)])


def result(contender: str, rate: float = 0.0, problem: str = "") -> Result:
    outcomes, failures = ([], [problem]) if problem else ([{"rate": rate}], [])
    return Result("sqlite", CASE, contender, outcomes, failures)


def measured(folder: Path, measure: Callable[..., dict[str, float]]) -> dict[str, float]:
    place = SqlitePlace(folder)
    with place.fresh() as url:
        return measure(place, Target(PEER.name, "sqlite", url))


def compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[..., Program]
) -> tuple[list[dict[str, Any]], str]:
    """The whole comparison on one workload: its rows as JSON, and its page."""
    monkeypatch.setitem(catalog.PEERS, PEER.name, PEER)
    monkeypatch.setattr(running, "prepare", prepare)
    monkeypatch.setattr(running, "read_pins", lambda: {PEER.name: Pins("python", ("table==1.0",))})
    numbers, page = folder / "numbers.json", folder / "page.md"
    assert running.compare(Choice([PEER.name], ["w3"], ["sqlite"], 1, numbers, page), UNCAPPED) == 0
    return json.loads(numbers.read_text())["rows"], page.read_text()
