"""Running `holdfast doctor`, and reading what it found."""

import json
import time
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner

import holdfast.cli.doctor
from tests.clock import FakeClock

Look = Callable[[str], tuple[int, list[dict[str, Any]]]]


def look_inside(url: str) -> tuple[int, list[dict[str, Any]]]:
    """In this process, so that a test can change what it sees."""
    answer = CliRunner().invoke(holdfast.cli.doctor.doctor, ["--json", "--db", url], standalone_mode=False)
    assert answer.exception is None, answer.exception
    return answer.return_value, [json.loads(line) for line in answer.output.splitlines()]


def found(findings: list[dict[str, Any]], check: str) -> list[tuple[str, str]]:
    return [(finding["state"], finding["found"]) for finding in findings if finding["check"] == check]


def not_ok(findings: list[dict[str, Any]]) -> dict[str, str]:
    return {finding["check"]: finding["state"] for finding in findings if finding["state"] != "ok"}


def past(seconds: float) -> FakeClock:
    return FakeClock(int((time.time() - seconds) * 1_000_000))
