import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import payload, report, runner
from bench.cases import Case, Row, rate_case
from bench.places import Place, SqlitePlace
from bench.processes import Failed
from bench.queues import Target
from tests.long import only_long, size

ROOT = Path(__file__).parents[2]
WORKLOADS = size("w1,w3,w6,ws", "w1,w2,w3,w3s,w4,w5,w6,wr,ws")


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=only_long)])
def test_every_workload_runs_and_loses_nothing(store: str, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    options = ["--quick", "--stores", store, "--workloads", WORKLOADS, "--json", numbers]
    done = subprocess.run([sys.executable, "-m", "bench", *options], cwd=ROOT, capture_output=True, text=True)
    assert "FAILED" not in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(numbers.read_text())["rows"]
    assert {row["workload"] for row in rows} == set(WORKLOADS.split(","))
    nothing = [row["row"] for row in rows if row["holdfast"] <= 0]
    # A run as short as this may be over before the others have begun, and a disk be slower for its own measure.
    assert [row for row in nothing if not any(word in row for word in ("meanwhile", "removed", "beyond"))] == []


def test_a_lost_or_doubled_message_is_noticed() -> None:
    assert payload.fault([2, 0, 1], 3) is None
    assert payload.fault([0, 1], 3) == "of 3 messages 1 did not come out, and 0 came twice"
    assert payload.fault([0, 1, 1, 2], 3) == "of 3 messages 0 did not come out, and 1 came twice"
    assert payload.fault([0, 1, 2], 3, left=1) == "1 messages left in the queue that should be empty"


def test_a_failed_measurement_fails_its_row(tmp_path: Path) -> None:
    def lose(place: Place, target: Target) -> dict[str, float]:
        if target.contender == "holdfast":
            raise Failed("one message was lost")
        return {"rate": 2.0}

    line = measured(tmp_path, rate_case("w0", "drain", lose))
    assert line.failed
    assert line.failures == {"holdfast": ["one message was lost"] * 2, "ref": []}
    assert (line.holdfast, line.ref, line.to_ref) == (None, 2.0, None)


def test_ratios_are_of_medians_and_of_each_round(tmp_path: Path) -> None:
    rates = {"holdfast": iter([30.0, 10.0, 20.0]), "ref": iter([10.0, 10.0, 40.0])}

    def measure(place: Place, target: Target) -> dict[str, float]:
        return {"rate": next(rates[target.contender])}

    line = measured(tmp_path, Case("w0", "drain", measure, [Row("drain")]), rounds=3)
    assert (line.holdfast, line.ref, line.to_ref) == (20.0, 10.0, 2.0)
    assert line.to_ref_by_round == [3.0, 1.0, 0.5]


def measured(folder: Path, case: Case, rounds: int = 2) -> report.Line:
    (line,) = report.lines(runner.run(SqlitePlace(folder), [case], rounds, tell=lambda what: None))
    return line
