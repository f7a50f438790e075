"""What a check knows beside the text: commands, consumers, secrets; and models that no text was the reason for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from holdfast.core.expressions import types
from holdfast.spec.annotations import type_of
from holdfast.spec.check import MOST, check, check_reading
from holdfast.spec.files import examine
from holdfast.spec.findings import SpecFinding
from holdfast.spec.model import CommandCall, QueueDeclaration, Spec, from_json
from holdfast.spec.reading import read_text


@dataclass
class Parameter:
    name: str
    type: Any
    required: bool = True


@dataclass
class Command:
    name: str
    parameters: list[Parameter]
    returns: Any = Any


CREATE = Command(
    "Incident.Create",
    [
        Parameter("title", str),
        Parameter("severity", Literal["low", "high"]),
        Parameter("count", int, required=False),
        Parameter("note", str | None, required=False),
    ],
)


def found(inputs: str, **known: Any) -> list[str]:
    text = f"""app A {{ queue q {{
      message_type {{ title: string, level: enum(low, high), note: string?, raw: json, n: float }}
      map_to: command Incident.Create {{ {inputs} }}
    }} }}"""
    return [finding.message for finding in check_reading(read_text(text), **known)]


def test_what_a_command_wants_is_what_it_gets() -> None:
    assert found("title: title, severity: level, count: size(title), note: note", commands=[CREATE]) == []
    assert found('title: "x" + title, severity: raw.severity', commands=[CREATE]) == []
    assert found('title: string(n), severity: n > 1.0 ? "low" : "high"', commands=[CREATE]) == []


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("title: title", "Incident.Create needs the input 'severity'"),
        ("title: title, severity: level, titel: title", "Incident.Create has no input 'titel'"),
        ("title: n, severity: level", "this is double, and string is wanted"),
        ("title: note, severity: level", "this is optional string, and string is wanted"),
        ('title: title, severity: "hihg"', 'this is "hihg", and enum(high, low) is wanted'),
        ("title: title, severity: level, count: n", "this is double, and int is wanted"),
    ],
)
def test_what_it_does_not_want_is_said(inputs: str, said: str) -> None:
    assert found(inputs, commands=[CREATE]) == [said]
    assert found(inputs) == [], "of unknown commands nothing is known"


def test_an_unknown_command_is_said_if_commands_are_known() -> None:
    assert found("title: title", commands=[]) == ["there is no command 'Incident.Create'"]
    (finding,) = check_reading(
        read_text("app A { queue q { message_type { a: int } map_to: command Incident.Crate {} } }"), commands=[CREATE]
    )
    assert finding.hint == "did you mean 'Incident.Create'?"
    assert finding.path == "queues.q.map_to.command"


def test_types_of_annotations() -> None:
    class Body(msgspec.Struct):
        a: int
        b: list[float] = []

    assert type_of(Body) == types.ObjectOf({"a": types.INT, "b": types.OptionalOf(types.ListOf(types.DOUBLE))})
    assert type_of(dict[str, bool]) == types.MapOf(types.BOOL)
    assert type_of(object()) == type_of(Any) == type_of(int | str) == types.JSON


SIGNED = 'app A { queue q {} webhook w { queue: q verify_hmac { header: "X-S" secrets: ["ONE", "TWO"] } } }'


def test_a_secret_that_is_not_set_is_a_warning_and_an_error_when_serving() -> None:
    reading = read_text(SIGNED)
    environ = {"ONE": "s3cret", "TWO": " "}
    (warning,) = check_reading(reading, environ=environ)
    (error,) = check_reading(reading, environ=environ, serving=True)
    assert (warning.severity, error.severity) == ("warning", "error")
    assert warning.message.startswith("the environment variable TWO is not set")
    assert warning.path == "webhooks.w.verify_hmac.secrets[1]"
    assert check_reading(reading) == []
    assert check_reading(reading, environ={"ONE": "a", "TWO": "b"}, serving=True) == []


def test_consumers_of_the_program_count() -> None:
    reading = read_text("app A { pool p {} }")
    assert [one.severity for one in check_reading(reading)] == ["warning"]
    assert [one.severity for one in check_reading(reading, consumers=["other"])] == ["error"]
    assert check_reading(reading, consumers=["p"]) == []


def test_a_model_without_a_text_is_checked_too() -> None:
    raw = """{"app": "A", "queues": {
      "a.b": {"delivery": {"dead_letter_queue": "a.b", "max_attempts": 0}, "message_type": {"x": "strin"}},
      "q": {"message_type": {"x": "int"},
            "map_to": {"entity_type": "E", "command": "C", "input_map": {"y": "x ==", "z": "w"}}}
    }}"""
    assert [(finding.path, finding.message[:30], finding.span) for finding in check(from_json(raw))] == [
        ('queues["a.b"].message_type.x', "'strin' is no type: there is n", None),
        ('queues["a.b"].delivery.max_attempts', "max_attempts must be a whole n", None),
        ("queues.q.map_to.input_map.y", "'x ==' is no expression: expec", None),
        ("queues.q.map_to.input_map.z", "nothing is called 'w' here", None),
        ('queues["a.b"].delivery.dead_letter_queue', "dead letters would go in a cir", None),
    ]


def test_too_many_of_something_is_said() -> None:
    spec = Spec(app="A", queues={f"q{number}": QueueDeclaration() for number in range(MOST["queues"] + 1)})
    assert [finding.message for finding in check(spec)] == ["there are 1,001 queues; at most 1,000 are allowed"]


def test_no_finding_of_a_broken_text_is_a_consequence_of_another() -> None:
    reading = read_text("app A {\n queue q { delivery { dead_letter: d } }\n queue d { ordering }\n}")
    findings: list[SpecFinding] = check_reading(reading)
    assert [finding.message for finding in findings] == ["expected ':' after 'ordering', found '}'"]


def test_the_name_of_a_command() -> None:
    assert CommandCall(entity_type="Incident", command="Create").name == "Incident.Create"


class Charge(msgspec.Struct):
    id: str
    amount: float


CHARGE = Command("Card.Charge", [Parameter("amount", float)], Charge)
REFUND = Command("Card.Refund", [Parameter("charge", str)], None)


def of_a_saga(last: str, **known: Any) -> list[str]:
    text = f"""app A {{
      queue q {{ message_type {{ amount: float }} map_to: command Card.Charge {{ amount: amount }} }}
      saga s {{
        data {{ price: float, at: time }}
        step card {{
          command: Card.Charge {{ amount: data.price }}
          undo: command Card.Refund {{ charge: steps.card.id }}
        }}
        step maybe {{ queue: q, input: {{"amount": steps.card.amount}}, when: data.price > 1.0 }}
        step pause {{ wait: 1m }}
        {last}
      }} }}"""
    return [finding.message for finding in check_reading(read_text(text), commands=[CHARGE, REFUND], **known)]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("step z { command: Card.Refund { charge: steps.card.id } }", []),
        ('step z { command: Card.Refund { charge: coalesce(steps.maybe.id, "") } }', []),
        ("step z { until: data.at }", []),
        ("step z { until: data.price }", []),
        ("step z { command: Card.Refund { charge: steps.card.amount } }", ["this is double, and string is wanted"]),
        ("step z { command: Card.Refund { charge: steps.card.it } }", ["there is no field 'it'"]),
        (
            "step z { command: Card.Refund { charge: steps.maybe.id } }",
            ["this is optional string, and string is wanted"],
        ),
        ("step z { command: Card.Refund {} }", ["Card.Refund needs the input 'charge'"]),
        ("step z { command: Card.Refnd {} }", ["there is no command 'Card.Refnd'"]),
        (
            "step z { queue: q, undo: command Card.Undo {}, input: data }",
            [
                "there is no command 'Card.Undo'",
                "a message of 'q' needs amount: double, which is not there",
            ],
        ),
        ("step z { queue: q, input: 7 }", ["a message of 'q' is an object with amount, and this is int"]),
        ("step z { wait: 1m, when: steps.pause.x }", []),
        ("step z { wait: 1m, when: steps.z }", ["there is no field 'z'"]),
        ("step z { until: steps.card.id }", ["a time is wanted, and this is string"]),
        ("step price { wait: 1m }", ["the saga's data has a field 'price' already"]),
        ("step z { wait: 1m, retry: 1 }", ["the step 'z' sends nothing, so retry has no meaning"]),
    ],
)
def test_a_step_sees_what_commands_before_it_give_back(last: str, said: list[str]) -> None:
    assert sorted(of_a_saga(last)) == sorted(said)


def test_a_consumer_may_take_the_messages_of_a_command_that_is_a_step() -> None:
    consumer = "consumer c {{ queues: [holdfast.commands.{}], concurrency: 8 }}"
    text = "app A {{ saga s {{ step a {{ command: Card.Charge {{ amount: 1.0 }} }} }} {} }}"
    for name, said in (("Card.Charge", []), ("Card.Refund", ["there is no queue 'holdfast.commands.Card.Refund'"])):
        reading = read_text(text.format(consumer.format(name)))
        assert [one.message for one in check_reading(reading, commands=[CHARGE, REFUND])] == said


def test_routing_names_no_queue_of_dead_letters() -> None:
    text = """app A {
      queue q { delivery { dead_letter_queue: graves } }
      queue graves {}
      topic t { group g { delivery { dead_letter_queue: more } } }
      queue more {}
      webhook w { routing: payload.a ? "graves" : payload.b ? "more" : "q" allow_ips: ["127.0.0.1"] }
    }"""
    found = [(finding.path, finding.message) for finding in check_reading(read_text(text))]
    assert found == [
        ("webhooks.w.routing", "'graves' is a queue for dead letters"),
        ("webhooks.w.routing", "'more' is a queue for dead letters"),
    ]


DEEP = '{"app": "A", "sagas": {"s": {"steps": [%s]}}}' % ('{"name": "x", "parallel": [' * 900 + "]}" * 900)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (DEEP, ["it is nested too deeply"]),
        (
            '{"app": "A", "queues": {"q": {}, "q": {"ordering": "fifo"}}, "app": "B"}',
            [
                "an object has two members 'app': which of them counts?",
                "an object has two members 'q': which of them counts?",
            ],
        ),
    ],
    ids=["steps", "twins"],
)
def test_json_that_two_readers_would_read_in_two_ways_or_none_can(
    tmp_path: Path, text: str, messages: list[str]
) -> None:
    path = tmp_path / "app.json"
    path.write_text(text)
    assert [finding.message for finding in examine(str(path)).errors] == messages


def test_headers_that_are_kept_have_names_of_headers() -> None:
    text = 'app A { queue q {} webhook w { queue: q allow_ips: ["127.0.0.1"] headers: ["X-Event", "X Event"] } }'
    assert [finding.path for finding in check_reading(read_text(text))] == ["webhooks.w.headers[1]"]


@pytest.mark.parametrize(
    ("inside", "hint"),
    [
        ("queue q { delivery { visibility_timeout: 30 } }", "how long a claim lasts is the lease: write lease: 30s"),
        ("queue q { visibility_timeout: 30 }", "write delivery { lease: 30s }"),
        ("topic t { group g { visibility_timeout: 30 } }", "write delivery { lease: 30s }"),
        ("consumer c { visibility_timeout: 30 }", "write lease: 30s"),
        ('webhook w { verify_hmac { header: "X", secret: "s3cr3t" } }', 'write secret_env: "WEBHOOK_SECRET"'),
        ('webhook w { secret: "s3cr3t" }', 'write verify_hmac { secret_env: "WEBHOOK_SECRET" }'),
    ],
)
def test_words_of_other_systems_are_translated(inside: str, hint: str) -> None:
    reading = read_text(f"app A {{ {inside} }}")
    hints = [finding.hint for finding in check_reading(reading)]
    assert any(hint in str(one) for one in hints), hints


def test_the_command_of_a_group_is_checked_like_that_of_a_queue() -> None:
    text = """app A { topic t {
      group g { map_to: command Incident.Create { title: topic, severity: body.severity } }
      group h { map_to: command Incident.Create { title: key, sevrity: "low" } }
      group i { map_to: command Incident.Crate { title: topic } }
    } consumer c { queues: [t/g] } }"""
    found = check_reading(read_text(text), commands=[CREATE])
    assert [(one.path, one.message) for one in found] == [
        ("topics.t.groups.h.map_to.command", "Incident.Create needs the input 'severity'"),
        ("topics.t.groups.h.map_to.input_map.title", "this is optional string, and string is wanted"),
        ("topics.t.groups.h.map_to.input_map.sevrity", "Incident.Create has no input 'sevrity'"),
        ("topics.t.groups.i.map_to.command", "there is no command 'Incident.Crate'"),
    ]


def test_a_message_is_sent_on_or_runs_a_command() -> None:
    call, onward = {"entity_type": "A", "command": "B"}, {"queue": "r"}
    spec = from_json(msgspec.json.encode({"app": "A", "queues": {
        "q": {"message_type": {"x": "int"}, "map_to": call, "map_to_queue": onward}, "r": {},
    }}))  # fmt: skip
    [finding] = check(spec)
    assert finding.path == "queues.q.map_to_queue"
    assert finding.message == "a message runs a command or is sent on to a queue, not both"
