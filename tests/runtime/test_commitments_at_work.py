"""Commitments of a consumer at work: where they are checked, and whose time that takes."""

from pathlib import Path

import pytest

from holdfast import Holdfast, State, exec_handler
from tests.runtime.attempts import sh
from tests.runtime.steps import ended


def checked(hf: Holdfast, message_id: str) -> list[tuple[str, bool, str]]:
    return [(one.name, one.passed, one.output) for one in hf.commitments(message_id)]


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
