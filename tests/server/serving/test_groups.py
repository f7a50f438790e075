"""Commands of groups of a spec's topics, run by the consumers that the spec makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.server.serving.declare import declare_staff, has_staff
from holdfast.spec.apply import apply
from holdfast.spec.check import check_reading
from holdfast.spec.reading import read_text

pytestmark = pytest.mark.above_the_stores

SPEC = """app Shop {
  topic orders {
    group mail {
      patterns: ["orders.*.created"]
      empty: terminate
      map_to: command Note.Write { what: topic, order: body.id, who: key, by: headers.by }
    }
    group audit {
      empty: terminate
      delivery { max_attempts: 1 }
      map_to: command Note.Write { what: "audit", order: coalesce(body.id, body), who: key, by: null }
    }
  }
  queue notes {
    message_type { id: int }
    empty: terminate
    map_to: command Note.Write { what: "queue", order: id, who: null, by: null }
  }
  %s
}"""


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


def staffed(hf: Holdfast, more: str = "") -> list[tuple[Any, ...]]:
    """The spec is in the database and its consumers are declared; what the command was called with."""
    calls: list[tuple[Any, ...]] = []

    @hf.command("Note.Write")
    def write(what: str, order: int, who: str | None, by: str | None) -> None:
        calls.append((what, order, who, by))

    reading = read_text(SPEC % more)
    assert reading.spec is not None
    assert check_reading(reading, commands=hf.commands.list()) == []
    apply(hf, reading.spec)
    assert has_staff(hf, reading.spec)
    declare_staff(hf, reading.spec)
    return calls


@pytest.mark.parametrize("more", ["", "consumer all { queues: [orders/mail, orders/audit, notes] }"])
def test_each_group_runs_its_command_for_what_it_wants(hf: Holdfast, more: str) -> None:
    calls = staffed(hf, more)
    hf.publish("orders.eu.created", {"id": 1}, key="ada", headers={"by": "web"})
    hf.publish("orders.eu.paid", {"id": 2})
    hf.enqueue("notes", {"id": 3})
    hf.run()
    assert sorted(calls, key=str) == [
        ("audit", 1, "ada", None),
        ("audit", 2, None, None),
        ("orders.eu.created", 1, "ada", "web"),
        ("queue", 3, None, None),
    ]
    assert [hf.stats(name).queue_depth for name in ("orders/mail", "orders/audit", "notes")] == [0, 0, 0]


def test_a_body_may_be_anything_and_what_does_not_fit_dies_in_its_group_alone(hf: Holdfast) -> None:
    calls = staffed(hf)
    hf.publish("orders", 7)
    hf.publish("orders.eu.created", "seven")
    hf.run()
    assert calls == [("audit", 7, None, None)]
    assert sorted(dead.queue for dead in hf.dead_letters.list()) == ["orders/audit", "orders/mail"]
