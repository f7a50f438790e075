"""Commitments: which are checked, how, and what is said when they were not kept."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Commitment, CommitmentResult, InvalidInput
from holdfast.commitments.rules import HEADER, read_commitments
from holdfast.worker.commitment_checks import check_done, commitments_of, failed_text, verify
from holdfast.worker.outcomes import DeadLetter
from holdfast.worker.programs.run import Program
from tests.waiting import eventually
from tests.worker.attempts import Attempt, is_alive, message

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def checked(check: str, timeout: float = 20, **options: Any) -> CommitmentResult:
    """One commitment, verified."""
    [result] = verify([Commitment("kept", check, timeout)], env=dict(os.environ), **options)
    return result


# --- checking ---------------------------------------------------------------------------------------------------------


def test_exit_code_0_passes() -> None:
    assert checked("echo fine; echo really >&2") == CommitmentResult("kept", True, 0, "fine\nreally")


@pytest.mark.parametrize(("check", "code"), [("exit 1", 1), ("no-such-command", 127), ("kill -9 $$", -9), ("if", 2)])
def test_anything_else_fails(check: str, code: int) -> None:
    result = checked(check)
    assert (result.passed, result.code) == (False, code)


def test_all_are_checked_whatever_the_first_says(tmp_path: Path) -> None:
    commitments = [Commitment("a", "exit 1"), Commitment("b", "touch b"), Commitment("c", "exit 3")]
    results = verify(commitments, env=dict(os.environ), cwd=str(tmp_path))
    assert [(one.name, one.passed) for one in results] == [("a", False), ("b", True), ("c", False)]
    assert (tmp_path / "b").exists()


def test_taking_too_long_is_a_failure_and_ends_the_whole_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is short; it begins when the check has said something, which may take long on a busy machine."""
    wait = Program.wait

    def wait_when_begun(program: Program, *limits: Any) -> Any:
        eventually((tmp_path / "child").exists, "the check has begun")
        return wait(program, *limits)

    monkeypatch.setattr(Program, "wait", wait_when_begun)
    text = "sleep 60 & echo so far; echo $! >new; mv new child; wait"
    result = checked(text, timeout=0.1, cwd=str(tmp_path))
    assert result == CommitmentResult("kept", False, None, "so far\n[timed out]")
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not is_alive(child), "its child is gone")


def test_only_the_end_of_the_output_is_kept() -> None:
    result = checked("yes | head -c 50000000; printf '\\000the end'; exit 1")
    assert len(result.output) == 4000
    assert result.output.endswith("y\n\ufffdthe end")


def test_a_check_that_cannot_begin_has_failed() -> None:
    result = checked("true", cwd="/no/such/folder")
    assert (result.passed, result.code) == (False, None)
    assert "could not be started" in result.output


def test_once_cancelled_nothing_passes() -> None:
    context = Attempt()
    context.cancel()
    results = verify(
        [Commitment("a", "sleep 3600"), Commitment("b", "sleep 3600")], env={}, on_cancel=context.on_cancel
    )
    assert [(one.passed, one.code, one.output) for one in results] == [(False, None, "[cancelled]")] * 2


def test_a_check_in_progress_can_be_cancelled(tmp_path: Path) -> None:
    context, begun = Attempt(), tmp_path / "begun"

    def cancel() -> None:
        eventually(begun.exists, "the check has begun")
        context.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    result = checked(f"touch {begun}; sleep 60", timeout=60, on_cancel=context.on_cancel)
    thread.join()
    assert (result.passed, result.output) == (False, "[cancelled]")


def test_a_check_sees_the_message_and_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DB", "postgresql://app:s3cret@db/app")
    context = Attempt({"order": 42}, attempt=2)
    checks = [
        Commitment("variables", 'echo "$HOLDFAST_ID $HOLDFAST_ATTEMPT $HOLDFAST_RESULT ${HOLDFAST_DB-hidden}"'),
        Commitment("files", 'cat "$HOLDFAST_BODY_FILE" "$HOLDFAST_RESULT_FILE"'),
        Commitment("mine", 'echo "$MINE"'),
    ]
    variables, files, mine = check_done(checks, context.message, context, {"ok": True}, env={"MINE": "yes"})
    assert variables.output == f'{context.message.id} 2 {{"ok":true}} hidden'
    assert files.output == '{"order":42}{"ok":true}'
    assert mine.output == "yes"


def test_a_result_too_long_for_a_variable_is_in_its_file() -> None:
    context = Attempt()
    checks = [Commitment("size", 'echo "${HOLDFAST_RESULT-none}"; wc -c <"$HOLDFAST_RESULT_FILE"')]
    [result] = check_done(checks, context.message, context, "x" * 200_000)
    assert result.output == "none\n200002"


def test_a_result_is_never_run(tmp_path: Path) -> None:
    context = Attempt("$(touch owned)")
    checks = [Commitment("seen", 'printf %s "$HOLDFAST_RESULT"')]
    [result] = check_done(checks, context.message, context, "`touch owned`; touch owned", cwd=str(tmp_path))
    assert json.loads(result.output) == "`touch owned`; touch owned"
    assert list(tmp_path.iterdir()) == []


# --- the reason of a failure ------------------------------------------------------------------------------------------


def test_the_reason_names_what_failed_and_how() -> None:
    results = [
        CommitmentResult("built", True, 0, "all good"),
        CommitmentResult("tested", False, 2, "x" * 5000 + "3 failed"),
        CommitmentResult("quiet", False, 1, ""),
        CommitmentResult("slow", False, None, "so far\n[timed out]"),
    ]
    first, second, *third = failed_text(results).splitlines()
    assert first.startswith("commitment 'tested' failed: its check ended with code 2: xxx")
    assert first.endswith("x3 failed")
    assert len(first) < 1100
    assert second == "commitment 'quiet' failed: its check ended with code 1, without a word"
    assert third == ["commitment 'slow' failed: its check did not finish: so far", "[timed out]"]
    assert failed_text(results[:1]) == ""


# --- whose they are ---------------------------------------------------------------------------------------------------

OF_QUEUE = [{"name": "built", "check": "make"}]
TWENTY = [{"name": str(number), "check": "true"} for number in range(20)]
OF_MESSAGE = [{"name": "tested", "check": "make test", "timeout": "2m"}]


def test_the_queues_are_always_checked() -> None:
    assert commitments_of(OF_QUEUE, message(), trusted=False) == [Commitment("built", "make", 30.0)]
    assert commitments_of([], message(), trusted=False) == []
    assert commitments_of((), message(**{HEADER: []}), trusted=False) == []


def test_a_messages_own_are_checked_where_they_are_trusted() -> None:
    found = commitments_of(OF_QUEUE, message(**{HEADER: OF_MESSAGE}), trusted=True)
    assert found == [Commitment("built", "make", 30.0), Commitment("tested", "make test", 120.0)]


@pytest.mark.parametrize("carried", [OF_MESSAGE, "rubbish", {"a": 1}, 7])
def test_elsewhere_such_a_message_is_neither_run_nor_believed(carried: Any) -> None:
    with pytest.raises(DeadLetter, match="trust_commitments=True"):
        commitments_of(OF_QUEUE, message(**{HEADER: carried}), trusted=False)


@pytest.mark.parametrize(
    "carried",
    ["rubbish", {"a": 1}, 7, [1], [{"name": "a"}], OF_QUEUE, OF_MESSAGE * 2, TWENTY],
)
def test_what_cannot_be_read_is_buried_and_not_tried_again(carried: Any) -> None:
    with pytest.raises(DeadLetter, match="cannot be checked: "):
        commitments_of(OF_QUEUE, message(**{HEADER: carried}), trusted=True)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "must be a list"),
        ("make", "must be a list"),
        ({"name": "a", "check": "b"}, "must be a list"),
        ([*TWENTY, {"name": "one more", "check": "true"}], "at most 20"),
        ([{"name": "a", "check": "x"}, {"name": "a", "check": "y"}], "'a' twice"),
        ([{"name": "a", "check": "x", "shell": True}], "each must have"),
        ([{"name": "a"}], "each must have"),
        (["make"], "each must have"),
        ([{"name": "", "check": "x"}], "a name must be text"),
        ([{"name": "a\0", "check": "x"}], "a name must be text"),
        ([{"name": "n" * 201, "check": "x"}], "at most 200"),
        ([{"name": "a", "check": " "}], "the check of 'a' must be text"),
        ([{"name": "a", "check": 7}], "the check of 'a' must be text"),
        ([{"name": "a", "check": "x" * 10_001}], "at most 10000"),
        ([{"name": "a", "check": "x", "timeout": 0}], "timeout of 'a' must be above 0"),
        ([{"name": "a", "check": "x", "timeout": 3601}], "at most an hour"),
        ([{"name": "a", "check": "x", "timeout": "soon"}], "timeout of 'a'"),
        ([{"name": "a", "check": "x", "timeout": True}], "timeout of 'a'"),
    ],
)
def test_what_is_no_commitment_is_refused(value: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"^commitments.*{says}"):
        read_commitments(value)


def test_what_was_read_can_be_read_again() -> None:
    once = read_commitments(OF_QUEUE + OF_MESSAGE)
    assert read_commitments(once) == once
