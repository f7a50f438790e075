"""`holdfast send`, and the commands of nouns such as `queues` and `dead-letters`, as an operator types them."""

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Step
from holdfast.budgets import spend_reports
from holdfast.client.client import internals
from holdfast.core.stats import METRICS
from tests.cli.commands import command, environment, holdfast, values


def kill(db: str, count: int = 1, error: str = "boom") -> list[str]:
    with Holdfast(db, worker="w") as hf:
        hf.enqueue_many("emails", [{"n": number} for number in range(count)])
        hf.dead_letter(hf.claim("emails", n=count), error)
        return [letter.id for letter in hf.dead_letters.list("emails")][-count:]


def test_what_was_sent_can_be_seen(run: Any, db: str) -> None:
    [line] = run("send", "emails", '{"to": "ada"}', "--priority", "high", "--key", "k", "--reply-to", "answers")
    message_id = line.split()[0]
    [message] = values(run("queues", "peek", "emails", "--json"))
    assert (message["id"], message["body"], message["priority"]) == (message_id, {"to": "ada"}, 1)
    assert (message["key"], message["reply_to"]) == ("k", "answers")
    assert any(message_id in row and '{"to":"ada"}' in row for row in run("queues", "peek", "emails"))


def test_what_is_no_json_is_sent_as_text(run: Any) -> None:
    run("send", "emails", "hello you")
    run("send", "emails", "7")
    assert [message["body"] for message in values(run("queues", "peek", "emails", "--json"))] == ["hello you", 7]


def test_a_body_has_to_fit_the_message_type(run: Any, db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.queue("emails", message_type=dict[str, int])
    answer = holdfast("send", "emails", '{"n": "one"}', "--db", db, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "does not fit the message type of 'emails': Expected `int`, got `str`" in answer.stderr
    run("send", "emails", '{"n": 1}')
    assert [message["body"] for message in values(run("queues", "peek", "emails", "--json"))] == [{"n": 1}]


def test_a_key_is_sent_once(run: Any) -> None:
    [first] = values(run("send", "emails", "1", "--idempotency-key", "k", "--json"))
    [second] = values(run("send", "emails", "1", "--idempotency-key", "k", "--json"))
    assert (first["duplicate"], second) == (False, {"id": first["id"], "duplicate": True})


def test_a_file_is_sent_line_by_line(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(f'{{"n": {number}}}\n' for number in range(2_500)) + "\n")
    assert run("send", "emails", "--lines", str(file)) == ["2,500 messages are in 'emails'"]
    [queue] = values(run("queues", "list", "--json"))
    assert {name: queue[name] for name in ("queue", "pending", "waiting", "state")} == {
        "queue": "emails",
        "pending": 2500,
        "waiting": 0,
        "state": "open",
    }
    assert set(METRICS) <= set(queue)
    assert queue["queue_depth"] == 2500


def test_standard_input_is_a_file_too(db: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        command("send", "emails", "--lines", "-", "--db", db),
        input=b"1\n2\n",
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
    )
    assert (answer.returncode, answer.stdout) == (0, b"2 messages are in 'emails'\n")


def test_queues_of_nobody(run: Any) -> None:
    assert run("queues", "list") == ["The tenant 'default' has no queues yet: holdfast send QUEUE BODY makes one."]


def test_settings_are_shown(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.queue("orders", lease="2m", max_depth=7)
    [found] = values(run("queues", "settings", "orders", "--json"))
    assert (found["lease"], found["max_depth"], found["max_attempts"]) == (120.0, 7, 5)
    assert any("max_depth" in line and "7" in line for line in run("queues", "settings", "orders"))


def test_a_paused_queue_says_so_and_tenants_are_apart(run: Any, db: str) -> None:
    with Holdfast(db, tenant="acme") as hf:
        hf.enqueue("orders", 1)
        hf.queues.pause("orders")
    assert any("orders" in line and "paused" in line for line in run("queues", "list", "--tenant", "acme"))
    assert values(run("queues", "list", "--json")) == []


def test_dead_letters_are_listed_and_shown(run: Any, db: str) -> None:
    assert run("dead-letters", "list") == ["No dead letters."]
    first, second = kill(db, 2, "Traceback (most recent call last):\n  …\nValueError: no such user")
    listing = run("dead-letters", "list", "-n", "1")
    assert any(first in line and "ValueError: no such user" in line for line in listing)
    assert listing[-1] == "1 of 2"
    assert [letter["id"] for letter in values(run("dead-letters", "list", "--after", first, "--json"))] == [second]
    assert values(run("dead-letters", "list", "--error", "timeout", "--json")) == []
    shown = json.loads("\n".join(run("dead-letters", "show", second)))
    assert (shown["message"]["body"], shown["history"][0]["worker"]) == ({"n": 1}, "w")
    assert shown["error"] == "ValueError: no such user"
    assert shown["traceback"].startswith("Traceback")


def test_one_is_mended_and_replayed(run: Any, db: str) -> None:
    [dead] = kill(db)
    [line] = run("dead-letters", "replay", dead, "--body", '{"n": "mended"}')
    assert line.startswith("replayed as ")
    assert [message["body"] for message in values(run("queues", "peek", "emails", "--json"))] == [{"n": "mended"}]


def test_many_are_replayed_and_deleted_and_someone_did_it(run: Any, db: str) -> None:
    kill(db, 150)
    assert run("dead-letters", "replay", "--queue", "emails", "--yes") == ["150 replayed"]
    assert run("dead-letters", "replay", "--queue", "emails", "--yes") == ["No such dead letters."]
    assert run("dead-letters", "delete", "--error", "boom", "--since", "2020-01-01", "--yes") == ["150 deleted"]
    lines = values(run("audit", "list", "--json"))
    assert [(line["act"], line["count"]) for line in lines] == [("delete", 150), ("replay", 150)]
    assert any("150" in line and "delete" in line for line in run("audit", "list"))


def test_without_a_yes_nothing_happens(db: str, tmp_path: Path) -> None:
    kill(db)
    for act in (["delete"], ["replay", "--queue", "emails"]):
        answer = holdfast("dead-letters", *act, "--db", db, folder=tmp_path)
        assert answer.returncode != 0
        assert "1 dead letters" in answer.stdout + answer.stderr
    with Holdfast(db) as hf:
        assert hf.dead_letters.count(fresh=True) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["send", "emails"],
        ["send", "emails", "1", "--lines", "-"],
        ["send", "emails", "--lines", "-", "--idempotency-key", "k"],
        ["dead-letters", "replay"],
        ["dead-letters", "replay", "01890a5d-ac96-774b-bcce-b302099a8057", "--queue", "q"],
    ],
)
def test_a_wrong_call_says_what_is_right(db: str, tmp_path: Path, wrong: list[str]) -> None:
    answer = holdfast(*wrong, "--db", db, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "Error: " in answer.stderr


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (["queues", "peek", "nowhere"], "was never declared"),
        (["dead-letters", "show", "01890a5d-ac96-774b-bcce-b302099a8057"], "there is no dead letter"),
        (["dead-letters", "replay", "nonsense"], "is not a message id"),
        (["send", "emails", "1", "--delay", "soon"], "is not a duration"),
        (["send", "a/b", "1"], "may not hold slashes"),
    ],
)
def test_an_error_is_one_line(db: str, tmp_path: Path, wrong: list[str], text: str) -> None:
    answer = holdfast(*wrong, "--db", db, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("holdfast: ")
    assert text in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_notices_are_listed_and_acknowledged(run: Any, db: str) -> None:
    assert run("notices", "list") == ["Nothing waits for an answer."]
    with Holdfast(db) as hf:
        hf.owner("mia", owner="boss")
        hf.queue("emails", owner="mia")
    kill(db, 2)
    first, second = values(run("notices", "list", "--json"))
    assert (first["queue"], first["owner"], first["level"]) == ("emails", "mia", 0)
    assert any(first["id"] in line and "mia" in line for line in run("notices", "list", "--owner", "mia", "-n", "1"))
    assert run("notices", "list", "--owner", "boss") == ["Nothing waits for an answer."]
    assert run("notices", "acknowledge", first["id"], "--remark", "on it") == ["1 of 1 acknowledged."]
    assert run("notices", "acknowledge", first["id"], second["id"]) == ["1 of 2 acknowledged."]
    assert [line["remark"] for line in values(run("notices", "list", "--all", "--json"))] == ["on it", None]


def test_reports_are_listed_with_their_kind_and_what_they_are_about(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        for _ in range(3):
            hf.notices.report("crash_loop", "mailers", "gave up after 5 crashes", owner="mia")
    (line,) = [line for line in run("notices", "list") if "crash_loop" in line]
    assert [word in line.split() for word in ("mailers", "mia", "2")] == [True] * 3
    (value,) = values(run("notices", "list", "--json"))
    assert (value["kind"], value["about"], value["repeats"], value["dead_id"]) == ("crash_loop", "mailers", 2, None)


def test_maintenance_by_hand(run: Any, db: str) -> None:
    assert run("maintain") == ["Nothing to do."]
    with Holdfast(db) as hf:
        hf.queue("old", max_age=0.000001)
        hf.enqueue_many("old", range(250))
    assert run("maintain") == ["250 thing(s) done."]
    assert run("maintain") == ["Nothing to do."]


def test_sagas_are_listed_shown_and_decided_about(run: Any, db: str) -> None:
    assert run("sagas", "list") == ["No sagas."]
    with Holdfast(db) as hf:
        hf.saga("trip", steps=[Step("flight", "flights", undo="cancels"), Step("hotel", "hotels")])
        for saga_id in ("rome", "oslo"):
            hf.start_saga("trip", id=saga_id)
            [claim] = hf.claim("flights")
            claim.ack("12A")
        [claim] = hf.claim("hotels")
        claim.dead_letter("full")
        [claim] = hf.claim("cancels")
        claim.dead_letter("gone")

        [stuck] = values(run("sagas", "list", "--status", "compensation_failed", "--json"))
        assert (stuck["id"], stuck["error"]) == ("rome", "flight could not be undone: gone")
        assert any("oslo" in line and "in_progress" in line and "hotel" in line for line in run("sagas", "list"))
        shown = run("sagas", "show", "rome")
        assert shown[0] == "rome: trip, version 1, compensation_failed"
        assert any("undo failed" in line for line in shown)
        assert any("completed" in line and "12A" in line for line in shown)
        assert any("attempt_failed" in line and "full" in line for line in shown)
        [as_json] = values(run("sagas", "show", "rome", "--json"))
        assert (as_json["id"], as_json["timeline"][0]["what"]) == ("rome", "started")
        assert run("sagas", "retry", "rome", "flight") == ["flight of rome is tried again."]
        assert run("sagas", "retry", "rome", "flight") == ["There is nothing to decide about it."]
        assert run("sagas", "skip", "rome", "flight", "--reason", "we pay") == ["rome goes on without flight."]
        assert run("sagas", "done", "oslo", "hotel") == ["hotel of oslo is done."]
        assert run("sagas", "cancel", "oslo") == ["oslo had turned round, or ended, before."]
        assert [saga.status for saga in hf.sagas.list()] == ["failed", "completed"]
        rome = hf.sagas.get("rome")
        assert rome is not None
        assert [line.error for line in rome.timeline if line.what == "skipped"] == ["we pay"]


def test_sagas_are_listed_by_name_and_page_by_page_and_cancelled(run: Any, db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.saga("trip", steps=[Step("flight", "flights")])
        for saga_id in ("rome", "oslo", "bonn"):
            hf.start_saga("trip", id=saga_id)
        assert run("sagas", "list", "--name", "cruise") == ["No sagas."]
        assert [saga["id"] for saga in values(run("sagas", "list", "--after", "rome", "-n", "1", "--json"))] == ["oslo"]
        assert run("sagas", "cancel", "oslo", "--reason", "ill") == ["oslo is canceled."]
        assert [(saga.id, saga.error) for saga in hf.sagas.list("canceled")] == [("oslo", "ill")]
    for refused in (["show", "lima"], ["list", "--after", "lima"], ["skip", "rome", "flight"]):
        answer = holdfast("sagas", *refused, folder=tmp_path, HOLDFAST_DB=db)
        assert (answer.returncode != 0, answer.stdout) == (True, "")


def test_schedules_are_listed_stopped_run_and_removed(run: Any, db: str, tmp_path: Path) -> None:
    assert run("schedules", "list") == ["No schedules."]
    with Holdfast(db) as hf:
        hf.schedule("report", queue="reports", body={"a": 1}, cron="0 9 * * *", tz="Europe/Berlin")
        hf.schedule("tidy", queue="chores", every="5m")
    report, tidy = values(run("schedules", "list", "--json"))
    assert (report["name"], report["cron"], report["tz"], report["body"]) == (
        "report",
        "0 9 * * *",
        "Europe/Berlin",
        {"a": 1},
    )
    assert (tidy["every"], tidy["queue"], tidy["paused"]) == (300.0, "chores", False)
    table = run("schedules", "list")
    assert any("0 9 * * * (Europe/Berlin)" in line for line in table)
    assert any("every 300 s" in line for line in table)
    assert run("schedules", "pause", "tidy") == ["tidy is paused."]
    assert any("tidy" in line and "paused" in line for line in run("schedules", "list"))
    assert run("schedules", "resume", "tidy") == ["tidy goes on."]
    [message_id] = run("schedules", "run", "report")
    [again] = values(run("schedules", "run", "report", "--json"))
    assert [message["id"] for message in values(run("queues", "peek", "reports", "--json"))] == [
        message_id,
        again["id"],
    ]
    assert run("schedules", "remove", "tidy") == ["tidy is removed."]
    assert run("schedules", "remove", "tidy") == ["There was no schedule tidy."]
    refused = holdfast("schedules", "pause", "tidy", folder=tmp_path, HOLDFAST_DB=db)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no schedule 'tidy'" in refused.stderr


def test_a_message_shows_where_it_is_and_each_claim(run: Any, db: str, tmp_path: Path) -> None:
    with Holdfast(db, worker="w") as hf:
        sent = hf.enqueue("emails", {"to": "ada"})
        hf.nack(hf.claim("emails"), "no route", delay=0)
        [claim] = hf.claim("emails")
        spend_reports.remember(internals(hf), claim, "thread-7")
        shown = run("messages", "show", sent.id)
        assert any(
            "processing" in line and "thread-7" in line and f"{claim.lease.since:%H:%M:%S}" in line for line in shown
        )
        assert any("failed" in line and "no route" in line for line in shown)
        [found] = values(run("messages", "show", sent.id, "--json"))
        assert (found["state"], found["session"], found["message"]["body"]) == ("processing", "thread-7", {"to": "ada"})
        assert datetime.fromisoformat(found["claimed_at"]) == claim.lease.since
        assert [step["event"] for step in found["timeline"]] == ["enqueued", "claimed", "failed", "claimed"]
        assert [line["claimed_at"] for line in found["history"]] == [found["timeline"][1]["at"]]
    answer = holdfast("messages", "show", "01890a5d-ac96-774b-bcce-b302099a8057", "--db", db, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "there is no message 01890a5d" in answer.stderr
