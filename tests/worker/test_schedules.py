"""Where consumers run, schedules are fired."""

from datetime import datetime

import pytest

from holdfast import Holdfast, Message
from tests.worker.steps import Calls

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def test_running_consumers_get_what_is_sent_by_the_clock(hf: Holdfast) -> None:
    calls = Calls()

    @hf.consumer("ticks")
    def note(message: Message) -> None:
        calls.note((message.body, message.headers["holdfast-slot"], message.headers.get("holdfast-missed", 0)))

    hf.schedule("s", queue="ticks", body="tick", every=1)
    with hf.running():
        seen = calls.wait(2)
    assert {body for body, _, _ in seen} == {"tick"}
    first, second = (datetime.fromisoformat(slot) for _, slot, _ in seen[:2])
    assert (second - first).total_seconds() == 1 + seen[1][2]
