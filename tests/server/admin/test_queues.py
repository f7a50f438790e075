"""Queues over HTTP, with the fields of the seed by name."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.server.admin.conftest import Ask
from tests.steps import kill

pytestmark = pytest.mark.above_the_stores


def test_queues_have_the_fields_of_the_seed(hf: Holdfast, ask: Ask, clock: FakeClock) -> None:
    hf.queue("WebhookIngress")
    hf.enqueue_many("WebhookIngress", range(45))
    hf.ack(hf.claim("WebhookIngress", n=5))
    hf.claim("WebhookIngress", n=3)
    clock.advance(20)
    assert ask("GET", "/admin/queues") == {
        "queues": [
            {
                "name": "WebhookIngress",
                "depth": 37,
                "in_flight": 3,
                "oldest_message_age_seconds": 20,
                "messages_per_minute": 5,
            }
        ]
    }


def test_settings_can_be_read(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q", lease="2m", rate="5/m", backoff=[60, 300])
    found = ask("GET", "/admin/queues/q/settings")["settings"]
    assert (found["lease"], found["max_depth"], found["backoff"]["steps"]) == (120.0, None, [60.0, 300.0])
    assert found.keys() == hf.queues.settings("q").keys()
    hf.topic("t", max_depth=7)
    assert ask("GET", "/admin/queues/t/settings")["settings"]["max_depth"] == 7
    ask("GET", "/admin/queues/nobody/settings", 404)


def test_a_tenant_sees_its_own(hf: Holdfast, ask: Ask) -> None:
    hf.queue("ours")
    other = hf.acting_as(tenant="acme")
    other.queue("theirs")
    assert [one["name"] for one in ask("GET", "/admin/queues?tenant_id=acme")["queues"]] == ["theirs"]
    assert [one["name"] for one in ask("GET", "/admin/queues?tenant_id=default")["queues"]] == ["ours"]
    assert ask("GET", "/admin/queues?tenant_id=nobody") == {"queues": []}
    ask("GET", "/admin/queues/ours?tenant_id=acme", 404)


def test_a_look_makes_no_queue(hf: Holdfast, ask: Ask) -> None:
    for name in ("nobody", "%20", "a%0Ab", "%C2%85", "x" * 200):
        assert "error" in ask("GET", f"/admin/queues/{name}", 404 if name not in ("a%0Ab",) else 422)
        ask("POST", f"/admin/queues/{name}/pause", 404 if name not in ("a%0Ab",) else 422)
    assert hf.queues.list() == []


def test_pausing_stops_the_handing_out_and_is_in_the_audit(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    hf.enqueue("q", 1)
    assert ask("POST", "/admin/queues/q/pause") == {"ok": True}
    assert hf.claim("q") == []
    assert ask("GET", "/admin/queues/q")["paused"] is True
    ask("POST", "/admin/queues/q/resume")
    assert len(hf.claim("q")) == 1
    acts = [(one["actor"], one["act"], one["queue"]) for one in ask("GET", "/admin/audit")["audit"]]
    assert acts == [("local", "resume", "q"), ("local", "pause", "q")]


def test_a_purge_says_how_many(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    hf.enqueue_many("q", range(7))
    assert ask("POST", "/admin/queues/q/purge") == {"ok": True, "count": 7}
    assert ask("GET", "/admin/queues/q")["depth"] == 0


def test_peeking_shows_what_is_next(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    hf.enqueue("q", {"n": 1}, headers={"who": "me"}, key="k")
    hf.enqueue("q", "first", priority="urgent")
    first, second = ask("GET", "/admin/queues/q/messages")["messages"]
    assert (first["body"], first["priority"]) == ("first", 0)
    assert (second["body"], second["headers"], second["key"]) == ({"n": 1}, {"who": "me"}, "k")
    assert len(ask("GET", "/admin/queues/q/messages?n=1")["messages"]) == 1


def test_a_blocked_key_goes_on(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q", ordering="per_key", on_dead="block")
    dead = kill(hf, key="k")
    hf.enqueue("q", "behind", key="k")
    [blocked] = ask("GET", "/admin/queues/q/blocked")["blocked_keys"]
    assert (blocked["key"], blocked["dead_id"], blocked["waiting"]) == ("k", dead, 1)
    assert ask("POST", "/admin/queues/q/unblock", json={"key": "k"}) == {"ok": True}
    assert ask("POST", "/admin/queues/q/unblock", json={"key": "k"}) == {"ok": False}
    assert len(hf.claim("q")) == 1


def test_a_wrong_method_is_told_the_right_ones(app: FastAPI) -> None:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.patch("/admin/schedules/tick")

    answer = asyncio.run(send())
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")


def test_pages_of_queues(hf: Holdfast, ask: Ask) -> None:
    for name in "abc":
        hf.queue(name)
    assert [one["name"] for one in ask("GET", "/admin/queues?n=1&after=a")["queues"]] == ["b"]


def test_a_store_that_is_away_is_503_with_a_time(app: FastAPI, ask: Ask) -> None:
    app.state.auth.tenants.hf = Holdfast("postgresql://nowhere@127.0.0.1:1/x", strict=True, patience=0.1)
    answer = ask("GET", "/admin/queues", 503)
    assert answer["error"]["code"] == "store_unavailable"
    assert "nowhere" not in answer["error"]["message"]
