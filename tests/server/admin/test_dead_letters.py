"""Dead letters over HTTP, with the fields of the seed by name."""

import threading
from typing import Any

import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.dead_letters.admin import bulk_work
from tests.clock import FakeClock
from tests.server.admin.conftest import Ask
from tests.steps import kill

pytestmark = pytest.mark.above_the_stores

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
START = 1767225600


@pytest.fixture
def dead(hf: Holdfast) -> str:
    hf.queue("q", max_attempts=2, backoff=None)
    hf.enqueue("q", {"payload": {"incident": {"title": "x" * 1_000}}}, headers={"h": 1}, key="k")
    for error in ("timeout", "Command failed: guard rejected"):
        hf.nack(hf.claim("q"), error)
    [letter] = hf.dead_letters.list()
    return letter.id


def test_they_have_the_fields_of_the_seed(dead: str, ask: Ask) -> None:
    assert ask("GET", "/admin/queues/q/dlq") == {
        "dead_letters": [
            {
                "id": dead,
                "failed_at": START,
                "error": "Command failed: guard rejected",
                "attempts": 2,
                "preview": {"payload": {"incident": {"title": "x" * 200 + "…"}}},
            }
        ]
    }


def test_a_replay_is_a_new_message_once(hf: Holdfast, dead: str, ask: Ask) -> None:
    answer = ask("POST", f"/admin/queues/q/dlq/{dead}/replay")
    assert answer == {"ok": True, "new_message_id": answer["new_message_id"]}
    [claim] = hf.claim("q")
    assert claim.message.id == answer["new_message_id"] != dead
    assert ask("POST", f"/admin/queues/q/dlq/{dead}/replay", 409)["error"]["code"] == "already_replayed"


def test_another_body_has_to_fit_the_message_type(hf: Holdfast, dead: str, ask: Ask) -> None:
    hf.queue("q", message_type=dict[str, int])
    answer = ask("POST", f"/admin/queues/q/dlq/{dead}/replay", 422, json={"body": {"n": "one"}})
    assert "`$[...]`" in answer["error"]["message"]
    ask("POST", f"/admin/queues/q/dlq/{dead}/replay", json={"body": {"n": 1}})


def test_a_replay_may_have_another_body(hf: Holdfast, dead: str, ask: Ask) -> None:
    ask("POST", f"/admin/queues/q/dlq/{dead}/replay", json={"body": None})
    assert [claim.message.body for claim in hf.claim("q")] == [None]


def test_deleting_answers_ok_and_then_404(hf: Holdfast, dead: str, ask: Ask) -> None:
    assert ask("DELETE", f"/admin/queues/q/dlq/{dead}") == {"ok": True}
    assert hf.dead_letters.list() == []
    ask("DELETE", f"/admin/queues/q/dlq/{dead}", 404)
    assert ask("GET", "/admin/audit")["audit"][0]["act"] == "delete"


def test_looking_into_one_shows_its_history(dead: str, ask: Ask) -> None:
    for path in (f"/admin/queues/q/dlq/{dead}", f"/admin/dlq/{dead}"):
        letter = ask("GET", path)
        assert [one["error"] for one in letter["history"]] == ["timeout", "Command failed: guard rejected"]
        assert len(letter["message"]["body"]["payload"]["incident"]["title"]) == 1_000
        assert (letter["message"]["headers"], letter["message"]["key"], letter["queue"]) == ({"h": 1}, "k", "q")


def test_what_is_not_there_is_404(hf: Holdfast, dead: str, ask: Ask) -> None:
    hf.queue("other")
    for path in (
        f"/admin/queues/other/dlq/{dead}",
        f"/admin/queues/q/dlq/{NOBODY}",
        "/admin/queues/q/dlq/what",
        f"/admin/dlq/{NOBODY}",
        "/admin/queues/nobody/dlq",
    ):
        assert "error" in ask("GET", path, 404)
    ask("POST", f"/admin/queues/other/dlq/{dead}/replay", 404)
    ask("DELETE", f"/admin/queues/other/dlq/{dead}", 404)
    ask("POST", "/admin/queues/nobody/dlq/replay", 404, json={})


def test_they_are_filtered_and_paged(hf: Holdfast, ask: Ask, clock: FakeClock) -> None:
    hf.queue("q")
    ids = []
    for number in range(5):
        ids.append(kill(hf, number, key=f"k{number % 2}"))
        clock.advance(10)

    def listed(query: str) -> list[int]:
        return [ids.index(one["id"]) for one in ask("GET", f"/admin/queues/q/dlq?{query}")["dead_letters"]]

    assert listed("n=2") == [0, 1]
    assert listed(f"n=2&after={ids[1]}") == [2, 3]
    assert listed("key=k1") == [1, 3]
    assert listed("error=boom") == [0, 1, 2, 3, 4]
    assert listed("error=other") == []
    assert listed(f"since={START + 20}&before={START + 40}") == [2, 3]
    assert ask("GET", "/admin/dlq/count?key=k1")["count"] == 2
    assert [one["queue"] for one in ask("GET", "/admin/dlq?n=1&queue=q")["dead_letters"]] == ["q"]


def test_many_are_replayed_at_a_rate(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    for number in range(4):
        kill(hf, number, key="even" if number % 2 == 0 else "odd")
    answer = ask("POST", "/admin/queues/q/dlq/replay", json={"key": "even", "rate": 1_000})
    assert answer == {"ok": True, "done": True, "count": 2, "matching": 2}
    assert sorted(claim.message.body for claim in hf.claim("q", n=9)) == [0, 2]
    assert ask("POST", "/admin/dlq/replay", json={"queue": "q"})["count"] == 2
    assert ask("POST", "/admin/queues/q/dlq/purge", json={"key": "odd"})["count"] == 2
    assert ask("POST", "/admin/dlq/purge", json={})["count"] == 2
    assert [(one["act"], one["count"]) for one in ask("GET", "/admin/audit")["audit"]] == [
        ("delete", 2),
        ("delete", 2),
        ("replay", 2),
        ("replay", 2),
    ]


def test_what_takes_long_goes_on_without_the_request(
    app: FastAPI, hf: Holdfast, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_work, "PATIENCE", 0.05)
    hf.queue("q")
    for number in range(20):
        kill(hf, number)
    answer = ask("POST", "/admin/queues/q/dlq/replay", 202, json={"rate": 1})
    assert answer["done"] is False
    app.state.stopping.set()
    threads = [one for one in threading.enumerate() if one.name == "holdfast-bulk"]
    for thread in threads:
        thread.join(60)
    assert 1 <= hf.audit.list()[0].count < 20, "it ended with the page that it was at"


def test_only_so_many_go_on_at_once(app: FastAPI, ask: Ask, hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_work, "PATIENCE", 0)
    hf.queue("q")
    go = threading.Event()
    works: list[Any] = []
    for _ in range(bulk_work.MOST_AT_ONCE):
        works.append(bulk_work.bulk_acts(app).start(lambda progress: go.wait(60) and 0))
    assert ask("POST", "/admin/dlq/replay", 429, json={})["error"]["code"] == "too_many"
    go.set()
    for work in works:
        assert work.over.wait(60)
    monkeypatch.setattr(bulk_work, "PATIENCE", 60)
    ask("POST", "/admin/dlq/replay", 200, json={})


@pytest.mark.parametrize("body", [{"rate": 0}, {"rate": "5"}, {"since": True}, {"what": 1}, [], "x"])
def test_a_choice_that_does_not_fit_is_refused(hf: Holdfast, ask: Ask, body: Any) -> None:
    hf.queue("q")
    assert ask("POST", "/admin/queues/q/dlq/replay", 422, json=body)["error"]["faults"]


@pytest.mark.parametrize("query", ["queu=q", "=q", "queue=q&m=1"])
def test_a_parameter_that_does_not_exist_is_refused(dead: str, ask: Ask, query: str) -> None:
    """Misspelt, it would filter nothing, and more would be replayed or purged than was meant."""
    problem = ask("GET", f"/admin/dlq?{query}", 422)["error"]["message"]
    assert "there is no parameter" in problem
    assert "there are after, " in problem
    assert "tenant_id" in problem
