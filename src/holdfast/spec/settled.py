"""Whether the client would accept what a spec says: its own rules are asked, with the settings that it would get."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from holdfast.core.notice import owner_spec
from holdfast.core.queue import READERS, channel_name, owner_name
from holdfast.core.replies import REPLIES, is_reply_queue
from holdfast.core.routing import patterns_of, topic_name
from holdfast.core.saga import Wait, saga_spec
from holdfast.core.schedule import schedule_spec
from holdfast.core.topic import GroupSettings, TopicSettings, group_name, group_spec, start_of, topic_spec
from holdfast.errors import InvalidInput
from holdfast.runtime.consumer import Consumer as RuntimeConsumer
from holdfast.runtime.pool import Pool as RuntimePool
from holdfast.spec import declaring
from holdfast.spec.findings import Findings
from holdfast.spec.model import Group, Queue, Retry, Saga, Spec, Step, Topic, Webhook
from holdfast.spec.reading import Path
from holdfast.spec.shapes import MOST_FIELDS, read_shape

MOST_INPUTS = 200


def look(spec: Spec, findings: Findings) -> None:
    """Asks about every part of a spec."""
    findings.obey(("app",), lambda: channel_name(spec.app, "the name of the app"))
    for name, queue in spec.queues.items():
        _queue(("queues", name), name, queue, findings)
    for name, topic in spec.topics.items():
        _topic(("topics", name), name, topic, findings)
    for name, webhook in spec.webhooks.items():
        _webhook(("webhooks", name), name, webhook, findings)
    _others(spec, findings)
    for name, saga in spec.sagas.items():
        _saga(("sagas", name), name, saga, findings)


def _saga(path: Path, name: str, saga: Saga, findings: Findings) -> None:
    findings.obey(path, partial(channel_name, name))
    _fields((*path, "data"), saga.data, findings)
    settings: dict[str, Any] = {"on_failure": saga.on_failure, "owner": saga.owner, "keep": saga.keep}
    findings.obey(path, lambda: saga_spec([Wait("any", delay=0)], **settings), settings)
    for here, step in saga_steps((*path, "steps"), saga.steps):
        if step.does == 1 and not step.parallel:
            findings.obey(here, partial(declaring.step_of, step, read=str), step.__struct_fields__)


def saga_steps(path: Path, steps: list[Step]) -> Iterator[tuple[Path, Step]]:
    """All steps, also those inside of others, and where they stand."""
    for number, step in enumerate(steps):
        yield (*path, number), step
        yield from saga_steps((*path, number, "parallel"), step.parallel)


def _queue(path: Path, name: str, queue: Queue, findings: Findings) -> None:
    findings.obey(path, partial(topic_name if queue.names_below else channel_name, name))
    if is_reply_queue(name):
        findings.error(path, f"{name!r} cannot be declared: queues whose names begin with {REPLIES} are hf.ask's own")
    _fields((*path, "message_type"), queue.message_type, findings)
    _retry((*path, "delivery"), queue.delivery, findings)
    for setting, value in declaring.plain_settings(queue, declaring.QUEUE).items():
        place = declaring.QUEUE[setting]
        findings.obey((*path, *place), partial(READERS[setting], place[-1], value))
    _sqs((*path, "delivery"), queue, findings)


def _sqs(path: Path, queue: Queue, findings: Findings) -> None:
    """What is said of SQS, where it delivers; there it is named, so that everyone who reads the file knows it."""
    delivery = queue.delivery
    if delivery.via == "sqs" and delivery.sqs_queue is None and not queue.external:
        findings.error(path, 'via: sqs needs the name or URL of the SQS queue: sqs_queue: "tasks"')
    if delivery.via != "sqs" and (delivery.sqs_queue is not None or delivery.sqs_fallback is not None):
        findings.error(path, "sqs_queue and sqs_fallback are for queues with via: sqs")


def _topic(path: Path, name: str, topic: Topic, findings: Findings) -> None:
    findings.obey(path, partial(topic_name, name))
    settings = declaring.topic_settings(topic)
    findings.obey(path, lambda: topic_spec(cast("TopicSettings", settings)), settings)
    for group_called, group in topic.groups.items():
        _group((*path, "groups", group_called), name, group_called, group, findings)


def _group(path: Path, topic: str, name: str, group: Group, findings: Findings) -> None:
    findings.obey(path, partial(group_name, name))
    findings.obey((*path, "start"), lambda: start_of(declaring.start_of(group.start)))
    findings.obey((*path, "patterns"), lambda: patterns_of(topic, group.patterns or None))
    _retry((*path, "delivery"), group.delivery, findings)
    for setting, value in declaring.plain_settings(group, declaring.GROUP).items():
        one = cast("GroupSettings", {setting: value})
        findings.obey((*path, *declaring.GROUP[setting]), partial(group_spec, (), one))


def _webhook(path: Path, name: str, webhook: Webhook, findings: Findings) -> None:
    findings.obey(path, partial(channel_name, name))
    if webhook.max_size is not None:
        findings.obey((*path, "max_size"), lambda: READERS["max_size"]("max_size", webhook.max_size))


def _others(spec: Spec, findings: Findings) -> None:
    for name, owner in spec.owners.items():
        settings = declaring.owner_settings(owner)
        findings.obey(("owners", name), partial(owner_name, name))
        if owner.owner != name:  # That is a circle, and said elsewhere.
            findings.obey(("owners", name), partial(owner_spec, name, **settings), settings)
    for name, consumer in spec.consumers.items():
        options = declaring.consumer_options(name, consumer)
        findings.obey(("consumers", name), partial(_consumer, consumer.queues, options), options)
    for name, pool in spec.pools.items():
        options = declaring.pool_options(name, pool)
        findings.obey(
            ("pools", name),
            partial(RuntimePool, cast("Any", SimpleNamespace(name=name)), cast("Any", options)),
            options,
        )
    for name, schedule in spec.schedules.items():
        settings = declaring.schedule_settings(schedule)
        findings.obey(("schedules", name), partial(channel_name, name))
        findings.obey(("schedules", name), partial(schedule_spec, cast("Any", settings)), settings)


def _consumer(queues: list[str], options: dict[str, Any]) -> None:
    RuntimeConsumer(cast("Any", None), stand_in, queues, **options)


def stand_in(message: object) -> None:
    """The handler of a consumer whose own is not known yet."""


def _retry(path: Path, retry: Retry, findings: Findings) -> None:
    """The waits between attempts are numbers that only make sense together."""
    findings.obey((*path, "max_attempts"), partial(READERS["max_attempts"], "max_attempts", retry.max_attempts))
    for name in ("initial_backoff_ms", "max_backoff_ms", "jitter"):
        if getattr(retry, name) < 0:
            findings.error((*path, name), f"{name} must not be below 0")
            return
    first, longest = retry.initial_backoff_ms, retry.max_backoff_ms
    if first > longest and not retry.backoff_steps_ms:
        findings.error(
            (*path, "initial_backoff_ms"), f"the first wait ({first} ms) is above the longest ({longest} ms)"
        )
        return
    findings.obey(path, partial(declaring.backoff_of, retry), ("jitter",))


def _fields(path: Path, fields: dict[str, str], findings: Findings) -> None:
    if len(fields) > MOST_FIELDS:
        findings.error(path, f"there are {len(fields)} fields; at most {MOST_FIELDS} are allowed")
    for name, text in fields.items():
        findings.obey((*path, name), partial(_readable, text))


def _readable(text: str) -> None:
    if str(read_shape(text)) != text:
        raise InvalidInput(f"{text!r} is not the canonical form of {read_shape(text)}")
