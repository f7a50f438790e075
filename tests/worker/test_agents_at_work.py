"""Programs of a consumer at work: stopped as they should be, whatever the reason is."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, State, Unavailable, exec_handler
from holdfast.client.client import internals
from holdfast.worker.context import HURRY, Context
from holdfast.worker.stop_reasons import Stop
from tests.acceptance.template import end_with
from tests.waiting import eventually
from tests.worker.attempts import sh
from tests.worker.drones import Drone, assert_gone
from tests.worker.faults import Cable
from tests.worker.steps import Calls, ended, let_time_pass

pytestmark = [pytest.mark.usefixtures("temporary"), pytest.mark.of_queues, pytest.mark.above_the_stores]

TIDY = 'trap "sleep 2.5; echo tidied >>$SAID; exit 0" TERM; sleep 600 & echo $! >>"$SAID"; echo $$ >>"$SAID"; wait'
"""Takes longer to tidy up than a handler may take to stop."""

FOR_LONG = TIDY.replace("2.5", "600")
"""Has not tidied up before it is killed, however late that is."""

DEAF = 'trap "" TERM; sleep 600 & echo $! >>"$SAID"; echo $$ >>"$SAID"; wait'


def test_at_its_timeout_it_can_tidy_up(one: Holdfast, tmp_path: Path) -> None:
    one.queue("drones", max_attempts=1)
    drone = Drone(one, tmp_path / "said", TIDY, 60, timeout=30)
    with one.running() as runner:
        pids = drone.begun()
        let_time_pass(runner)
        assert ended(one, drone.message_id) is State.DEAD
        assert drone.has_tidied()
        assert_gone(pids)
    [letter] = one.dead_letters.list("drones")
    assert letter.error == "timed out after 30 s"


def test_who_does_not_listen_at_its_timeout_is_killed(one: Holdfast, tmp_path: Path) -> None:
    one.queue("drones", max_attempts=1)
    drone = Drone(one, tmp_path / "said", DEAF, 0.3, timeout=30)
    with one.running() as runner:
        pids = drone.begun()
        let_time_pass(runner)
        assert ended(one, drone.message_id) is State.DEAD
        assert_gone(pids)


def test_a_stop_lets_it_tidy_up(one: Holdfast, tmp_path: Path) -> None:
    """Longer than a handler has to notice a stop; the message comes back at once, and the attempt is spent."""
    drone = Drone(one, tmp_path / "said", TIDY, 60)
    runner = one.running()
    runner.start()
    pids = drone.begun()
    assert runner.stop(0.1)
    assert drone.has_tidied()
    assert_gone(pids)
    status = one.status(drone.message_id)
    assert status is not None
    assert (status.state, status.attempts) == (State.PENDING, 1)


def test_a_stop_in_a_hurry_does_not_wait_for_it(one: Holdfast, tmp_path: Path) -> None:
    drone = Drone(one, tmp_path / "said", FOR_LONG, 3600)
    runner = one.running()
    runner.start()
    pids = drone.begun()
    runner.stop(0)
    assert_gone(pids)
    assert not drone.has_tidied()


def test_when_the_message_is_lost_it_is_killed_at_once(one: Holdfast, tmp_path: Path) -> None:
    """All of its group, though it would have an hour to stop."""
    drone = Drone(one, tmp_path / "said", FOR_LONG, 3600, lease=60)
    with one.running() as runner:
        pids = drone.begun()
        one.cancel(drone.message_id)
        [held] = runner.workers[0].ledger.held()
        held.renewed -= 30  # The next renewal is due, which learns of it.
        assert_gone(pids)
        assert not drone.has_tidied()


def test_when_the_lease_cannot_be_renewed_it_is_killed_in_time(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it would have an hour to stop: it ends with the lease."""

    def away(*_: object) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(internals(one).transport.messages, "extend", away)
    drone = Drone(one, tmp_path / "said", DEAF, 3600, lease=60)
    with one.running() as runner:
        pids = drone.begun()
        [held] = runner.workers[0].ledger.held()
        held.renewed -= 58  # Two seconds are left of its lease, for the worker and for the program.
        held.lease.until_us -= 58_000_000
        assert_gone(pids)


def test_what_it_spends_counts_against_the_budgets(one: Holdfast, tmp_path: Path) -> None:
    """Of the message, which ends when it is over, and of the queue."""
    one.queue("drones", message_budget=10, budget=1000)
    drone = Drone(one, tmp_path / "said", 'echo 6 >>"$HOLDFAST_SPEND_FILE"; exit 75', 1)
    with one.running():
        assert ended(one, drone.message_id) is State.DEAD
    [letter] = one.dead_letters.list("drones")
    assert letter.error == "gave up (message_budget): spent 12 of 10"
    assert one.queues.budget("drones") == 12


REPORTS = 'echo s-1 >"$HOLDFAST_SESSION_FILE"; echo 6 >>"$HOLDFAST_SPEND_FILE"; '
WAITS = 'echo 1 >>"$SAID"; echo 2 >>"$SAID"; until [ -e "$SAID.go" ]; do sleep 0.01; done; echo done'


def test_it_is_done_though_the_database_is_away_when_it_ends(one: Holdfast, tmp_path: Path) -> None:
    """Its session cannot be kept then, which is no failure; what it has spent is counted later."""
    one.queue("drones", max_attempts=1, message_budget=10)
    cable = Cable(one)
    cable.lay(internals(one).store.efforts, "remember", "spend")
    drone = Drone(one, tmp_path / "said", REPORTS + WAITS, 1)
    with one.running():
        drone.begun()
        cable.cut.set()
        (tmp_path / "said.go").touch()
        eventually(lambda: cable.tried >= {"remember", "spend"}, "both were tried")
        cable.cut.clear()
        assert ended(one, drone.message_id) is State.SUCCEEDED
    status = one.status(drone.message_id)
    assert status is not None
    assert (status.result, one.queues.budget("drones")) == ("done", 6)


WORKER = """
import sys
from holdfast import Holdfast, exec_handler
with Holdfast(sys.argv[1]) as hf:
    hf.consumer("drones", name="drone", lease=3)(exec_handler(sys.argv[2:]))
    hf.run()
"""


def test_what_it_has_reported_outlives_its_worker(one: Holdfast) -> None:
    """Which is killed by kill -9 while the program still works."""
    one.queue("drones", backoff=0, budget=1000)
    script = sh(f'[ "$HOLDFAST_ATTEMPT" = 2 ] || {{ {REPORTS} sleep 600; }}; echo "$HOLDFAST_SESSION"')
    sent = one.enqueue("drones", 1)
    command = [sys.executable, "-c", WORKER, one.settings.url, *script]
    with subprocess.Popen(command, preexec_fn=partial(end_with, os.getpid())) as worker:
        try:
            eventually(lambda: one.queues.budget("drones") == 6, "it is counted")
        finally:
            worker.kill()
    one.consumer("drones", name="drone")(exec_handler(script))
    with one.running():
        assert ended(one, sent.id) is State.SUCCEEDED
    status = one.status(sent.id)
    assert status is not None
    assert (status.result, status.attempts, one.queues.budget("drones")) == ("s-1", 2, 6)


def test_a_budget_that_is_over_ends_it(one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not when it would have ended; it can tidy up, and what that costs is counted too."""
    monkeypatch.setattr("holdfast.worker.programs.environment.LOOK", 0.01)
    one.queue("drones", message_budget=10, budget=1000)
    tidy = """trap 'echo 1 >>"$HOLDFAST_SPEND_FILE"; exit 0' TERM; """
    run = 'sleep 600 & echo $! >>"$SAID"; echo $$ >>"$SAID"; echo 11 >>"$HOLDFAST_SPEND_FILE"; wait'
    drone = Drone(one, tmp_path / "said", tidy + run, 60)
    with one.running():
        pids = drone.begun()
        assert ended(one, drone.message_id) is State.DEAD
        assert_gone(pids)
    [letter] = one.dead_letters.list("drones")
    assert letter.error == "gave up (message_budget): spent 12 of 10"
    assert one.queues.budget("drones") == 12


def test_a_session_is_stored_only_if_it_is_another(one: Holdfast, tmp_path: Path) -> None:
    one.queue("drones", max_attempts=3, backoff=0)
    script = '[ "$HOLDFAST_ATTEMPT" = 1 ] || echo "$HOLDFAST_ATTEMPT" | tr 3 2 >"$HOLDFAST_SESSION_FILE"; exit 1'
    remembered, remember = Calls(), internals(one).store.efforts.remember

    def note(claim: Any, text: str | None) -> bool:
        remembered.note((claim.attempt, text))
        return remember(claim, text)

    internals(one).store.efforts.remember = note  # type: ignore[method-assign]
    drone = Drone(one, tmp_path / "said", script, 1)
    with one.running():
        assert ended(one, drone.message_id) is State.DEAD
    assert remembered.seen == [(2, "2")]


class Held:
    """A claim of which so many seconds are left."""

    def __init__(self, left: float) -> None:
        self.lease = type("Lease", (), {"until_us": round(left * 1_000_000), "since_us": 0})


@pytest.mark.parametrize(
    ("stop", "hurries", "left", "grace"),
    [
        (Stop.TIMEOUT, False, 60, 5.0),
        (Stop.TIMEOUT, False, 6, 3.0),
        (Stop.LEASE, False, 1, 0.5),
        (Stop.LEASE, False, -1, 0.0),
        (Stop.LOST, False, 60, 0.0),
        (Stop.SHUTDOWN, False, 60, 5.0),
        (Stop.SHUTDOWN, True, 60, HURRY),
        (Stop.SHUTDOWN, True, 1, 0.5),
    ],
)
def test_a_program_never_has_more_time_than_its_lease(
    stop: Stop, hurries: bool, left: float, grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    worker: Any = type("Worker", (), {"hurries": hurries})
    claim: Any = Held(left)
    context = Context(worker, claim, claimed=100.0)
    context.stop = stop
    assert context.grace(5.0) == grace
