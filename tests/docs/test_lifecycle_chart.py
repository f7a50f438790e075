"""The chart of a message's life is the table in the code."""

import runpy
import subprocess
import sys

from holdfast.core.lifecycle import FINAL, TABLE
from tests.docs.pages import ROOT

SCRIPT = ROOT / "docs" / "make_lifecycle.py"
PAGE = ROOT / "docs" / "explanation" / "lifecycle.md"


def test_the_chart_is_current() -> None:
    check = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_the_chart_shows_every_move() -> None:
    page = PAGE.read_text()
    for (state, event), after in TABLE.items():
        assert any(line.startswith(f"    {state} --> {after}: ") and event in line for line in page.splitlines())
    for state in FINAL:
        assert f"    {state} --> [*]" in page


def test_an_outdated_chart_is_noticed() -> None:
    script = runpy.run_path(str(SCRIPT))
    page = PAGE.read_text()
    assert script["with_chart"](page) == page
    assert script["with_chart"](page.replace("processing --> dead", "processing --> elsewhere")) == page
