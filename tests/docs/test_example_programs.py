"""Every program in `examples` runs to its end and shows what its page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"

ALERTS = int(os.environ.get("HOLDFAST_ALERTS", "2000"))
"""The program's own default is 10,000, which take most of a minute."""

ARGUMENTS = {"incidents": [str(ALERTS)]}

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
    ],
    "incidents": [
        r"queue WebhookIngress → command Incident.CreateIncident",
        rf"{ALERTS:,} signed alerts come in over 50 connections",
        rf"kill -9 of the server, after {ALERTS // 2:,}; it is started again",
        r" × 202",
        rf"{ALERTS // 50:,} dead letters, the first: LookupError: nobody has told us about the service 'billing'",
        rf"accepted {ALERTS:,}, incidents {ALERTS:,}, lost 0, twice 0\n",
        r"every alert has become one incident\n\Z",
    ],
    "orders": [
        r"shipping is down",
        r"analytics counts orders.us.canceled",
        r"inventory cannot reach the warehouse for order 3\n(.*\n)*inventory notes that order 3 was created",
        r"everyone else is done; shipping is owed 3\n",
        r"shipping  packs order 1\nshipping  packs order 2\nshipping  packs order 3\n",
        r"missed nothing; owed to anyone: 0\n\Z",
    ],
    "trip": [
        r"flights   a seat to Rome \(rome/1/flight/do\)\n"
        r"hotels    a room in Rome, for whoever sits in 12A\ncards     paid\n",
        r"agency    the trip to Rome is completed\n",
        r"cards     declined\n(cars      a small one is back\nhotels    room 7 is free again"
        r"|hotels    room 7 is free again\ncars      a small one is back)\nflights   seat 12A is free again\n",
        r"agency    the trip to Oslo is compensated: card: the card was declined\n",
        r"agency    compensated    flight\n\Z",
    ],
}


@pytest.mark.parametrize("name", sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()))
def test_it_runs_and_shows_what_it_should(name: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, EXAMPLES / name / "run.py", *ARGUMENTS.get(name, [])],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    for shown in SHOWS[name]:
        assert re.search(shown, answer.stdout), f"{shown!r} is not in:\n{answer.stdout}"
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


def test_every_example_is_on_the_page() -> None:
    page = (EXAMPLES / "README.md").read_text()
    assert [name for name in SHOWS if f"]({name}/README.md)" not in page] == []
