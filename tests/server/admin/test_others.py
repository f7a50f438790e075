"""Topics, groups, the crew, schedules, notices, owners over HTTP."""

import pytest

from holdfast import Holdfast, Work
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.server.admin.conftest import Ask
from tests.steps import beat, bodies, kill

pytestmark = pytest.mark.above_the_stores

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
GROUP = "/admin/topics/orders/groups/email"


@pytest.fixture
def orders(hf: Holdfast) -> list[str]:
    hf.topic("orders")
    hf.subscribe("orders", "email")
    return [hf.publish("orders.new", number).id for number in range(3)]


def test_a_group_shows_its_lag(orders: list[str], ask: Ask, clock: FakeClock) -> None:
    clock.advance(5)
    assert ask("GET", "/admin/topics") == {"topics": ["orders"]}
    [group] = ask("GET", "/admin/topics/orders")["groups"]
    assert (group["group"], group["lag"], group["state"]) == ("email", 3, "active")
    assert ask("GET", GROUP) == group
    assert [one["body"] for one in ask("GET", GROUP + "/messages")["messages"]] == [0, 1, 2]
    for path in ("nobody", "orders/groups/nobody", "orders.*", "a..b"):
        ask("GET", f"/admin/topics/{path}", 404)


def test_settings_of_a_topic_and_a_group_can_be_read(hf: Holdfast, orders: list[str], ask: Ask) -> None:
    hf.topic("orders", max_depth=7)
    hf.subscribe("orders", "email", lease="2m")
    assert ask("GET", "/admin/topics/orders/settings")["settings"]["max_depth"] == 7
    found = ask("GET", GROUP + "/settings")["settings"]
    assert (found["lease"], found["patterns"]) == (120.0, ["orders.**"])
    assert found.keys() == hf.queues.settings("orders/email").keys()
    for path in ("nobody", "orders/groups/nobody", "a..b"):
        ask("GET", f"/admin/topics/{path}/settings", 404)


def test_a_group_is_paused_moved_and_ended(hf: Holdfast, orders: list[str], ask: Ask) -> None:
    ask("POST", GROUP + "/pause")
    assert ask("GET", GROUP)["state"] == "paused"
    assert hf.claim("orders", group="email") == []
    ask("POST", GROUP + "/resume")
    ask("POST", GROUP + "/seek", json={"to": "latest"})
    assert hf.claim("orders", group="email") == []
    ask("POST", GROUP + "/seek", json={"to": orders[1]})
    assert ask("POST", GROUP + "/skip", json={"message_id": orders[1]}) == {"ok": True}
    assert bodies(hf.claim("orders", group="email", n=9)) == [2]
    ask("POST", GROUP + "/seek", json={"to": 0})
    assert bodies(hf.claim("orders", group="email", n=9)) == [0, 1, 2]
    ask("POST", GROUP + "/seek", 404, json={"to": NOBODY})
    ask("POST", GROUP + "/seek", 422, json={"to": "soon"})
    assert ask("POST", GROUP + "/accept-loss") == {"ok": True, "count": 0}
    assert ask("DELETE", GROUP) == {"ok": True}
    ask("DELETE", GROUP, 404)
    assert ask("GET", "/admin/audit")["audit"][0]["act"] == "unsubscribe"


def test_dead_letters_of_a_group_are_among_all(hf: Holdfast, orders: list[str], ask: Ask) -> None:
    [claim] = hf.claim("orders", group="email")
    claim.dead_letter("boom")
    [letter] = ask("GET", "/admin/dlq?queue=orders/email")["dead_letters"]
    assert letter["queue"] == "orders/email"
    ask("POST", f"/admin/dlq/{letter['id']}/replay")
    assert ask("GET", f"/admin/dlq/{letter['id']}")["replayed_as"]
    ask("DELETE", f"/admin/dlq/{letter['id']}")


def test_consumers_and_pools_are_seen(hf: Holdfast, ask: Ask) -> None:
    busy = [Work(NOBODY, "q", 1, 0, {"page": 3})]
    hf.queues.list()
    for name in ("w1", "w2"):
        internals(hf).store.crew.beat("default", beat(name, pool="mailers", saturation=0.75, handled=4, work=busy))
    seen = ask("GET", "/admin/consumers")
    assert (len(seen["consumers"]), seen["amplification"]) == (2, 2)
    assert seen["consumers"][0]["work"][0]["progress"] == {"page": 3}
    [pool] = ask("GET", "/admin/pools")["pools"]
    assert (pool["name"], pool["consumers"], pool["saturation"], pool["handled"]) == ("mailers", 2, 0.75, 8)


def test_a_consumer_is_attached_elsewhere(hf: Holdfast, ask: Ask) -> None:
    hf.queue("q")
    ask("POST", "/admin/attachments/attach", json={"consumer": "mailer", "queue": "q", "weight": 2})
    [one] = ask("GET", "/admin/attachments")["attachments"]
    assert (one["consumer"], one["queue"], one["attached"], one["weight"]) == ("mailer", "q", True, 2)
    ask("POST", "/admin/attachments/detach", json={"consumer": "mailer", "queue": "q"})
    assert ask("GET", "/admin/attachments?consumer=mailer")["attachments"][0]["attached"] is False
    ask("POST", "/admin/attachments/attach", 404, json={"consumer": "mailer", "queue": "nobody"})
    ask("POST", "/admin/attachments/attach", 422, json={"consumer": "mailer", "queue": "q", "weight": 0})


def test_a_schedule_is_stopped_started_and_fired(hf: Holdfast, ask: Ask) -> None:
    hf.queue("ticks")
    hf.schedule("hourly", queue="ticks", body={"a": 1}, cron="0 * * * *", tz="Europe/Berlin")
    [one] = ask("GET", "/admin/schedules")["schedules"]
    assert (one["name"], one["cron"], one["tz"], one["body"], one["paused"]) == (
        "hourly",
        "0 * * * *",
        "Europe/Berlin",
        {"a": 1},
        False,
    )
    ask("POST", "/admin/schedules/hourly/pause")
    assert ask("GET", "/admin/schedules/hourly")["next_at"] is None
    ask("POST", "/admin/schedules/hourly/resume")
    sent = ask("POST", "/admin/schedules/hourly/trigger")["new_message_id"]
    assert [claim.message.id for claim in hf.claim("ticks")] == [sent]
    assert ask("DELETE", "/admin/schedules/hourly") == {"ok": True}
    for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/trigger"), ("DELETE", "")):
        ask(method, "/admin/schedules/hourly" + path, 404)


def test_a_notice_is_acknowledged_once(hf: Holdfast, ask: Ask) -> None:
    hf.queue("mia.inbox")
    hf.owner("mia")
    hf.queue("q", owner="mia")
    dead = kill(hf)
    assert [one["name"] for one in ask("GET", "/admin/owners")["owners"]] == ["mia"]
    [notice] = ask("GET", "/admin/notices?owner=mia")["notices"]
    assert (notice["dead_id"], notice["owner"], notice["kind"]) == (dead, "mia", "dead_letter")
    path = f"/admin/notices/{notice['id']}/acknowledge"
    assert ask("POST", path, json={"remark": "on it"}) == {"ok": True}
    assert ask("POST", path, 409)["error"]["code"] == "acknowledged"
    assert ask("GET", "/admin/notices")["notices"] == []
    [seen] = ask("GET", "/admin/notices?acknowledged=true")["notices"]
    assert (seen["acknowledged_by"], seen["remark"]) == ("local", "on it")
    ask("POST", f"/admin/notices/{NOBODY}/acknowledge", 404)
