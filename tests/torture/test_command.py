"""`holdfast torture` as a user calls it."""

import json
import re
import signal
import subprocess
from pathlib import Path

import boto3
import pytest

from holdfast import Holdfast
from holdfast.cli.torture import _table
from holdfast.torture.plan import TorturePlan, client, declare
from holdfast.torture.run import tidy
from holdfast.torture.verdict import TortureVerdict
from tests.cli.commands import command, environment, holdfast
from tests.sqs import emulator

KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}


def test_interrupted_it_heals_and_checks_and_leaves_others_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mine.db"
    with Holdfast(url) as hf:
        hf.enqueue("orders", "mine")
    options = [
        "--db",
        url,
        "--seconds",
        "600",
        "--seed",
        "7",
        "--dir",
        "run",
        "--workers",
        "1",
        "--faults",
        "kill,stop",
    ]
    process = subprocess.Popen(
        command("torture", *options, "--chart", "chart.svg"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if re.search(r"enqueued [1-9]", line):
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
    assert process.wait(60) == 0, rest
    assert "with the seed 7" in said[0]
    assert re.search(r"Nothing was violated: [\d,]+ events", rest)
    again = f"--seed 7 --db {url} --seconds 600 --workers 1 --faults kill,stop --chart chart.svg"
    assert f"Once more: holdfast torture {again}\n" in rest
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")

    with Holdfast(url) as hf:
        assert hf.queues.list() == ["orders"]
        assert [claim.message.body for claim in hf.claim("orders")] == ["mine"]
    tenant = json.loads((tmp_path / "run" / "plan.json").read_bytes())["tenant"]
    with Holdfast(url, tenant=tenant) as hf:
        for queue in hf.queues.list():
            stats = hf.stats(queue)
            assert (stats.pending, stats.waiting, stats.processing, stats.dead) == (0, 0, 0, 0)

    again = holdfast("torture", "--check", "run", folder=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert "Nothing was violated" in again.stdout


def test_a_violation_is_told_and_is_the_exit_code(tmp_path: Path) -> None:
    sent = {"id": "m1", "channel": "plain", "value": "v"}
    lines = [
        {"at": at, "who": "p", "op": "send", "phase": phase, "call": 1, "items": [sent]}
        for at, phase in enumerate(["invoke", "ok"])
    ]
    (tmp_path / "p.log").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"at": 5, "cut of')
    (tmp_path / "final.json").write_text(json.dumps({"channels": [{"name": "plain"}]}))
    answer = holdfast("torture", "--check", str(tmp_path), folder=tmp_path)
    assert answer.returncode == 1
    assert "VIOLATED: lost 1" in answer.stdout
    assert "'v' was stored in plain as m1 and is nowhere: nobody claimed it" in answer.stdout


def test_what_cannot_be_run(tmp_path: Path) -> None:
    for name, final in (("empty", "{}"), ("malformed", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "final.json").write_text(final)
    (tmp_path / "empty" / "worker-0.0.txt").write_text("Traceback\nImportError: no\n")
    for options, said in (
        (["--check", "nowhere"], "no run that came to its end"),
        (["--check", "empty"], "no verdict, because nothing was enqueued: see empty. worker-0.0 said: ImportError: no"),
        (["--check", "malformed"], "what malformed holds of a run cannot be read"),
        (["--faults", "flood"], "--faults knows kill, crash, stop"),
        (["--faults", "cut"], "is not possible here"),
        (["--db", "mysql://x"], "--db takes sqlite:///… or postgresql://…"),
        (["--db", "sqlite:////nowhere/at/all.db"], "cannot create the database"),
    ):
        answer = holdfast("torture", *options, folder=tmp_path)
        assert answer.returncode == 2
        assert said in " ".join(answer.stderr.split())


def test_a_fault_that_was_never_done_is_told() -> None:
    table = _table(TortureVerdict({}, {"kill": 3}, {"kill": 0.5}), ("kill", "restart"))
    names, counts, remarks = (list(column.cells) for column in table.columns)
    told = dict(zip(map(str, names), zip(counts, remarks, strict=True), strict=True))
    assert told["fault kill"] == ("3", "longest silence after it: 0.5 s")
    assert told["fault restart"] == ("0", "it could not be done, or there was no time")


def test_a_folder_with_histories_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    answer = holdfast("torture", "--dir", str(tmp_path), folder=tmp_path)
    assert answer.returncode == 2
    assert "histories of another run" in " ".join(answer.stderr.split())


def test_queues_of_sqs_are_deleted_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    plan = TorturePlan(url=f"sqlite:///{tmp_path}/work.db", tenant="torture-1", seed=1, delivery="sqs")
    with client(plan) as hf:
        declare(hf, plan)
        hf.enqueue("plain", "one")
        assert [claim.message.body for claim in hf.claim("plain")] == ["one"]
        assert len(there()) == 1
    tidy(plan)
    assert there() == []


def there() -> list[str]:
    sqs = boto3.client("sqs", endpoint_url=emulator.endpoint(), region_name="us-east-1", **KEYS)
    return [url for url in sqs.list_queues().get("QueueUrls", ()) if "torture-1" in url]
