"""The stream of events, from a real server to a real socket."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.server import events_stream
from tests.steps import kill
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url, strict=True, actor="server", sweep_every=0) as client:
        client.queue("q")
        client.queue("other")
        yield client


@pytest.fixture
def server(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(events_stream, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(events_stream, "NAP", 0.01)
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=running.run)
    thread.start()
    eventually(lambda: running.started)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    app.state.stopping.set()
    running.should_exit = True
    thread.join(30)
    assert not thread.is_alive(), "open streams end with the server"


class Stream:
    """A reader."""

    def __init__(self, server: str, last_id: str | None = None, query: str = "") -> None:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        self.http = httpx.Client(timeout=120)
        self.answer = self.http.send(
            self.http.build_request("GET", f"{server}/admin/events{query}", headers=headers), stream=True
        )
        self.lines = self.answer.iter_lines()

    def __enter__(self) -> Stream:
        assert self.answer.status_code == 200, self.answer.read()
        assert self.answer.headers["content-type"].startswith("text/event-stream")
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self.http.close()

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for line in self.lines:
            name, _, value = line.partition(": ")
            if name in ("id", "event"):
                found[name] = value
            elif name == "data":
                return {**found, **json.loads(value)}
        raise AssertionError("the stream ended")


def test_what_happens_is_told(hf: Holdfast, server: str) -> None:
    hf.queues.pause("other")
    with Stream(server) as stream:
        dead = kill(hf)
        death = stream.next()
        assert (death["event"], death["dead_id"], death["queue"], death["error"]) == ("death", dead, "q", "boom")
        hf.acting_as("anna").dead_letters.replay(dead)
        act = stream.next()
        assert (act["event"], act["actor"], act["act"], act["about"]) == ("act", "anna", "replay", {"id": dead})
        hf.notices.report("crash_loop", "pool", "crashed")
        report = stream.next()
        assert (report["event"], report["kind"], report["about"]) == ("report", "crash_loop", "pool")


def test_a_reader_that_comes_back_misses_nothing(hf: Holdfast, server: str) -> None:
    with Stream(server) as stream:
        kill(hf, 0)
        last = stream.next()["id"]
    missed = [kill(hf, number) for number in range(1, 4)]
    with Stream(server, last) as stream:
        seen = [stream.next() for _ in range(3)]
    assert [one["dead_id"] for one in seen] == missed


def test_what_comes_late_is_not_left_out(hf: Holdfast, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that began before others and ended after them."""
    reading = events_stream.EventReader(hf, None)
    reading.look()
    hf.queues.pause("q")
    first = reading.look()
    slow = events_stream.StreamedEvent(first[0].place - 5_000_000, "a0", "act", 0, {})
    really = events_stream._acts
    monkeypatch.setattr(events_stream, "_acts", lambda *given: really(*given) + deque([slow]))
    assert reading.look() == [slow]
    assert reading.look() == []


def test_what_is_too_much_for_one_look_comes_with_the_next(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, in order, and from wherever a reader comes back."""
    monkeypatch.setattr(events_stream, "PAGE", 3)
    monkeypatch.setattr(events_stream, "MOST_PAGES", 2)
    reading = events_stream.EventReader(hf, None)
    assert reading.look() == []
    dead = []
    for number in range(20):
        dead.append(kill(hf, number))
        hf.queues.pause("other")
        hf.queues.resume("other")
    seen = list(everything(reading))
    assert sorted(event.data["dead_id"] for event in seen if event.kind == "death") == sorted(dead)
    assert [event.data["act"] for event in seen if event.kind == "act"] == ["pause", "resume"] * 20
    assert [event.place for event in seen] == sorted(event.place for event in seen)
    for last in range(0, 60, 7):
        again = {event.id for event in everything(events_stream.EventReader(hf, seen[last].id))}
        assert {event.id for event in seen[last + 1 :]} <= again


def test_a_new_reader_knows_all_that_was_before_it(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_stream, "PAGE", 2)
    monkeypatch.setattr(events_stream, "MOST_PAGES", 1)
    for number in range(9):
        kill(hf, number)
        hf.queues.pause("other")
    reading = events_stream.EventReader(hf, None)
    assert list(everything(reading)) == []
    hf.queues.resume("other")
    assert [event.data["act"] for event in everything(reading)] == ["resume"]


def everything(reading: events_stream.EventReader) -> Iterator[events_stream.StreamedEvent]:
    """All that there is, in as many looks as it takes and one without anything."""
    looks = 0
    while looks < 3:
        found = reading.look()
        assert len(found) <= 2 * events_stream.MOST_PAGES * events_stream.PAGE
        looks = 0 if found else looks + 1
        yield from found


def test_only_of_one_queue(hf: Holdfast, server: str) -> None:
    with Stream(server, query="?queue=q") as stream:
        hf.queues.pause("other")
        hf.queues.pause("q")
        assert stream.next()["queue"] == "q"


def test_a_heartbeat_tells_that_it_lives(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_stream, "HEARTBEAT", 0.05)
    with Stream(server) as stream:
        assert ": alive" in (next(stream.lines) for _ in range(20))


def test_a_reader_that_hangs_up_leaves_nothing(app: FastAPI, server: str) -> None:
    opened = [Stream(server) for _ in range(5)]
    eventually(lambda: app.state.streams.open == 5)
    for stream in opened:
        stream.answer.close()
        stream.http.close()
    eventually(lambda: app.state.streams.open == 0)


def test_there_are_so_many_at_most(app: FastAPI, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_stream, "MOST_STREAMS", 1)
    with Stream(server):
        answer = httpx.get(f"{server}/admin/events", timeout=120)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    eventually(lambda: app.state.streams.open == 0)
    with Stream(server):
        pass


def test_a_strange_last_id_is_refused(server: str) -> None:
    for last in ("what", "9" * 30, "-1"):
        answer = httpx.get(f"{server}/admin/events", headers={"Last-Event-ID": last}, timeout=120)
        assert answer.status_code == 422
