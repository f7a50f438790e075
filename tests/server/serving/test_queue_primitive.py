"""The queue primitive's own spec, served: its acceptance criteria, and its test plan row by row.

Its waits of 1, 2, 4 and 8 s are a hundredth of that here; everything else is as it was written.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import Holdfast, State
from holdfast.server.app import ROUTERS, create_app
from holdfast.server.serving.declare import declare_staff
from holdfast.server.serving.live import ServedSpec
from holdfast.server.serving.loading import Sources, load
from tests.server.servers import serving
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

SEED = Path(__file__).parents[2] / "spec" / "golden" / "seed.holdfast"
SECRET = "pagerduty's secret"
QUEUE = "WebhookIngress"

MODULE = """
import pathlib
HERE = pathlib.Path(__file__).parent

def register(hf):
    @hf.command("Incident.CreateIncident")
    def create_incident(title: str, severity: str, source: str, external_id: str):
        if (HERE / "broken").exists():
            raise RuntimeError("Command failed: guard rejected")
        with (HERE / "incidents").open("a") as file:
            file.write(f"{external_id} {severity} {source} {title}\\n")
        return {"incident": external_id}
"""


class Desk:
    """The app, received by a server and worked on when a test says so."""

    def __init__(self, folder: Path, url: str, changes: dict[str, str]) -> None:
        self.folder = folder
        text = SEED.read_text().replace("initial_backoff_ms: 1000", "initial_backoff_ms: 10")
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        (folder / "app.holdfast").write_text(text)
        (folder / "handlers.py").write_text(MODULE)
        self._url = url
        self.server = Holdfast(url, strict=True)
        self.hf = Holdfast(url)
        self._sources = Sources(str(folder / "app.holdfast"), str(folder / "handlers.py"))
        self.live = ServedSpec(self.server, self._sources, {"PAGERDUTY_WEBHOOK_SECRET": SECRET})
        self.base = ""

    def deliver(self, number: int, urgency: str = "high", **headers: str) -> httpx.Response:
        body = json.dumps({"incident": {"id": f"P{number}", "title": f"alert {number}", "urgency": urgency}}).encode()
        signature = "v1=" + hmac.digest(SECRET.encode(), body, "sha256").hex()
        sent = {"Content-Type": "application/json", "X-PagerDuty-Signature": signature, **headers}
        return httpx.post(f"{self.base}/hook/PagerDutyAlert", content=body, headers=sent, timeout=120)

    def admin(self, method: str, path: str) -> Any:
        answer = httpx.request(method, f"{self.base}/admin/queues{path}", timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextmanager
    def working(self) -> Iterator[None]:
        """As the consumers' process does."""
        with Holdfast(self._url, strict=True) as worker:
            declare_staff(worker, load(worker, self._sources, {"PAGERDUTY_WEBHOOK_SECRET": SECRET}))
            with worker.running():
                yield

    def break_it(self, broken: bool = True) -> None:
        (self.folder / "broken").touch() if broken else (self.folder / "broken").unlink()

    @property
    def incidents(self) -> list[str]:
        file = self.folder / "incidents"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def changes() -> dict[str, str]:
    return {}


@pytest.fixture
def desk(tmp_path: Path, url: str, changes: dict[str, str]) -> Iterator[Desk]:
    desk = Desk(tmp_path, url, changes)
    with serving(desk.server, create_app(desk.server, desk.live.hooks, routers=ROUTERS)) as server:
        desk.base = server.address
        yield desk
    desk.hf.close()
    desk.server.close()


def test_enqueue(desk: Desk) -> None:
    """A webhook's POST is 202, and the message is in the queue (criteria 1 and 2)."""
    answer = desk.deliver(1)
    assert answer.status_code == 202
    assert answer.json()["queued"] is True
    [message] = desk.hf.queues.peek(QUEUE)
    assert message.id == answer.json()["id"]
    assert message.body["payload"]["incident"]["title"] == "alert 1"
    assert set(message.body) == {"payload", "headers", "source_ip", "received_at"}


def test_dequeue(desk: Desk) -> None:
    """A worker gets the message, and its fields are mapped to the command's."""
    desk.deliver(1)
    desk.deliver(2, urgency="low")
    with desk.working():
        eventually(lambda: len(desk.incidents) == 2, "both are worked on")
    assert desk.incidents == ["P1 critical pagerduty alert 1", "P2 high pagerduty alert 2"]


def test_visibility_timeout(desk: Desk) -> None:
    """What one worker holds, no other one sees until its time is over."""
    desk.deliver(1)
    [claim] = desk.hf.claim(QUEUE, lease=60)
    assert desk.server.claim(QUEUE) == []
    claim.extend(0.1)  # From now.
    [again] = desk.server.claim(QUEUE, wait=60)
    assert (again.message.id, again.attempt) == (claim.message.id, 2)


def test_retry(desk: Desk) -> None:
    """A failure counts an attempt, and the message is visible again after 1, 2, 4, 8 (hundredths of a second)."""
    desk.break_it()
    id = desk.deliver(1).json()["id"]
    with desk.working():
        eventually(lambda: desk.hf.status(id).state == State.DEAD, "it is dead")  # type: ignore[union-attr]
    [letter] = desk.hf.dead_letters.list(QUEUE)
    failed = [failure.at_us for failure in letter.history]
    assert [failure.attempt for failure in letter.history] == [1, 2, 3, 4, 5]
    waits = [(late - early) / 1e6 for early, late in pairwise(failed)]
    for wait, planned in zip(waits, (0.01, 0.02, 0.04, 0.08), strict=True):
        assert wait >= planned * 0.9, "jitter takes a tenth at most"


def test_dlq(desk: Desk) -> None:
    """After the last attempt it is among the dead letters, with its error (criteria 3 and 4), and its queue is told."""
    desk.break_it()
    desk.deliver(1)
    with desk.working():
        eventually(lambda: desk.admin("GET", f"/{QUEUE}/dlq")["dead_letters"], "it is dead")
    [letter] = desk.admin("GET", f"/{QUEUE}/dlq")["dead_letters"]
    assert set(letter) == {"id", "failed_at", "error", "attempts", "preview"}
    assert letter["error"].endswith("Command failed: guard rejected")
    assert letter["attempts"] == 5
    assert letter["preview"]["payload"]["incident"]["title"] == "alert 1"
    [told] = desk.hf.queues.peek("WebhookDLQ")
    assert told.body["attempts"] == 5
    assert told.body["original_message"]["body"]["payload"]["incident"]["id"] == "P1"


@pytest.mark.parametrize(
    "changes", [{"queue: WebhookIngress ": "idempotency_key: payload.incident.id queue: WebhookIngress "}]
)
def test_idempotency(desk: Desk) -> None:
    """The same key twice: while it is queued 202 with the same id, afterwards 200 with the result (criterion 5)."""
    first = desk.deliver(1).json()
    again = desk.deliver(1)
    assert (again.status_code, again.json()["id"]) == (202, first["id"])
    with desk.working():
        eventually(lambda: desk.hf.status(first["id"]).state == State.SUCCEEDED, "it is done")  # type: ignore[union-attr]
    after = desk.deliver(1)
    assert (after.status_code, after.json()["id"], after.json()["result"]) == (200, first["id"], {"incident": "P1"})
    assert len(desk.incidents) == 1


def test_ordering(desk: Desk) -> None:
    """First in, first out, also behind one that is tried again."""
    ids = [desk.deliver(number).json()["id"] for number in range(20)]
    desk.break_it()
    with desk.working():
        eventually(lambda: desk.hf.status(ids[0]).attempts >= 2, "the first has failed")  # type: ignore[union-attr]
        desk.break_it(False)
        eventually(lambda: desk.hf.stats(QUEUE).queue_depth + desk.hf.stats(QUEUE).processing == 0, "all are through")
    numbers = [int(line.split()[0][1:]) for line in desk.incidents]
    dead = [letter.message.id for letter in desk.hf.dead_letters.list(QUEUE)]
    assert numbers == [number for number in range(20) if ids[number] not in dead], "some may have died meanwhile"
    assert dead == ids[: len(dead)], "the first ones"


@pytest.mark.parametrize("changes", [{"max_depth: 10000": "max_depth: 3"}])
def test_backpressure(desk: Desk) -> None:
    """At max_depth new deliveries are 503, with the time after which to try again."""
    assert [desk.deliver(number).status_code for number in range(5)] == [202, 202, 202, 503, 503]
    refused = desk.deliver(6)
    assert refused.json()["error"]["code"] == "queue_full"
    assert int(refused.headers["Retry-After"]) >= 1
    desk.hf.ack(desk.hf.claim(QUEUE))
    assert desk.deliver(7).status_code == 202


def test_replay(desk: Desk) -> None:
    """A dead letter replayed is a new message, and processed (criterion 7)."""
    desk.break_it()
    first = desk.deliver(1).json()["id"]
    with desk.working():
        eventually(lambda: desk.hf.status(first).state == State.DEAD, "it is dead")  # type: ignore[union-attr]
        desk.break_it(False)
        [letter] = desk.admin("GET", f"/{QUEUE}/dlq")["dead_letters"]
        answer = desk.admin("POST", f"/{QUEUE}/dlq/{letter['id']}/replay")
        assert answer["ok"] is True
        assert answer["new_message_id"] != first
        eventually(lambda: desk.incidents == ["P1 critical pagerduty alert 1"], "it is processed")
    assert desk.admin("DELETE", f"/{QUEUE}/dlq/{letter['id']}") == {"ok": True}


def test_queue_metrics(desk: Desk) -> None:
    """Depth and the other numbers by the admin API, with the names of the plan (criterion 6)."""
    for number in range(3):
        desk.deliver(number)
    desk.hf.claim(QUEUE)
    began = time.time()
    queues = {one["name"]: one for one in desk.admin("GET", "?tenant_id=default")["queues"]}
    ingress = queues[QUEUE]
    assert set(ingress) == {"name", "depth", "in_flight", "oldest_message_age_seconds", "messages_per_minute"}
    assert (ingress["depth"], ingress["in_flight"]) == (2, 1)
    assert 0 <= ingress["oldest_message_age_seconds"] <= time.time() - began + 60
