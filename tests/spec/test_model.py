"""The model: JSON and back, the seed's names, and the defaults of the client."""

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.core.queue import READERS, QueueSettings, QueueSpec, queue_spec
from holdfast.notices.rules import OwnerSpec, owner_spec
from holdfast.schedules.rules import ScheduleSettings
from holdfast.spec import declarations
from holdfast.spec.files import examine
from holdfast.spec.grammar import grammar_of
from holdfast.spec.model import (
    CommandCall,
    ConsumerDeclaration,
    GroupDeclaration,
    OwnerDeclaration,
    Part,
    PoolDeclaration,
    QueueDeclaration,
    SagaDeclaration,
    ScheduleDeclaration,
    Spec,
    TopicDeclaration,
    from_json,
    json_schema,
    to_json,
)
from holdfast.topics.rules.declaration import (
    GROUP_READERS,
    TOPIC_READERS,
    GroupSettings,
    GroupSpec,
    TopicSettings,
    TopicSpec,
    group_spec,
    topic_spec,
)
from holdfast.worker.consumer import ConsumerOptions
from holdfast.worker.pools.pool import PoolOptions

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "spec.schema.json"

SEED = {
    "message_type": {"payload": "json"},
    "ordering": "fifo",
    "retention": {"max_age_seconds": 86400, "max_depth": 10000},
    "delivery": {
        "max_attempts": 5,
        "initial_backoff_ms": 1000,
        "max_backoff_ms": 60000,
        "dead_letter_queue": "Dead",
    },
    "map_to": {"entity_type": "Incident", "command": "Create", "input_map": {"title": "payload.title"}},
}


def test_the_seeds_names_are_accepted_and_emitted() -> None:
    spec = from_json(json.dumps({"app": "A", "queues": {"Q": SEED, "Dead": {}}}))
    assert spec.queues["Q"].delivery.dead_letter_queue == "Dead"
    assert json.loads(to_json(spec))["queues"]["Q"] == SEED


OLDER = {"on_type": "Incident", "command": "CreateIncident", "verify": {"header": "X-Signature", "secret_env": "KEY"}}
"""A webhook as `WebhookSpecV0` has it."""

PAYLOAD = CommandCall(entity_type="Incident", command="CreateIncident", input_map={"payload": "payload"})


def older(**webhook: Any) -> dict[str, Any]:
    return {"app": "A", "queues": {"q": {"message_type": {"payload": "json"}}}, "webhooks": {"w": {**OLDER, **webhook}}}


def test_a_webhook_that_names_its_command_beside_its_queue() -> None:
    spec = from_json(json.dumps(older(queue="q")))
    webhook = spec.webhooks["w"]
    assert (webhook.queue, webhook.command, spec.queues["q"].map_to) == ("q", None, PAYLOAD)
    assert webhook.verify_hmac is not None
    assert webhook.verify_hmac.header == "X-Signature"
    assert from_json(to_json(spec)) == spec


def test_a_webhook_that_names_its_command_and_no_queue_runs_it_at_once() -> None:
    assert from_json(json.dumps(older())).webhooks["w"].command == PAYLOAD


def test_what_the_queue_says_about_its_command_counts() -> None:
    raw = older(queue="q")
    raw["queues"]["q"]["map_to"] = {"entity_type": "Incident", "command": "CreateIncident", "input_map": {"a": "1"}}
    call = from_json(json.dumps(raw)).queues["q"].map_to
    assert call is not None
    assert call.input_map == {"a": "1"}


def examined(tmp_path: Path, raw: dict[str, Any]) -> list[tuple[str, str, str]]:
    file = tmp_path / "app.json"
    file.write_text(json.dumps(raw))
    return [(one.severity, one.path, one.message) for one in examine(str(file)).findings]


def test_the_older_form_of_a_webhook_is_explained(tmp_path: Path) -> None:
    command = "on_type and command are an older form of the command Incident.CreateIncident"
    assert examined(tmp_path, older(queue="q")) == [
        ("warning", "webhooks.w", f"{command}: the queue 'q' runs it for each message, with the payload")
    ]
    assert examined(tmp_path, older()) == [
        ("warning", "webhooks.w", f"{command}: it is run at once and gets the payload")
    ]
    (_, missing) = examined(tmp_path, older(queue="r"))
    assert missing == ("error", "webhooks.w.queue", "there is no queue 'r'")


def test_a_webhook_and_its_queue_cannot_name_different_commands(tmp_path: Path) -> None:
    raw = older(queue="q")
    raw["queues"]["q"]["map_to"] = {"entity_type": "Incident", "command": "Close"}
    ((severity, path, message),) = examined(tmp_path, raw)
    assert (severity, path) == ("error", "webhooks.w.command")
    assert message == "the webhook names the command Incident.CreateIncident, but its queue 'q' runs another one"


@pytest.mark.parametrize("webhook", [{"on_type": 1, "command": "C"}, {"on_type": "E"}, {"command": "C"}, 7])
def test_half_of_the_older_form_is_refused(webhook: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        from_json(json.dumps({"app": "A", "webhooks": {"w": webhook}}))


def test_a_queue_always_shows_what_the_seed_requires() -> None:
    (queue,) = json.loads(to_json(Spec(app="A", queues={"q": QueueDeclaration()})))["queues"].values()
    assert queue == {
        "message_type": {},
        "ordering": "unordered",
        "retention": {},
        "delivery": {"max_attempts": 5, "initial_backoff_ms": 1000, "max_backoff_ms": 60000},
    }


def test_a_queue_that_says_nothing_is_a_queue_with_the_defaults() -> None:
    assert queue_spec(declarations.queue_settings(QueueDeclaration())) == QueueSpec()  # type: ignore[arg-type]


def test_a_group_that_says_nothing_is_a_group_with_the_defaults() -> None:
    settings = declarations.group_settings(GroupDeclaration())
    assert (settings.pop("patterns"), settings.pop("start")) == (None, "latest")
    assert group_spec((), settings) == GroupSpec()  # type: ignore[arg-type]


def test_topics_and_owners_have_the_defaults() -> None:
    assert topic_spec(declarations.topic_settings(TopicDeclaration())) == TopicSpec()  # type: ignore[arg-type]
    assert owner_spec("me", **declarations.owner_settings(OwnerDeclaration())) == OwnerSpec("me.inbox")


def test_every_setting_of_the_client_can_be_said() -> None:
    """Otherwise `apply`, for which a spec is the complete definition, would reset it."""
    assert (
        declarations.queue_settings(QueueDeclaration()).keys() == READERS.keys() == QueueSettings.__annotations__.keys()
    )
    assert (
        declarations.topic_settings(TopicDeclaration()).keys()
        == TOPIC_READERS.keys()
        == TopicSettings.__annotations__.keys()
    )
    assert declarations.group_settings(GroupDeclaration()).keys() - {"start"} == GROUP_READERS.keys()
    assert GROUP_READERS.keys() == GroupSettings.__annotations__.keys()
    assert (
        declarations.schedule_settings(ScheduleDeclaration(queue="q")).keys() == ScheduleSettings.__annotations__.keys()
    )
    assert declarations.owner_settings(OwnerDeclaration()).keys() == keywords_of(Holdfast.owner)
    assert declarations.saga_settings(SagaDeclaration()).keys() == keywords_of(Holdfast.saga)
    assert declarations.pool_options("p", PoolDeclaration()).keys() == PoolOptions.__annotations__.keys()
    said = {*declarations.consumer_options("c", ConsumerDeclaration()), "preflight"}
    assert ConsumerOptions.__annotations__.keys() - said == {"permanent", "middleware"}, "only Python can say these"


def keywords_of(method: Any) -> set[str]:
    return inspect.signature(method).parameters.keys() - {"self", "name"}


def fields_of(spec: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(spec)}


def test_every_stored_setting_can_be_declared() -> None:
    assert fields_of(QueueSpec) == READERS.keys()
    assert fields_of(TopicSpec) == TOPIC_READERS.keys()
    queues_only = {"history", "history_limit", "max_age", "max_size", "max_depth", "idempotency_window"}
    queues_only |= {"delivery", "sqs_queue", "sqs_fallback", "dead_events", "message_type"}
    assert fields_of(GroupSpec) - queues_only == GROUP_READERS.keys()


@pytest.mark.parametrize(
    ("part", "places"),
    [
        (QueueDeclaration, declarations.QUEUE),
        (TopicDeclaration, declarations.TOPIC),
        (GroupDeclaration, declarations.GROUP),
    ],
)
def test_every_setting_has_a_word_in_the_language(part: type[Part], places: declarations.Places) -> None:
    for setting, place in places.items():
        words = grammar_of(part)
        for word in place[:-1]:
            words = words[word].inside
        entry = words.get(place[-1]) or words.get(KEYWORD_OF.get(place[-1], ""))
        assert entry is not None, setting
        assert entry.field == place[-1]


KEYWORD_OF = {"commitments": "commitment"}


def test_where_a_group_begins() -> None:
    start: Any = declarations.start_of("2026-01-01T00:00:00Z")
    assert start.timestamp() == 1767225600
    assert declarations.start_of("earliest") == "earliest"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{}", "missing required field `app`"),
        ('{"app": "A", "queue": {}}', "unknown field `queue`"),
        ('{"app": "A", "queues": {"q": {"ordering": "random"}}}', "$.queues[...].ordering"),
        ('{"app": "A", "queues": {"q": {"delivery": {"max_attempts": "5"}}}}', "max_attempts"),
    ],
)
def test_other_json_is_refused_with_its_path(raw: str, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        from_json(raw)
    assert said in str(refused.value)


def test_the_published_schema_is_current() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema(), "python docs/make_spec_schema.py writes it anew"
