"""What a program says that it is about to do: counted line by line, and the same too often in a row ends it."""

from __future__ import annotations

import contextlib
import threading
from itertools import count
from pathlib import Path

import pytest

from holdfast import Holdfast, ProgramFailed, State, Unavailable
from holdfast.client.client import internals
from holdfast.worker.outcomes import GaveUp
from holdfast.worker.programs.environment import ACTION_LIMIT, ACTIONS_AT_A_LOOK, ACTIONS_AT_THE_END, Reports
from tests.waiting import eventually
from tests.worker.attempts import Attempt, run, sh
from tests.worker.drones import Drone, assert_gone
from tests.worker.faults import Cable
from tests.worker.steps import PATIENCE, ended

pytestmark = [pytest.mark.usefixtures("temporary"), pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.fixture
def context() -> Attempt:
    return Attempt()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "action"


@pytest.fixture
def reports(context: Attempt, tmp_path: Path) -> Reports:
    return Reports(context, tmp_path, "")


def append(file: Path, text: bytes) -> None:
    with file.open("ab") as written:
        written.write(text)


@pytest.mark.parametrize("ending", ["true", "exit 1"])
def test_every_line_is_an_action(context: Attempt, ending: str) -> None:
    """Also the last one, without an end; whatever becomes of the attempt. A line without a word is none."""
    script = (
        f'echo look >>"$HOLDFAST_ACTION_FILE"; printf "ask  it\\r\\n \\n\\nsave" >>"$HOLDFAST_ACTION_FILE"; {ending}'
    )
    with contextlib.suppress(ProgramFailed):
        run(sh(script), context=context)
    assert context.actions == ["look", "ask  it", "save"]


def test_who_says_nothing_does_nothing(context: Attempt) -> None:
    run(sh("true"), context=context)
    run(sh('mkdir "$HOLDFAST_ACTION_FILE"'), context=context)
    run(sh('mkfifo "$HOLDFAST_ACTION_FILE"'), context=context)
    run(sh('ln -s /etc/passwd "$HOLDFAST_ACTION_FILE"'), context=context)
    assert context.actions == []


def test_they_are_counted_while_it_writes(context: Attempt, file: Path, reports: Reports) -> None:
    """Each once. A line that has no end yet may go on."""
    for text in (b"lo", b"ok\nas", b"", b"k\nsave\nen"):
        append(file, text)
        reports.look()
    assert context.actions == ["look", "ask", "save"]
    reports.end()
    assert context.actions == ["look", "ask", "save", "en"]


def test_a_file_that_begins_anew_is_read_anew(context: Attempt, file: Path, reports: Reports) -> None:
    for text in ("look at it\n", "ask\n", "", "save\n"):
        file.write_text(text)
        reports.look()
    file.unlink()
    reports.look()
    reports.end()
    assert context.actions == ["look at it", "ask", "save"]


def test_what_is_no_text_is_an_action_all_the_same(context: Attempt, file: Path, reports: Reports) -> None:
    file.write_bytes(b"\xff\xfe\n\x00\ngo\x80on\n")
    reports.look()
    assert context.actions == ["\ufffd\ufffd", "\x00", "go\ufffdon"]


def test_of_a_long_line_the_beginning_counts(context: Attempt, file: Path, reports: Reports) -> None:
    """Once, however long it is, and whenever the rest of it comes."""
    append(file, b"y" * 3 * ACTION_LIMIT)
    reports.look()
    append(file, b"y" * 2 * ACTION_LIMIT + b"\nsave\n")
    reports.look()
    reports.end()
    assert context.actions == ["y" * ACTION_LIMIT, "save"]


def test_a_flood_is_taken_bit_by_bit(context: Attempt, file: Path, reports: Reports) -> None:
    """Since every action is a write to the database; when the program has ended, there has to be an end."""
    append(file, b"".join(b"do %d\n" % number for number in range(10_000)))
    reports.look()
    assert len(context.actions) == ACTIONS_AT_A_LOOK
    reports.look()
    assert len(context.actions) == 2 * ACTIONS_AT_A_LOOK
    reports.end()
    assert context.actions == [f"do {number}" for number in range(2 * ACTIONS_AT_A_LOOK + ACTIONS_AT_THE_END)]


def test_what_could_not_be_counted_is_counted_later(
    context: Attempt, file: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.programs.environment.AGAIN", 0.0)
    taken, tries = context.action, count(1)

    def now_and_then(text: str) -> None:
        if next(tries) % 3 == 0:
            raise Unavailable("the database is away")
        taken(text)

    monkeypatch.setattr(context, "action", now_and_then)
    append(file, b"look\nask\nsave\n")
    with pytest.raises(Unavailable):
        reports.look()
    reports.look()
    append(file, b"go\ncome\nend\n")
    reports.end()
    assert context.actions == ["look", "ask", "save", "go", "come", "end"]


ASKS = """printf 'ask page 1\\nAsk  page 2\\n' >>"$HOLDFAST_ACTION_FILE"; """
"""The same, twice."""


@pytest.fixture
def drones(one: Holdfast, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    monkeypatch.setattr("holdfast.worker.programs.environment.LOOK", 0.01)
    one.queue("drones", max_repeats=3, backoff=0)
    return one


def test_who_goes_round_in_circles_is_ended(drones: Holdfast, tmp_path: Path) -> None:
    """At once, and not when it would have ended; it can tidy up. No other attempt is made."""
    run = ASKS + 'sleep 600 & echo $! >>"$SAID"; echo $$ >>"$SAID"; echo ASK page 3 >>"$HOLDFAST_ACTION_FILE"; wait'
    drone = Drone(drones, tmp_path / "said", """trap 'echo tidied >>"$SAID"; exit 0' TERM; """ + run, 60)
    with drones.running():
        pids = drone.begun()
        assert ended(drones, drone.message_id) is State.DEAD
        assert_gone(pids)
    [letter] = drones.dead_letters.list("drones")
    assert letter.error == "gave up (max_repeats): did the same thing 3 times in a row: ask page #"
    assert letter.attempts == 1
    assert drone.has_tidied()


def test_it_is_seen_at_the_end_too(drones: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the program has ended, and well, before anybody looked."""
    monkeypatch.setattr("holdfast.worker.programs.environment.LOOK", 3600.0)
    drone = Drone(drones, tmp_path / "said", ASKS + ASKS, 1)
    with drones.running():
        assert ended(drones, drone.message_id) is State.DEAD
    [letter] = drones.dead_letters.list("drones")
    assert letter.error == "gave up (max_repeats): did the same thing 3 times in a row: ask page #"


def test_another_attempt_counts_anew(drones: Holdfast, tmp_path: Path) -> None:
    """It has to do again what the one before it did."""
    drone = Drone(drones, tmp_path / "said", ASKS + 'echo save >>"$HOLDFAST_ACTION_FILE"; ' + ASKS + "exit 1", 1)
    with drones.running():
        assert ended(drones, drone.message_id) is State.DEAD
    [letter] = drones.dead_letters.list("drones")
    assert letter.error is not None
    assert letter.error.endswith("ProgramFailed: sh ended with code 1, without a word")
    assert letter.attempts == 5


def test_it_is_done_though_the_database_is_away_when_it_ends(drones: Holdfast, tmp_path: Path) -> None:
    cable = Cable(drones)
    cable.lay(internals(drones).store.efforts, "act")
    waits = 'echo 1 >>"$SAID"; echo 2 >>"$SAID"; until [ -e "$SAID.go" ]; do sleep 0.01; done; echo done'
    drone = Drone(drones, tmp_path / "said", f"{waits}; {ASKS}", 1)
    with drones.running():
        drone.begun()
        cable.cut.set()
        (tmp_path / "said.go").touch()
        eventually(lambda: "act" in cable.tried, "it was tried")
        cable.cut.clear()
        assert ended(drones, drone.message_id) is State.SUCCEEDED


def test_a_report_that_cannot_be_read_does_not_hide_it(
    context: Attempt, file: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message would be tried again, and go round in circles once more."""

    def refuse(text: str) -> None:
        raise GaveUp("gave up")

    monkeypatch.setattr(context, "action", refuse)
    monkeypatch.setattr("holdfast.worker.programs.environment.LOOK", 0.0)
    (tmp_path / "spend").write_text("much ")
    append(file, b"look\n")
    stopped = threading.Event()
    reports.watch(stopped.set)
    assert stopped.wait(PATIENCE)
    with pytest.raises(GaveUp):
        reports.end()
