"""T4: real processes that fire the same schedules at once, and are killed while they do: each slot is sent once."""

import time

import pytest

from holdfast import Holdfast, Message
from holdfast.schedules.rules import slot_text
from tests.acceptance.children import Family
from tests.acceptance.rivals import fast_time
from tests.long import only_long

SECOND = 1_000_000
PERIODS = (7, 11, 30)
PACE = 300
"""So much faster than the host's clock runs the time of these tests."""


@pytest.mark.parametrize(
    ("url", "ordering"),
    [
        ("sqlite-apsw", "unordered"),
        ("postgres", "fifo"),
        pytest.param("sqlite-apsw", "fifo", marks=only_long),
        pytest.param("sqlite-stdlib", "unordered", marks=only_long),
        pytest.param("postgres", "unordered", marks=only_long),
    ],
    indirect=["url"],
)
def test_killed_at_any_moment_every_slot_is_sent_once(family: Family, url: str, ordering: str) -> None:
    since, end = time.time_ns() // 1000, 0

    def clock() -> int:
        return end or fast_time(since, PACE)

    with Holdfast(url, clock=clock) as hf:
        hf.queue("q", ordering=ordering)
        for period in PERIODS:
            hf.schedule(f"every {period}", queue="q", body=period, every=period, missed="all")
        firers = [family.start("firer", url=url, since=since, pace=PACE) for _ in range(2)]
        for _ in range(4):
            family.wait_for_events(2_500, "firer")
            firers.pop(0).kill()
            firers.append(family.start("firer", url=url, since=since, pace=PACE))
        family.wait_for_events(2_500, "firer")
        end = clock()  # What comes due from here on is not sent below: with a slow end that could be most of it.
        family.finish()
        while hf.schedules.fire():
            pass
        end = 0
        sent = everything(hf)
        schedules = {one.body: one for one in hf.schedules.list()}

    by_firers = sum(event.get("sent", 0) for event in family.history().events if event["op"] == "fire")
    assert by_firers > len(sent) / 2, "the processes of this test had nothing to do with it"
    for period in PERIODS:
        one = schedules[period]
        assert one.last_slot_us is not None
        due = range(one.created_at_us + period * SECOND, one.last_slot_us + 1, period * SECOND)
        slots = [message.headers["holdfast-slot"] for message in sent if message.body == period]
        assert len(due) > 10
        assert slots == [slot_text(slot, "UTC") for slot in due]


def everything(hf: Holdfast) -> list[Message]:
    """All messages, in the order of claiming."""
    found = []
    while claims := hf.claim("q", n=1000):
        found += [claim.message for claim in claims]
        hf.ack(claims)
    return found
