"""A spec beside a database, and into it: what is compared, what is declared, and that nothing is lost unasked."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.commands.rules import command_of, command_queue
from holdfast.spec.apply import WouldLose, apply
from holdfast.spec.model import Spec
from holdfast.spec.plan import SpecPlan, make_plan, summary
from holdfast.spec.reading import read_text
from tests.clock import FakeClock
from tests.steps import bodies
from tests.stores import INSIDE

pytestmark = pytest.mark.not_through_sqs(INSIDE)

RICH = """
app Shop {
  owner boss { escalate_after: 1h }
  owner mia { owner: boss }
  queue mails {
    ordering: per_key
    owner: mia
    retention { max_depth: 100 max_age_seconds: 86400 }
    delivery { max_attempts: 3 dead_letter_queue: graves }
  }
  queue graves { retention { max_age_seconds: 604800 } }
  queue jobs { names_below: true }
  topic orders {
    retention: 7d
    group email { patterns: ["orders.*.created"] start: earliest delivery { lease: 10s } }
    group audit {}
  }
  schedule nightly { queue: mails cron: "0 3 * * *" body: {"kind": "report"} }
  saga order {
    step pay { command: Card.Charge { amount: data.price * 2 } undo: command Card.Refund { charge: steps.pay.id } }
    parallel both {
      when: data.price > 0
      step mail { queue: mails, input: {"to": data.to}, timeout: 5m, retry: 2, backoff: [1s, 5s] }
      step agreed { event: "agreed", timeout: 1d, when: size(data.to) > 0 }
    }
    step calm { until: data.at }
  }
}
"""


def spec_of(text: str) -> Spec:
    reading = read_text(text)
    assert reading.problems == []
    assert reading.spec is not None
    return reading.spec


def shop(inside: str) -> Spec:
    return spec_of(f"app Shop {{ {inside} }}")


def acts(plan: SpecPlan) -> list[tuple[str, str, str]]:
    return [(step.act, step.kind, step.name) for step in plan.steps]


def test_everything_is_created_in_an_order_that_works(hf: Holdfast) -> None:
    plan = apply(hf, spec_of(RICH))
    assert acts(plan) == [
        *(("create", "owner", name) for name in ("boss", "mia")),
        *(("create", "queue", name) for name in ("mails", "graves", "jobs")),
        *(("create", "topic", "orders"), ("create", "group", "orders/email"), ("create", "group", "orders/audit")),
        ("create", "schedule", "nightly"),
        ("create", "saga", "order"),
    ]
    assert [name for name in hf.queues.list() if command_of(name) is None] == ["graves", "jobs", "mails"]
    assert [group.group for group in hf.groups.list("orders")] == ["audit", "email"]
    assert [schedule.name for schedule in hf.schedules.list()] == ["nightly"]
    assert hf.notices.owners()["mia"].owner == "boss"
    hf.publish("jobs.small", "below a queue that owns its names")
    assert bodies(hf.claim("jobs")) == ["below a queue that owns its names"]


def test_doing_it_again_changes_nothing(hf: Holdfast) -> None:
    apply(hf, spec_of(RICH))
    again = apply(hf, spec_of(RICH))
    assert (again.steps, again.unchanged, again.others) == ([], 10, [])
    assert summary(again.steps) == "nothing to do"


@pytest.mark.parametrize("cut_after", range(10))
def test_what_was_cut_off_is_finished_by_the_next_one(hf: Holdfast, cut_after: int) -> None:
    class Killed(Exception):
        pass

    done = []

    def told(step: Any) -> None:
        done.append(step)
        if len(done) > cut_after:
            raise Killed

    with pytest.raises(Killed):
        apply(hf, spec_of(RICH), told=told)
    rest = apply(hf, spec_of(RICH))
    assert len(done) + len(rest.steps) == 10
    assert make_plan(hf, spec_of(RICH)).steps == []


def test_a_change_says_what_was_and_what_is_to_be_and_keeps_the_messages(hf: Holdfast) -> None:
    apply(hf, shop("queue mails { delivery { lease: 30s } }"))
    hf.enqueue("mails", "here")
    wanted = shop("queue mails { delivery { lease: 1m } }")
    [step] = make_plan(hf, wanted).steps
    [change] = step.changes
    assert (step.act, change.setting, change.before, change.after, change.loses) == (
        "change",
        "lease",
        30.0,
        60.0,
        None,
    )
    apply(hf, wanted)
    [claim] = hf.claim("mails")
    assert claim.message.body == "here"


DEAD = "older dead letters are removed"
FORGOTTEN = "finished messages are forgotten earlier"
LESS = [
    ("queue q {}", "queue q { retention { max_age_seconds: 60 } }", "messages that have waited for longer expire"),
    ("queue q {}", "queue q { retention { dead_retention: 60 } }", DEAD),
    ("queue q {}", "queue q { delivery { dead_letter: d } } queue d { retention { max_age: 60 } }", DEAD),
    (
        "queue q { delivery { dead_letter: d } } queue d {}",
        "queue q { delivery { dead_letter: d } } queue d { retention { max_age: 60 } }",
        "queue d: .* older dead letters are removed: those of q",
    ),
    ("queue q {}", "queue q { retention { history: 0s } }", FORGOTTEN),
    ("queue q {}", "queue q { retention { history_limit: 1 } }", FORGOTTEN),
    (
        "topic t { group g {} }",
        "topic t { retention: 60, min_retention: 60, group g {} }",
        "older messages are removed",
    ),
    ("topic t { group g {} }", 'topic t { group g { patterns: ["t.a"] } }', "what it does not want any more"),
]


def fill(hf: Holdfast) -> None:
    """Messages that wait, are finished, dead and published, all of them a minute and more ago."""
    names = hf.queues.list()
    if "q" in names:
        hf.enqueue_many("q", range(5))
        done, finished, dead = hf.claim("q", n=3)
        hf.ack([done, finished])
        dead.dead_letter("broken")
    if "t" in hf.topics.list():
        hf.publish("t.b", 1)


@pytest.mark.parametrize(("before", "after", "loss"), LESS)
def test_no_message_is_lost_unless_someone_agrees(
    hf: Holdfast, clock: FakeClock, before: str, after: str, loss: str
) -> None:
    apply(hf, shop(before))
    fill(hf)
    clock.advance(61)
    stored = make_plan(hf, shop(before)).steps
    with pytest.raises(WouldLose, match=loss) as refused:
        apply(hf, shop(after), command="holdfast serve app.holdfast --accept-loss")
    assert "holdfast serve app.holdfast --accept-loss" in str(refused.value)
    assert make_plan(hf, shop(before)).steps == stored == [], "it was refused as a whole"
    apply(hf, shop(after), accept_loss=True)
    assert make_plan(hf, shop(after)).steps == []


@pytest.mark.parametrize(("before", "after", "loss"), LESS)
def test_less_of_something_loses_nothing_where_there_is_nothing(
    hf: Holdfast, before: str, after: str, loss: str
) -> None:
    apply(hf, shop(before))
    assert apply(hf, shop(after)).losses == []


@pytest.mark.parametrize(
    ("before", "after", "meaning"),
    [
        ("queue q {}", "queue q { delivery { max_attempts: 2 } }", "dead-lettered at its next failure"),
        ("queue q {}", "queue q { retention { idempotency_window: 1m } }", "keys are forgotten earlier"),
        ("queue q {}", "queue q { retention { max_depth: 1 } }", "new messages are refused"),
        ("queue q {}", "queue q { limits { concurrency: 1, rate: 1/h, max_size: 10 } }", None),
        ("topic t { group g {} }", "topic t { group g { timeout: 1m } }", "nothing is kept any more"),
        ("topic t { group g {} }", 'topic t { group g { patterns: ["t.b", "t.a"] } }', None),
        ("saga s { step a { wait: 1m } }", "saga s { keep: 1d, step a { wait: 1m } }", "are forgotten earlier"),
    ],
)
def test_what_removes_no_message_is_no_loss(
    hf: Holdfast, clock: FakeClock, before: str, after: str, meaning: str | None
) -> None:
    apply(hf, shop(before))
    fill(hf)
    clock.advance(61)
    depth = hf.stats("q").queue_depth if "q" in hf.queues.list() else None
    plan = apply(hf, shop(after))
    [step] = plan.steps
    assert plan.losses == []
    assert [change.means for change in step.changes if change.means] == ([] if meaning is None else [ANY])
    assert meaning is None or meaning in str(step.changes[0].means)
    assert depth is None or hf.stats("q").queue_depth == depth


def test_a_topic_has_the_depth_that_its_spec_says(hf: Holdfast) -> None:
    apply(hf, shop("topic t { max_depth: 7 }"))
    assert hf.queues.settings("t")["max_depth"] == 7
    hf.topic("t", max_depth=9)
    assert [
        change.setting for step in make_plan(hf, shop("topic t { max_depth: 7 }")).steps for change in step.changes
    ] == ["max_depth"]


def test_what_the_spec_does_not_have_is_left_alone(hf: Holdfast) -> None:
    apply(hf, spec_of(RICH))
    hf.publish("orders.eu.created", 1)
    plan = make_plan(hf, shop("topic orders { retention: 7d group email { start: earliest } } owner boss {}"))
    assert ("group", "orders/audit") in plan.others
    assert ("schedule", "nightly") in plan.others
    assert ("queue", "mails") in plan.others
    assert ("owner", "mia") in plan.others
    assert [step.act for step in plan.steps] == ["change", "change"]


def test_pruning_removes_groups_and_schedules_only_and_only_if_agreed(hf: Holdfast) -> None:
    apply(hf, spec_of(RICH))
    wanted = shop("topic orders { retention: 7d group audit {} }")
    assert make_plan(hf, wanted, prune=True).losses == [], "nobody is owed anything"
    hf.publish("orders.eu.created", 1)
    with pytest.raises(WouldLose, match="all that it is owed is lost"):
        apply(hf, wanted, prune=True)
    plan = apply(hf, wanted, prune=True, accept_loss=True)
    assert acts(plan) == [("remove", "group", "orders/email"), ("remove", "schedule", "nightly")]
    assert [group.group for group in hf.groups.list("orders")] == ["audit"]
    assert hf.schedules.list() == []
    assert "mails" in hf.queues.list(), "queues hold messages, and stay"


def test_what_others_declare_must_be_there(hf: Holdfast) -> None:
    wanted = shop("queue mails { external: true } topic orders { external: true group email {} }")
    with pytest.raises(InvalidInput, match="'mails' is external"):
        make_plan(hf, wanted)
    hf.queue("mails", lease=5)
    with pytest.raises(InvalidInput, match="'orders' is external"):
        make_plan(hf, wanted)
    hf.topic("orders")
    assert acts(apply(hf, wanted)) == [("create", "group", "orders/email")]


def test_a_queue_cannot_become_a_topic(hf: Holdfast) -> None:
    apply(hf, shop("queue orders {}"))
    with pytest.raises(InvalidInput, match="is a queue"):
        apply(hf, shop("topic orders {}"))


SAGA = "queue q {{}} saga s {{ step a {{ queue: q }} {} }}"


def test_a_plan_shows_which_steps_of_a_saga_change(hf: Holdfast) -> None:
    apply(hf, shop(SAGA.format("step b { wait: 1m } step c { wait: 1m }")))
    [step] = make_plan(hf, shop(SAGA.format('step b { wait: 2m } step d { event: "e" }'))).steps
    changes = {change.setting: (change.before, change.after) for change in step.changes}
    assert (step.act, step.kind, step.name, step.losses) == ("change", "saga", "s", [])
    assert changes == {
        "step b": ({"delay": 60.0}, {"delay": 120.0}),
        "step c": ({"delay": 60.0}, None),
        "step d": (None, {"signal": "e"}),
        "order": (["a", "b", "c"], ["a", "b", "d"]),
    }


def test_sagas_under_way_keep_what_they_were_started_with(hf: Holdfast) -> None:
    apply(hf, shop(SAGA.format("")))
    hf.start_saga("s", id="old")
    apply(hf, shop(SAGA.format("step b { wait: 1m }")))
    hf.start_saga("s", id="new")
    hf.ack(hf.claim("q", n=2))
    found = {saga.id: (saga.version, saga.status) for saga in hf.sagas.list()}
    assert found == {"old": (1, "completed"), "new": (2, "in_progress")}
    apply(hf, shop(SAGA.format("")))
    hf.start_saga("s", id="old again")
    assert hf.sagas.list()[-1].version == 1


def test_what_a_spec_says_of_a_saga_is_what_happens(hf: Holdfast) -> None:
    """Conditions, inputs, groups, waits and undos, played by hand."""
    apply(hf, spec_of(RICH))
    at = "2030-01-01T00:00:00Z"
    hf.start_saga("order", {"price": 3, "to": "mia", "at": at}, id="o")
    pay, refund = command_queue("Card.Charge"), command_queue("Card.Refund")
    [claim] = hf.claim(pay)
    assert claim.message.body == {"amount": 6}
    claim.ack({"id": "c1"})
    [claim] = hf.claim("mails")
    assert claim.message.body == {"to": "mia"}
    claim.ack()
    hf.signal("o", "agreed", "yes")
    saga = hf.sagas.get("o")
    assert saga is not None
    assert saga.steps[-1].due_at_us == 1_893_456_000_000_000
    hf.sagas.cancel("o")
    [claim] = hf.claim(refund)
    assert claim.message.body == {"charge": "c1"}
    claim.ack()
    assert hf.sagas.list()[0].status == "canceled"

    hf.start_saga("order", {"price": 0, "to": "", "at": "some day"}, id="free")
    hf.ack(hf.claim(pay))
    [free] = hf.sagas.list("compensating")
    assert [step.status for step in free.steps] == ["compensating", "skipped", "skipped", "failed"]
    assert str(free.error).startswith("calm: until: it did not come to a number of seconds")


def test_an_expression_that_is_too_costly_is_a_failure_of_its_step(hf: Holdfast) -> None:
    """It does not keep whoever ended the step before from ending it."""
    costly = "data.long + data.long + data.long"
    for name, says in (
        ("a", f"queue: q, input: {costly}"),
        ("b", f"wait: 0s, when: {costly}"),
        ("c", f"until: {costly}"),
    ):
        last = f"step b {{ {says} }}"
        apply(hf, shop(f"queue first {{}} queue q {{}} saga {name} {{ step a {{ queue: first }} {last} }}"))
        hf.start_saga(name, {"long": "x" * 400_000}, id=name)
        hf.ack(hf.claim("first"))
        saga = hf.sagas.get(name)
        assert saga is not None
        assert (saga.status, [step.status for step in saga.steps]) == ("failed", ["completed", "failed"])
        assert "makes more than 1,000,000 letters" in str(saga.error)
