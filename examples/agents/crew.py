"""The crew: a parent that splits books into chapters, and a pool of drones that summarise them."""

import os
import sys
from pathlib import Path
from typing import Any

from holdfast import Holdfast, exec_handler

DRONE = Path(__file__).with_name("drone.py")

hf = Holdfast(os.environ["CREW_DB"])


def declare() -> None:
    """Who answers for what, and what is promised."""
    hf.owner("user", escalate_after=None)
    hf.owner("lead", owner="user", escalate_after="1s")
    hf.owner("parent", owner="lead", escalate_after="1s")
    hf.queue("books", owner="lead")
    hf.queue(
        "chapters",
        owner="parent",
        requires={"tier": "haiku"},
        max_attempts=2,
        backoff="100ms..1s",
        commitments=[{"name": "has a summary", "check": "grep -q summary $HOLDFAST_RESULT_FILE"}],
    )


@hf.consumer("books")
def parent(message: Any, context: Any) -> int:
    """Splits a book. The chapters arrive if, and only if, this is acked."""
    chapters = message.body["chapters"]
    for number, text in enumerate(chapters, 1):
        context.enqueue("chapters", {"chapter": number, "text": text}, correlation_id=message.id)
    return len(chapters)


drone = hf.consumer("chapters", name="drone", labels={"tier": "haiku"}, timeout="1m")(
    exec_handler([sys.executable, str(DRONE)], preflight=[sys.executable, "--version"])
)
hf.pool(drone, min=1, max=3, scale_up_depth=2, scale_down_depth=0, cooldown="500ms")
