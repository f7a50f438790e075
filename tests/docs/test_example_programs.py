"""Every program in `examples` runs to its end and shows what its page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"

SHOWS = {
    "agents": [
        r"parent  sends chapter 5",
        r"chapter 2, attempt 1, failed: commitment 'has a summary' failed",
        r"chapter 2, attempt 2: has a summary: kept",
        r"chapter 4 is dead after 2 attempts",
        r"notice  for parent, level 0: .*too dark for me",
        r"notice  for lead, level 1:",
        r"notice  for user, level 2:",
        r"4 of 5 chapters done, 1 dead, and somebody knows\n\Z",
    ]
}


@pytest.mark.parametrize("name", sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()))
def test_it_runs_and_shows_what_it_should(name: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, EXAMPLES / name / "run.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    for shown in SHOWS[name]:
        assert re.search(shown, answer.stdout), f"{shown!r} is not in:\n{answer.stdout}"
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_every_example_is_on_the_page() -> None:
    page = (EXAMPLES / "README.md").read_text()
    assert [name for name in SHOWS if f"]({name}/README.md)" not in page] == []
