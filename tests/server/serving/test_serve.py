"""`holdfast serve`, with real processes: what it starts, what it does, how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import httpx
import pytest

from holdfast import Holdfast, State
from holdfast.server.tokens import new_token
from tests.acceptance.programs import GUARD
from tests.server.serving.conftest import Desk
from tests.waiting import eventually, leave_time

pytestmark = [pytest.mark.on_postgres, pytest.mark.above_the_stores]

Look = Callable[[], Holdfast]


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_a_delivery_becomes_a_message_and_a_command(desk: Desk, look: Look) -> None:
    server = desk.serve().ready()
    answer = server.deliver("Alerts", {"id": "a1", "title": "disk"})
    assert answer.status_code == 202
    assert answer.json() == {"queued": True, "id": answer.json()["id"], "idempotency_key": "a1"}
    eventually(lambda: desk.opened == ["disk"], "the command has run")
    status = look().status(answer.json()["id"])
    eventually(lambda: look().status(answer.json()["id"]).state == State.SUCCEEDED, "it is acked")  # type: ignore[union-attr]
    assert status is not None
    again = server.deliver("Alerts", {"id": "a1", "title": "disk"})
    assert (again.status_code, again.json()["result"]) == (200, {"opened": "disk"})
    assert desk.opened == ["disk"]


def test_a_webhook_without_a_queue_runs_its_command_at_once(desk: Desk) -> None:
    server = desk.serve().ready()
    assert server.deliver("Direct", {"title": "now"}).json()["result"] == {"opened": "now"}
    assert desk.opened == ["now"]
    refused = server.deliver("Direct", {"title": 7})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid")
    assert server.deliver("Direct", {"title": "impossible"}).status_code == 500
    assert server.deliver("Direct", {"title": "x"}, **{"X-Signature": "sha256=00"}).status_code == 401


def test_a_failure_is_tried_again_and_then_a_dead_letter_that_can_be_replayed(desk: Desk) -> None:
    server = desk.serve().ready()
    server.deliver("Alerts", {"id": "a1", "title": "impossible"})
    eventually(lambda: server.get("admin/queues/Tickets/dlq")["dead_letters"], "it is dead")
    [letter] = server.get("admin/queues/Tickets/dlq")["dead_letters"]
    assert letter["attempts"] == 2
    assert letter["error"].endswith("RuntimeError: this can never be done")
    url = f"{server.address}/admin/queues/Tickets/dlq/{letter['id']}/replay"
    replayed = httpx.post(url, json={"body": {**letter["preview"], "payload": {"title": "possible"}}}, timeout=GUARD)
    assert replayed.json()["ok"] is True
    eventually(lambda: desk.opened == ["possible"], "the mended one has run")


def test_it_says_what_it_started_and_where(desk: Desk) -> None:
    schedule = 'schedule nightly { queue: Graves cron: "0 3 * * *" }'
    chain = "queue Old { message_type { title: string } map_to: queue New { title: title } } queue New {}"
    topic = "topic orders { group email { map_to: command Ticket.Open { title: topic } } }"
    desk.write(" ".join([chain, topic, "webhook Shop { topic: orders }", schedule]))
    server = desk.serve().ready()
    assert f"POST {server.address}/hook/Alerts → queue Tickets" in server.said
    assert f"POST {server.address}/hook/Direct → command Ticket.Open" in server.said
    assert f"POST {server.address}/hook/Shop → topic orders, NOT SIGNED" in server.said
    assert "queue Tickets → command Ticket.Open" in server.said
    assert "queue Old → queue New" in server.said
    assert "topic orders → email" in server.said
    assert "group orders/email → command Ticket.Open" in server.said
    assert "schedule nightly (0 3 * * *) → queue Graves" in server.said
    assert "consumers in a process of their own" in server.said


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_sigterm_lets_everything_finish(desk: Desk) -> None:
    server = desk.serve().ready()
    server.deliver("Alerts", {"id": "a1", "title": "slow"})
    eventually(lambda: (desk.folder / "begun.txt").exists(), "the command has begun")
    server.send(signal.SIGTERM)
    eventually(lambda: _is_deaf(server.port), "nothing is accepted any more")
    leave_time(0.3)  # For whatever would cut the command off.
    assert len(server.consumers) == 1
    (desk.folder / "go.txt").touch()
    assert server.wait() == 0
    assert desk.opened == ["slow"]
    assert server.consumers == []


def test_a_second_signal_ends_it_now(desk: Desk) -> None:
    server = desk.serve().ready()
    server.deliver("Alerts", {"id": "a1", "title": "slow"})
    eventually(lambda: (desk.folder / "begun.txt").exists(), "the command has begun")
    server.send(signal.SIGTERM)
    eventually(lambda: _is_deaf(server.port), "nothing is accepted any more")
    server.send(signal.SIGINT)  # Two of a kind might come together, and be one.
    server.wait()
    assert desk.opened == []
    eventually(lambda: server.consumers == [], "the consumers are gone")


def test_consumers_do_not_outlive_a_killed_server(desk: Desk) -> None:
    server = desk.serve().ready()
    assert len(server.consumers) == 1
    server.send(signal.SIGKILL)
    server.wait()
    eventually(lambda: server.consumers == [], "the consumers are gone")


def test_consumers_that_are_killed_are_started_again(desk: Desk) -> None:
    server = desk.serve().ready()
    [before] = server.consumers
    os.kill(before, signal.SIGKILL)
    server.hears("the consumers' process ended with -9; starting another one")
    server.hears("consumers run in process", times=2)
    assert server.consumers != [before]
    server.deliver("Alerts", {"id": "a1", "title": "after"})
    eventually(lambda: desk.opened == ["after"], "the new one works")


# --- what it refuses --------------------------------------------------------------------------------------------------


def test_a_secret_that_is_not_there_is_refused(desk: Desk) -> None:
    server = desk.serve(HOOK_SECRET="")
    assert server.wait() == 1
    assert "HOOK_SECRET" in server.said


def test_a_command_that_is_not_there_is_refused(desk: Desk) -> None:
    (desk.folder / "handlers.py").write_text("def register(hf): pass")
    server = desk.serve()
    assert server.wait() == 1
    assert "there is no command 'Ticket.Open'" in server.said
    assert "app.holdfast:6:" in server.said


def test_a_spec_with_mistakes_is_refused_with_all_of_them(desk: Desk) -> None:
    desk.write("queue A { delivery { max_attempts: 0 } } queue B { delivery { dead_letter_queue: Nowhere } }")
    server = desk.serve()
    assert server.wait() == 1
    assert "max_attempts" in server.said
    assert "there is no queue 'Nowhere'" in server.said


def test_an_open_admin_api_is_for_this_machine_only(desk: Desk) -> None:
    server = desk.serve("--host", "0.0.0.0")
    assert server.wait() == 1
    assert "holdfast token" in server.said


def test_tokens_may_come_from_the_environment(desk: Desk) -> None:
    text, token = new_token("anna", "read")
    server = desk.serve("--no-consumers", "--tokens-env", "WHO", WHO=f"# nobody;{token.line()}").ready()
    url, headers = f"{server.address}/admin/queues", {"Authorization": f"Bearer {text}"}
    assert httpx.get(url, timeout=GUARD).status_code == 401
    assert httpx.get(url, headers=headers, timeout=GUARD).status_code == 200


def test_what_would_lose_messages_is_refused_until_someone_agrees(desk: Desk, look: Look) -> None:
    look().enqueue("Old", 1)
    desk.write("queue Old { retention { max_age: 1ms }, delivery { max_attempts: 2 } }")
    server = desk.serve()
    assert server.wait() == 1
    assert "messages that have waited for longer expire" in server.said
    assert "run: holdfast serve app.holdfast --db" in server.said
    assert "--accept-loss" in server.said
    desk.serve("--accept-loss").ready()
    assert look().queues.settings("Old")["max_age"] == 0.001


def test_less_of_what_removes_nothing_is_served(desk: Desk, look: Look) -> None:
    look().enqueue("Old", 1)
    desk.write("queue Old { retention { max_depth: 1 }, delivery { max_attempts: 2 }, limits { concurrency: 1 } }")
    desk.serve().ready()
    assert look().stats("Old").pending == 1


def _is_deaf(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/health", timeout=GUARD)
    except httpx.ConnectError:
        return True
    except httpx.TransportError:  # It hung up, or was slow.
        pass
    return False
