"""What Prometheus reads, and that what is shipped for it names nothing that is not there."""

import asyncio
import json
import re
from importlib.resources import files

import httpx
import pytest
import yaml
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Holdfast, Step
from holdfast.client.client import internals
from holdfast.core.stats import METRICS
from holdfast.server import metrics as module
from holdfast.server.app import ROUTERS, create_app
from holdfast.server.metrics import OTHERS, BoundedLabel, Metrics
from tests.clock import FakeClock
from tests.steps import beat, kill
from tests.topics.publishing import die

pytestmark = pytest.mark.above_the_stores

NAMED = re.compile(r"\bholdfast_[a-z_]+")


@pytest.fixture
def busy(hf: Holdfast, clock: FakeClock) -> Holdfast:
    hf.queue("q")
    hf.queue("empty")
    hf.enqueue_many("q", range(10))
    hf.claim("q", n=2)
    hf.ack(hf.claim("q", n=3))
    kill(hf, priority="urgent")
    hf.topic("orders")
    hf.subscribe("orders", "email")
    hf.publish("orders.new", 1)
    hf.schedule("tick", queue="q", every=60)
    internals(hf).store.crew.beat("default", beat(saturation=0.75))
    clock.advance(5)
    return hf


def scraped(app: FastAPI, hf: Holdfast) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = Metrics().page(hf).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_ten_metrics_have_their_names(app: FastAPI, busy: Holdfast) -> None:
    found = scraped(app, busy)
    values = {name: found[f"holdfast_{name}", (("queue", "q"),)] for name in METRICS}
    expected = {"queue_depth": 5, "in_flight_count": 2, "dlq_depth": 1, "age_of_oldest_item": 5, "claim_rate": 0.1}
    assert {name: values[name] for name in expected} == expected
    assert found["holdfast_queue_depth", (("queue", "orders/email"),)] == 1
    assert found["holdfast_group_lag", (("group", "email"), ("topic", "orders"))] == 1
    assert found["holdfast_consumer_saturation", (("consumer", "mailer"),)] == 0.75
    assert found["holdfast_open_notices", ()] == 1
    assert ("holdfast_age_of_oldest_item", (("queue", "empty"),)) not in found, "an empty queue has no age"


def test_a_dead_group_is_told_from_a_paused_one(app: FastAPI, hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t")
    for group in ("back", "gone", "idle"):
        hf.subscribe("t", group, timeout=60)
    hf.queues.pause("t/idle")
    die(hf, clock)
    hf.groups.heartbeat("t", "back")
    found = scraped(app, hf)
    states = [dict(labels) for name, labels in found if name == "holdfast_group_state"]
    assert {one["group"]: one["state"] for one in states} == {"back": "active", "gone": "dead", "idle": "paused"}
    for name, expected in {"deaths": (1, 1, 0), "revivals": (1, 0, 0)}.items():
        labels = [(("group", group), ("topic", "t")) for group in ("back", "gone", "idle")]
        assert tuple(found[f"holdfast_group_{name}_total", one] for one in labels) == expected


def test_sagas_are_counted_by_status(app: FastAPI, busy: Holdfast) -> None:
    for queue in ("do", "undo", "then"):
        busy.queue(queue)
    busy.saga("trip", steps=[Step("a", "do", undo="undo"), Step("b", "then")])
    for number in range(3):
        busy.start_saga("trip", id=f"t{number}")
    busy.ack(busy.claim("do"))
    busy.dead_letter(busy.claim("then"), "no")
    busy.dead_letter(busy.claim("undo"), "never")
    found = scraped(app, busy)
    told = {dict(labels)["status"]: value for (name, labels), value in found.items() if name == "holdfast_sagas"}
    assert told == {"pending": 0, "in_progress": 2, "compensating": 0, "failed": 0, "compensation_failed": 1}
    alerting = re.findall(r'holdfast_sagas\{status="(\w+)"\} > 0', shipped()["alerts.yml"])
    assert alerting == ["compensation_failed"]


def test_a_scrape_is_of_one_tenant(app: FastAPI, busy: Holdfast) -> None:
    assert not [labels for _, labels in scraped(app, busy.acting_as(tenant="acme")) if ("queue", "q") in labels]


def test_there_are_not_more_lines_than_allowed(app: FastAPI, busy: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LABELS", 2)
    found = scraped(app, busy)
    assert len([name for name, _ in found if name == "holdfast_queue_depth"]) == 2
    assert found["holdfast_queues_left_out", ()] == 1


def test_labels_are_bounded() -> None:
    known = BoundedLabel(2)
    assert [known(value) for value in ("a", "b", "c", "a", "d")] == ["a", "b", OTHERS, "a", OTHERS]


def test_requests_and_handlers_are_measured(hf: Holdfast) -> None:
    app = create_app(hf, routers=ROUTERS)
    hf.queue("q", max_attempts=1)

    @hf.consumer("q", empty="terminate")
    def work(message: object) -> None:
        raise ValueError("no")

    hf.enqueue("q", 1)
    hf.run()

    async def ask(*paths: str) -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return [(await http.get(path)).status_code for path in paths]

    assert asyncio.run(ask("/admin/queues/q", "/admin/queues/nobody", "/what")) == [200, 404, 404]
    text = app.api.state.metrics.page(hf).decode()
    assert 'holdfast_handler_seconds_count{consumer="work",outcome="died",queue="q"} 1.0' in text
    counted = 'holdfast_http_request_seconds_count{method="GET",route="%s",status="%d"} 1.0'
    assert counted % ("/admin/queues/{name}", 200) in text
    assert counted % ("/admin/queues/{name}", 404) in text
    assert counted % (OTHERS, 404) in text


def shipped() -> dict[str, str]:
    return {name: (files("holdfast") / "ops" / name).read_text() for name in ("alerts.yml", "grafana.json")}


@pytest.mark.parametrize("name", ["alerts.yml", "grafana.json"])
def test_what_is_shipped_names_what_there_is(app: FastAPI, busy: Holdfast, name: str) -> None:
    app.state.metrics.request("GET", "/", 200, 0.1)
    app.state.metrics.hook("h", 202, 0.1)
    for handled in app.state.metrics._handlers.labels("c", "q", "died"), app.state.metrics._ingress.labels("h", "202"):
        handled.observe(1)
    there = set(re.findall(r"^(holdfast_\w+)", app.state.metrics.page(busy).decode(), re.MULTILINE))
    named = set(NAMED.findall(shipped()[name]))
    assert named
    assert named - there == set()


def test_alerts_are_rules() -> None:
    [group] = yaml.safe_load(shipped()["alerts.yml"])["groups"]
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= rule.keys()
        assert rule["expr"].count("(") == rule["expr"].count(")")
    assert {f"holdfast_{name}" for name in METRICS} <= set(NAMED.findall(shipped()["grafana.json"]))


def test_the_dashboard_has_every_panel_at_a_place_of_its_own() -> None:
    panels = json.loads(shipped()["grafana.json"])["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
