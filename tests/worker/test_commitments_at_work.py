"""Commitments of a consumer at work: where they are checked, and whose time that takes."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Message, State, exec_handler
from holdfast.worker.context import Context
from holdfast.worker.lease_renewal import HandlerWatch
from tests.waiting import eventually
from tests.worker.attempts import sh
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

HANDLERS = pytest.mark.parametrize("kind", ["def", "async def"])


def begin(hf: Holdfast, kind: str, **options: Any) -> Calls:
    """A consumer whose handler is done at once; the contexts that it had."""
    begun = Calls()

    def plain(message: Message, context: Context) -> None:
        begun.note(context)

    async def awaited(message: Message, context: Context) -> None:
        begun.note(context)

    hf.consumer("q", name="handler", **options)(plain if kind == "def" else awaited)
    return begun


def checked(hf: Holdfast, message_id: str) -> list[tuple[str, bool, str]]:
    return [(one.name, one.passed, one.output) for one in hf.messages.commitments(message_id)]


def test_a_program_is_checked_in_its_own_surroundings(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIRS", "postgresql://app:s3cret@db/app")
    one.queue("q", max_attempts=1, commitments=[{"name": "seen", "check": 'pwd; echo "$MINE ${THEIRS-hidden}"'}])
    secrets = ["postgresql://app:s3cret@db/app"]
    program = exec_handler(sh("true"), cwd=tmp_path, env={"MINE": "mine"}, secrets=secrets)
    one.consumer("q", name="drone")(program)
    sent = one.enqueue("q", 1)
    with one.running():
        assert ended(one, sent.id) is State.SUCCEEDED
    assert checked(one, sent.id) == [("seen", True, f"{tmp_path}\nmine hidden")]


@HANDLERS
def test_the_time_of_a_check_is_not_the_handlers(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By the clock, the handler's time is over long ago."""
    check = (
        f"touch {tmp_path}/begun; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo ${{HOLDFAST_DEADLINE:-none}}"
    )
    one.queue("q", max_attempts=1, commitments=[{"name": "slow", "check": check, "timeout": "10m"}])
    rounds, make_round = Calls(), HandlerWatch.round

    def note_round(watch: HandlerWatch, now: float) -> float | None:
        found = make_round(watch, now)
        rounds.note(now)
        return found

    monkeypatch.setattr(HandlerWatch, "round", note_round)
    begun = begin(one, kind, timeout=3600)
    sent = one.enqueue("q", 1)
    with one.running():
        [context] = begun.wait(1)
        eventually((tmp_path / "begun").exists, "the check")
        context.started -= 7200
        rounds.wait(len(rounds.seen) + 2)
        (tmp_path / "go").touch()
        assert ended(one, sent.id) is State.SUCCEEDED
    assert checked(one, sent.id) == [("slow", True, "none")]


@HANDLERS
def test_the_time_of_all_attempts_ends_a_check_and_what_was_checked_before_is_kept(
    one: Holdfast, tmp_path: Path, kind: str
) -> None:
    checks = {"quick": "echo fine", "slow": f"touch {tmp_path}/begun; sleep 600"}
    one.queue("q", commitments=[{"name": name, "check": check, "timeout": "1h"} for name, check in checks.items()])
    begun = begin(one, kind, timeout=3600)
    sent = one.enqueue("q", 1)
    with one.running():
        [context] = begun.wait(1)
        eventually((tmp_path / "begun").exists, "the second check")
        context.started -= 7200
        context.time_left = 0.0
        assert ended(one, sent.id) is State.DEAD
    assert checked(one, sent.id)[0] == ("quick", True, "fine")
    assert one.dead_letters.list("q")[0].error.startswith("gave up (max_time)")
