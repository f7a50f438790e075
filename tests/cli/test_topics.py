"""`holdfast publish`, `topics` and `groups`, as an operator types them."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.cli.commands import holdfast, values


@pytest.fixture
def topic(db: str) -> str:
    with Holdfast(db) as hf:
        hf.topic("orders")
        hf.subscribe("orders", "email")
        hf.subscribe("orders", "eu", patterns="orders.eu.**")
    return "orders"


def owed(run: Any) -> dict[str, int]:
    return {one["group"]: one["lag"] for one in values(run("groups", "list", "orders", "--json"))}


def test_what_is_published_goes_to_every_group(run: Any, topic: str, tmp_path: Path) -> None:
    [line] = run("publish", "orders.eu.created", '{"id": 42}', "--priority", "high", "--key", "k")
    message_id = line.split()[0]
    for group in ("email", "eu"):
        [message] = values(run("queues", "peek", f"orders/{group}", "--json"))
        assert (message["id"], message["body"], message["topic"]) == (message_id, {"id": 42}, "orders.eu.created")
        assert (message["priority"], message["key"]) == (1, "k")
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(f"{number}\n" for number in range(1_500)))
    assert run("publish", "orders.us", "--lines", str(file)) == ["1,500 messages are in 'orders.us'"]
    assert owed(run) == {"email": 1_501, "eu": 1}
    [first] = values(run("publish", "orders", "1", "--idempotency-key", "once", "--json"))
    [again] = values(run("publish", "orders", "1", "--idempotency-key", "once", "--json"))
    assert again == {"id": first["id"], "duplicate": True}


def test_a_name_that_belongs_to_nobody_is_refused(run: Any, topic: str, db: str, tmp_path: Path) -> None:
    file = tmp_path / "bodies.jsonl"
    file.write_text("1\n2\n")
    for arguments in (("1",), ("--lines", str(file))):
        refused = holdfast("publish", "order.eu.created", *arguments, folder=tmp_path, HOLDFAST_DB=db)
        assert refused.returncode == 1
        assert "did you mean 'orders.eu.created'?" in refused.stderr
    assert run("queues", "list", "--json") == []


def test_topics_and_how_far_their_groups_are(run: Any, topic: str, db: str) -> None:
    with Holdfast(db) as hf:
        hf.topic("jobs", mode="queue")
        hf.publish("jobs.a", 1)
        hf.publish_many("orders.eu", range(3))
        hf.claim("orders/eu", n=2)
    jobs, orders = values(run("topics", "list", "--json"))
    assert (jobs["topic"], jobs["mode"], jobs["groups"], jobs["lag"]) == ("jobs", "queue", None, 1)
    assert (orders["topic"], orders["mode"], orders["groups"]) == ("orders", "pubsub", 2)
    assert (orders["lag"], orders["in_flight"], orders["lost"]) == (3, 2, 0)
    table = "\n".join(run("topics", "list"))
    assert "orders" in table
    assert "pubsub" in table


def test_topics_of_nobody(run: Any) -> None:
    assert run("topics", "list") == ["The tenant 'default' has no topics yet: hf.topic(name) declares one."]


def test_groups_are_listed(run: Any, topic: str, db: str) -> None:
    with Holdfast(db) as hf:
        hf.topic("empty")
        hf.publish("orders.eu", 1)
    table = run("groups", "list", "orders")
    assert any("email" in line and "active" in line and "orders.**" in line for line in table)
    assert any("orders.eu.**" in line for line in table)
    assert run("groups", "list", "empty") == ["Nobody has subscribed to 'empty'."]


def test_a_group_is_paused_and_goes_on(run: Any, topic: str) -> None:
    assert run("groups", "pause", "orders", "eu") == ["orders/eu is paused."]
    states = {one["group"]: one["state"] for one in values(run("groups", "list", "orders", "--json"))}
    assert states == {"email": "active", "eu": "paused"}
    assert run("groups", "resume", "orders", "eu") == ["orders/eu goes on."]


def test_a_group_is_put_elsewhere(run: Any, topic: str, db: str) -> None:
    with Holdfast(db) as hf:
        ids = [receipt.id for receipt in hf.publish_many("orders.eu", range(3))]
    assert run("groups", "seek", "orders", "email", "latest") == ["orders/email has 0 messages before it."]
    assert run("groups", "seek", "orders", "email", ids[1]) == ["orders/email has 2 messages before it."]
    assert run("groups", "seek", "orders", "email", "2020-01-01T08:00") == ["orders/email has 3 messages before it."]
    assert run("groups", "seek", "orders", "email", "2099-01-01T08:00Z") == ["orders/email has 0 messages before it."]
    assert run("groups", "accept-loss", "orders", "email") == ["orders/email goes on without 0 messages."]


def test_a_group_is_ended_after_a_question(run: Any, topic: str, db: str, tmp_path: Path) -> None:
    with Holdfast(db) as hf:
        hf.publish_many("orders.eu", range(3))
    for act in ("cancel", "remove"):
        refused = holdfast("groups", act, "orders", "eu", folder=tmp_path, HOLDFAST_DB=db)
        assert refused.returncode != 0
        assert "is owed 3 messages" in refused.stdout + refused.stderr
    assert owed(run) == {"email": 3, "eu": 3}
    assert run("groups", "cancel", "orders", "eu", "--yes") == ["orders/eu is canceled."]
    assert run("groups", "cancel", "orders", "eu") == ["orders/eu was already canceled."]
    assert any("eu" in line and "canceled" in line for line in run("groups", "list", "orders"))
    assert run("groups", "remove", "orders", "eu") == ["orders/eu is removed."]
    assert run("groups", "remove", "orders", "email", "--yes") == ["orders/email is removed."]
    assert values(run("groups", "list", "orders", "--json")) == []


@pytest.mark.parametrize("act", ["pause", "cancel", "remove", "seek"])
def test_a_group_that_is_not_there(topic: str, db: str, tmp_path: Path, act: str) -> None:
    more = ("latest",) if act == "seek" else ()
    answer = holdfast("groups", act, "orders", "fax", *more, folder=tmp_path, HOLDFAST_DB=db)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("holdfast: nobody has subscribed to 'orders' as 'fax'")
