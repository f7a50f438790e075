"""Retention by processes that are killed in the middle of it: every group gets all that it is owed, or is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast import DEFAULT, Holdfast, QueueFull
from tests.acceptance.children import ROOT
from tests.acceptance.retaining import POINTS

Connect = Callable[..., Holdfast]


def retain(url: str, *point: str) -> int:
    """How the process has ended."""
    args = [sys.executable, "-m", "tests.acceptance.retaining", url, *point]
    return subprocess.run(args, cwd=ROOT, timeout=120).returncode


@pytest.fixture
def hf(url: str, connect: Connect) -> Holdfast:
    """The topic t with a group that wants everything and one that wants half of it; 400 messages of two priorities."""
    hf = connect(url)
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "all")
    hf.subscribe("t", "even", patterns="t.0")
    for number in range(400):
        hf.publish(f"t.{number % 2}", number, priority=2 + number // 2 % 2)
    return hf


def test_every_group_gets_what_it_is_owed(hf: Holdfast, url: str) -> None:
    read: dict[str, list[int]] = {"all": [], "even": []}

    def go_on(count: int) -> bool:
        for group, seen in read.items():
            claims = hf.claim("t", group=group, n=count if group == "all" else count // 2)
            seen += [claim.message.body for claim in claims]
            hf.ack(claims)
        return bool(claims)

    for point in POINTS:
        go_on(60)
        [held] = hf.claim("t/all", n=1)
        assert retain(url, point, "2") == -signal.SIGKILL, f"it was not killed: {point}"
        assert retain(url) == 0, "another one takes over, and comes as far as the groups are"
        held.release()
    while go_on(60):
        pass
    assert {group: sorted(seen) for group, seen in read.items()} == {
        "all": list(range(400)),
        "even": list(range(0, 400, 2)),
    }
    assert retain(url) == 0
    hf.subscribe("t", "new", start="earliest")
    assert hf.stats("t/new").pending == 0, "all of it has gone"
    assert [(group.group, group.lost) for group in hf.groups.list("t")] == [("all", 0), ("even", 0), ("new", 0)]


def test_what_is_lost_is_counted_once(hf: Holdfast, url: str) -> None:
    """What was removed by a step that was not stored is still there, and so is the count."""
    hf.ack(hf.claim("t/all", n=30))
    hf.topic("t", retention=0)
    for point in POINTS:
        assert retain(url, point, "2") == -signal.SIGKILL
    left = {group.group: group.lost + group.lag for group in hf.groups.list("t")}
    assert left == {"all": 370, "even": 200}
    assert retain(url) == 0
    assert {group.group: (group.lost, group.lag) for group in hf.groups.list("t")} == {
        "all": (370, 0),
        "even": (200, 0),
    }
    assert {notice.about: notice.error.split()[0] for notice in hf.notices.list()} == {"t/all": "370", "t/even": "200"}


def test_a_limited_topic_knows_how_many_are_needed(hf: Holdfast, url: str) -> None:
    hf.topic("t", retention=0, max_depth=1_000)
    for point in POINTS:
        assert retain(url, point, "2") == -signal.SIGKILL
    hf.subscribe("t", "new", start="earliest")
    there = hf.stats("t/new").pending
    hf.topic("t", retention=DEFAULT, max_depth=there + 2)
    hf.publish_many("t", [1, 2])
    with pytest.raises(QueueFull, match=f"has {there + 2} messages"):
        hf.publish("t", 3)
