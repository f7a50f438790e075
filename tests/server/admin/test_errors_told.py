"""Over HTTP too, an error begins with one sentence, and the traceback has a field of its own."""

from typing import Any

import pytest

from holdfast import Holdfast, Step
from tests.server.admin.conftest import Ask

pytestmark = pytest.mark.above_the_stores

SENTENCE = "RuntimeError: guard rejected"


def fail(hf: Holdfast, queue: str) -> None:
    [claim] = hf.claim(queue)
    try:
        raise RuntimeError("guard rejected")
    except RuntimeError as problem:
        claim.nack(problem, permanent=True)


def assert_apart(one: dict[str, Any], sentence: str = SENTENCE) -> None:
    assert one["error"] == sentence
    assert one["traceback"].startswith("Traceback")


@pytest.fixture
def dead(hf: Holdfast) -> str:
    hf.queue("q", owner="mia")
    hf.enqueue("q", 1)
    fail(hf, "q")
    return hf.dead_letters.list()[0].id


def test_a_dead_letter(ask: Ask, dead: str) -> None:
    [listed] = ask("GET", "/admin/queues/q/dlq")["dead_letters"]
    assert listed["error"] == SENTENCE
    letter = ask("GET", f"/admin/dlq/{dead}")
    assert_apart(letter)
    assert_apart(letter["history"][0])


def test_a_notice_and_a_message(hf: Holdfast, ask: Ask, dead: str) -> None:
    [notice] = ask("GET", "/admin/notices")["notices"]
    assert_apart(notice)
    task = ask("GET", f"/tasks/{notice['message_id']}")
    assert task["last_error"] == SENTENCE
    [failed] = [step for step in task["timeline"] if step["event"] == "failed"]
    assert_apart(failed)


def test_a_saga(hf: Holdfast, ask: Ask) -> None:
    hf.queue("charge")
    hf.saga("order", steps=[Step("charge", "charge")])
    hf.start_saga("order", {}, id="s1")
    fail(hf, "charge")
    [listed] = ask("GET", "/admin/sagas")["sagas"]
    assert listed["error"] == f"charge: {SENTENCE}"
    saga = ask("GET", "/admin/sagas/s1")
    assert_apart(saga, f"charge: {SENTENCE}")
    assert_apart(saga["steps"][0])
    [failed] = [line for line in saga["timeline"] if line["what"] == "attempt_failed"]
    assert_apart(failed)
