"""The verbs of `queues`, `messages`, `topics`, `groups`, `pools` and `audit`, as an operator types them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, State
from holdfast.budgets import spend_reports
from holdfast.client.client import internals
from holdfast.worker.outcomes import BudgetSpent
from tests.cli.commands import command, environment, holdfast, values
from tests.steps import beat

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


def answered(answer: str, *args: str, db: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command that asks, and what is typed then."""
    env = {**environment(folder), "HOLDFAST_DB": db}
    return subprocess.run(command(*args), input=answer, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


def test_a_queue_is_paused_and_resumed(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        assert run("queues", "pause", "emails") == ["emails is paused."]
        assert (hf.queues.is_paused("emails"), hf.claim("emails")) == (True, [])
        assert run("queues", "resume", "emails") == ["emails goes on."]
        assert not hf.queues.is_paused("emails")


def test_a_queue_whose_budget_is_spent_stays_paused(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.queue("emails", budget=5)
        hf.enqueue("emails", 1)
        [claim] = hf.claim("emails")
        with pytest.raises(BudgetSpent):
            spend_reports.spend(internals(hf), claim, 6)
        assert run("queues", "resume", "emails") == ["emails stays paused: its budget is spent."]
        hf.queue("emails", budget=10)
        assert run("queues", "resume", "emails") == ["emails goes on."]


def test_a_queue_is_purged_without_what_is_worked_on(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.enqueue_many("emails", range(3))
        hf.enqueue("emails", "later", delay="1h")
        [claim] = hf.claim("emails")
        assert run("queues", "purge", "emails", "--yes") == ["3 removed"]
        assert run("queues", "purge", "emails") == ["emails has no pending messages."]
        claim.ack()
        status = hf.status(claim.message.id)
        assert status is not None
        assert (hf.stats("emails").queue_depth, status.state) == (0, State.SUCCEEDED)


def test_a_purge_asks_first(db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.enqueue_many("emails", range(3))
        for no in ("n\n", ""):
            refused = answered(no, "queues", "purge", "emails", db=db, folder=tmp_path)
            assert (refused.returncode, hf.stats("emails").pending) == (130, 3)
            assert "Remove 3 pending messages of emails for good?" in refused.stdout
        done = answered("y\n", "queues", "purge", "emails", db=db, folder=tmp_path)
        assert (done.returncode, done.stdout.endswith("3 removed\n")) == (0, True)
        assert hf.stats("emails").pending == 0


def test_a_group_is_purged_by_its_address(run: Any, db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.topic("orders")
        hf.subscribe("orders", "email")
        hf.subscribe("orders", "fax")
        hf.publish_many("orders", range(3))
        asked = answered("y\n", "queues", "purge", "orders/email", db=db, folder=tmp_path)
        assert "Remove 3 pending messages of orders/email for good?" in asked.stdout
        assert {group.group: group.lag for group in hf.groups.list("orders")} == {"email": 0, "fax": 3}


def test_blocked_keys_are_listed_and_go_on(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.queue("accounts", ordering="per_key", on_dead="block")
        hf.queue("ledger", ordering="fifo", on_dead="block")
        for queue in ("accounts", "ledger"):
            hf.enqueue_many(queue, [1, 2], key="account-7")
            [claim] = hf.claim(queue)
            claim.dead_letter("no such account")
        [dead] = hf.dead_letters.list("accounts")
        [one] = values(run("queues", "blocked", "accounts", "--json"))
        assert (one["key"], one["dead_id"], one["waiting"]) == ("account-7", dead.id, 1)
        assert any("account-7" in line and dead.id in line for line in run("queues", "blocked", "accounts"))
        assert run("queues", "unblock", "accounts", "account-8") == ["'account-8' of accounts was not blocked."]
        assert run("queues", "unblock", "accounts", "account-7") == ["'account-7' of accounts goes on."]
        assert run("queues", "blocked", "accounts") == ["accounts has no blocked keys."]
        assert run("queues", "blocked", "accounts", "--json") == []
        assert run("queues", "unblock", "ledger") == ["ledger goes on."]
        assert [claim.message.body for claim in (*hf.claim("accounts"), *hf.claim("ledger"))] == [2, 2]


@pytest.mark.parametrize(
    "args", [["pause"], ["resume"], ["purge"], ["purge", "--yes"], ["blocked"], ["unblock"]], ids=" ".join
)
def test_a_mistyped_queue_is_refused_and_not_made(db: str, tmp_path: Path, args: list[str]) -> None:
    answer = holdfast("queues", *args, "emial", folder=tmp_path, HOLDFAST_DB=db)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "'emial' was never declared" in answer.stderr
    with Holdfast(db) as hf:
        assert hf.queues.list() == []


def test_messages_are_found_by_what_they_carry(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        first = hf.enqueue("emails", 1, key="k", correlation_id="c", headers={"source": "import", "n": 7}).id
        second = hf.enqueue("sms", 2, key="k", headers={"source": "import"}).id
        third = hf.enqueue("sms", 3, key="other").id

    def found(*options: str) -> list[str]:
        return [message["id"] for message in values(run("messages", "search", *options, "--json"))]

    assert found("--key", "k") == [first, second]
    assert found("--key", "k", "-n", "1") == [first]
    assert found("--key", "k", "--after", first) == [second]
    assert found("--queue", "sms", "--key", "other") == [third]
    assert found("--correlation-id", "c") == [first]
    assert found("--header", "source=import") == [first, second]
    assert found("--header", "source=import", "--header", "n=7") == [first]
    [line] = [line for line in run("messages", "search", "--correlation-id", "c") if first in line]
    for words in ("emails", "pending", " k ", " c "):
        assert words in line
    assert run("messages", "search", "--key", "nobody's") == ["No such messages."]


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ([], 1, "holdfast: "),
        (["--queue", "emails"], 1, "holdfast: "),
        (["--header", "source"], 2, "--header takes NAME=VALUE, not 'source'"),
        (["--header", "=import"], 2, "--header takes NAME=VALUE, not '=import'"),
    ],
    ids=str,
)
def test_a_search_for_nothing_is_refused(db: str, tmp_path: Path, args: list[str], code: int, text: str) -> None:
    answer = holdfast("messages", "search", *args, folder=tmp_path, HOLDFAST_DB=db)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert text in answer.stderr


def test_a_message_is_cancelled_once(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        sent = hf.enqueue("emails", 1).id
        assert run("messages", "cancel", sent) == [f"{sent} is canceled."]
        assert run("messages", "cancel", sent) == [f"{sent} had ended before, or never was."]
        assert run("messages", "cancel", NOBODY) == [f"{NOBODY} had ended before, or never was."]
        status = hf.status(sent)
        assert status is not None
        assert status.state is State.CANCELED


def test_settings_of_topics_and_groups_are_shown(run: Any, db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.topic("orders", retention="7d")
        hf.subscribe("orders", "email", lease="2m")
        [of_topic] = values(run("topics", "settings", "orders", "--json"))
        [of_group] = values(run("groups", "settings", "orders", "email", "--json"))
        assert of_topic == json.loads(msgspec.json.encode(hf.topics.settings("orders")))
        assert of_group == json.loads(msgspec.json.encode(hf.groups.settings("orders", "email")))
    assert any("retention" in line and "604800.0" in line for line in run("topics", "settings", "orders"))
    assert any("lease" in line and "120.0" in line for line in run("groups", "settings", "orders", "email"))
    for args, text in ((["topics", "settings", "order"], "no topic"), (["groups", "settings", "orders", "fax"], "fax")):
        answer = holdfast(*args, folder=tmp_path, HOLDFAST_DB=db)
        assert (answer.returncode, answer.stdout) == (1, "")
        assert text in answer.stderr


def test_pools_are_listed(run: Any, db: str) -> None:
    assert run("pools", "list") == ["No pool has running members."]
    assert run("pools", "list", "--json") == []
    with Holdfast(db) as hf:
        tell = internals(hf).store.crew.beat
        tell("default", beat("w1", pool="gpu", saturation=0.8, handled=1000, valid_for=600))
        tell("default", beat("w2", pool="gpu", saturation=0.4, handled=234, valid_for=600))
        tell("default", beat("w3", saturation=1, valid_for=600))
    [pool] = values(run("pools", "list", "--json"))
    assert (pool["name"], pool["members"], pool["consumers"], pool["handled"]) == ("gpu", 2, ["mailer"], 1234)
    [line] = [line for line in run("pools", "list") if "gpu" in line]
    for words in ("mailer", "60%", "1,234"):
        assert words in line


def test_what_operators_did_is_listed_page_by_page(run: Any, db: str, tmp_path: Path) -> None:
    assert run("audit", "list") == ["The audit is empty."]
    assert run("audit", "list", "--json") == []
    with Holdfast(db) as hf:
        hf.queue("emails")
    run("queues", "pause", "emails")
    run("queues", "purge", "emails", "--yes")
    purged, paused = values(run("audit", "list", "--json"))
    assert [(one["act"], one["queue"]) for one in (purged, paused)] == [("purge", "emails"), ("pause", "emails")]
    assert values(run("audit", "list", "-n", "1", "--json")) == [purged]
    assert values(run("audit", "list", "--before", str(purged["id"]), "--json")) == [paused]
    assert any("pause" in line and "emails" in line and f" {paused['id']} " in line for line in run("audit", "list"))
    answer = holdfast("audit", "list", "--before", "-1", folder=tmp_path, HOLDFAST_DB=db)
    assert (answer.returncode, answer.stdout) == (1, "")


def test_dlq_is_another_name_of_dead_letters(run: Any, db: str) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 1)
        [claim] = hf.claim("emails")
        claim.dead_letter("boom")
    [letter] = values(run("dlq", "list", "--json"))
    assert values(run("dead-letters", "list", "--json")) == [letter]
    assert run("dlq", "show", letter["id"]) == run("dead-letters", "show", letter["id"])
