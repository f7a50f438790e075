"""`holdfast demo`: it ends by itself, nothing is lost, and it leaves nothing behind."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.cli.commands import command, environment, holdfast
from tests.waiting import eventually

SMALL = ["--messages", "400", "--seconds", "2"]


def test_nothing_is_lost(tmp_path: Path) -> None:
    for seconds in ("2", "10", "50"):  # On a slow machine they have to hold messages for longer, to be caught doing so.
        answer = holdfast("demo", "--messages", "400", "--seconds", seconds, folder=tmp_path)
        assert (answer.returncode, answer.stderr) == (0, "")
        if "kill -9" in answer.stdout:
            break
    verdict = re.search(r"Nothing was lost: 400 enqueued = (\d+) done \+ (\d+) dead", answer.stdout)
    assert verdict is not None
    done, dead = map(int, verdict.groups())
    assert done + dead == 400
    assert dead >= 5, "on a very slow machine a lease may end under a living consumer"
    assert "killed -9" in answer.stdout
    assert "a dead letter replayed" in answer.stdout
    dies, of = re.search(r"dies with (\d+) messages", answer.stdout), re.search(r"over (\d+) of (\d+)", answer.stdout)
    assert dies is not None
    assert of is not None
    assert dies.group(1) == of.group(1) == of.group(2)
    assert list(tmp_path.iterdir()) == []


def test_it_runs_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    answer = holdfast("demo", "--db", postgres_url, *SMALL, folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "Nothing was lost" in answer.stdout
    assert list(tmp_path.iterdir()) == []
    with Holdfast(postgres_url, tenant="holdfast-demo") as hf:
        [queue] = hf.queues.list()
        stats = hf.stats(queue)
        assert (stats.pending, stats.waiting, stats.processing) == (0, 0, 0)
        assert stats.dead >= 5


def test_the_default_tenant_is_not_touched(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/mine.db") as hf:
        hf.enqueue("orders", "mine")
        answer = holdfast("demo", "--db", f"sqlite:///{tmp_path}/mine.db", *SMALL, folder=tmp_path)
        assert answer.returncode == 0
        assert hf.queues.list() == ["orders"]
        assert [claim.message.body for claim in hf.claim("orders")] == ["mine"]


def test_in_a_terminal_it_is_a_live_table(tmp_path: Path) -> None:
    answer = holdfast("demo", *SMALL, folder=tmp_path, FORCE_COLOR="1", COLUMNS="100")
    assert answer.returncode == 0
    assert answer.stdout.count("consumer 1") > 3, "drawn again and again"
    assert "Nothing was lost" in answer.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path)
    workers = wait_for_workers(demo)
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 128 + number
    assert b"Traceback" not in errors
    assert [pid for pid in workers if pid in parents()] == []
    assert list(tmp_path.iterdir()) == []


def test_workers_do_not_outlive_a_killed_demo(tmp_path: Path) -> None:
    demo = start(tmp_path)
    workers = wait_for_workers(demo)
    demo.kill()
    demo.communicate(timeout=60)
    eventually(lambda: not any(pid in parents() for pid in workers), "no worker goes on without its demo")


def test_a_worker_that_ends_by_itself_fails_the_demo(tmp_path: Path) -> None:
    demo = start(tmp_path)
    workers = wait_for_workers(demo)
    subprocess.run(["kill", "-USR1", str(workers[0])], check=True)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert b"of the demo ended by itself" in errors
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_database_is_refused_in_one_line(tmp_path: Path) -> None:
    answer = holdfast("demo", "--db", "mysql://x", folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("holdfast: 'mysql://x' is not a database URL")


def start(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command("demo", "--seconds", "60"),
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for_workers(demo: "subprocess.Popen[bytes]") -> list[int]:
    """The processes of a demo, once they are at work."""
    assert demo.stdout is not None
    assert any(b"6 processes are at work" in line for line in demo.stdout), demo.communicate()
    workers = [pid for pid, parent in parents().items() if parent == demo.pid]
    assert len(workers) == 6
    return workers


def parents() -> dict[int, int]:
    """Every living process and its parent."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
