"""Whether the client would accept what a spec says: its own rules are asked, with the settings that it would get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from holdfast.core.given import Reader
from holdfast.core.queue import READERS, channel_name, owner_name
from holdfast.core.retry import Backoff
from holdfast.errors import InvalidInput
from holdfast.notices.rules import owner_spec
from holdfast.replies.rules import REPLIES, is_reply_queue
from holdfast.sagas.rules.declaration import Wait, saga_spec
from holdfast.schedules.rules import schedule_change, schedule_spec
from holdfast.spec import declarations
from holdfast.spec.findings import Findings
from holdfast.spec.model import (
    ConsumerDeclaration,
    GroupDeclaration,
    OwnerDeclaration,
    QueueDeclaration,
    RetryPolicy,
    SagaDeclaration,
    Spec,
    StepDeclaration,
    TopicDeclaration,
    WebhookDeclaration,
)
from holdfast.spec.reading import BACKOFF, Path
from holdfast.spec.shapes import MOST_FIELDS, read_shape
from holdfast.topics.rules.declaration import (
    GROUP_READERS,
    TOPIC_READERS,
    TopicSettings,
    group_name,
    reader_name,
    start_of,
    topic_spec,
)
from holdfast.topics.rules.routing import patterns_of, topic_name
from holdfast.worker.consumer import Consumer as RuntimeConsumer
from holdfast.worker.pools.pool import READERS as POOL_READERS
from holdfast.worker.pools.pool import Pool as RuntimePool

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


def _saga(path: Path, name: str, saga: SagaDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(channel_name, name))
    _fields((*path, "data"), saga.data, findings)
    if saga.owner is not None:
        findings.obey((*path, "owner"), partial(channel_name, saga.owner, "owner"))
    findings.obey((*path, "keep"), lambda: saga_spec([Wait("any", delay=0)], "stop", None, saga.keep))
    for here, step in saga_steps((*path, "steps"), saga.steps):
        if not step.parallel:
            _step(here, step, findings)


def _step(path: Path, step: StepDeclaration, findings: Findings) -> None:
    """Setting by setting, beside something that such a step could do."""
    targets = ("queue", "command", "event", "wait", "until")
    does: dict[str, Any] = {"queue": "any"}
    if step.does and step.queue is None and step.command is None:
        does = {"wait": 0} if step.event is None else {"event": "any"}
    findings.obey(path, lambda: declarations.step_of(StepDeclaration(name=step.name, wait=0)))
    for field in (*targets, "undo", "undo_queue", "timeout", "retry"):
        if (value := getattr(step, field)) is not None:
            alone = {**({} if field in targets else does), field: value}
            findings.obey((*path, field), partial(_step_alone, alone))
    _backoff(path, step, findings)


def _step_alone(settings: dict[str, Any]) -> None:
    declarations.step_of(StepDeclaration(name="any", **settings), read=str)


def saga_steps(path: Path, steps: list[StepDeclaration]) -> Iterator[tuple[Path, StepDeclaration]]:
    """All steps, also those inside of others, and where they stand."""
    for number, step in enumerate(steps):
        yield (*path, number), step
        yield from saga_steps((*path, number, "parallel"), step.parallel)


def _queue(path: Path, name: str, queue: QueueDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(topic_name if queue.names_below else channel_name, name))
    if is_reply_queue(name):
        findings.error(path, f"{name!r} cannot be declared: queues whose names begin with {REPLIES} are hf.ask's own")
    _fields((*path, "message_type"), queue.message_type, findings)
    _retry((*path, "delivery"), queue.delivery, findings)
    for setting, value in declarations.plain_settings(queue, declarations.QUEUE).items():
        place = declarations.QUEUE[setting]
        findings.obey_each((*path, *place), partial(READERS[setting], place[-1]), value)
    _sqs((*path, "delivery"), queue, findings)


def _sqs(path: Path, queue: QueueDeclaration, findings: Findings) -> None:
    """What is said of SQS, where it delivers; there it is named, so that everyone who reads the file knows it."""
    delivery = queue.delivery
    if delivery.via == "sqs" and delivery.sqs_queue is None and not queue.external:
        findings.error(
            path, 'via: sqs needs the name or URL of the SQS queue: sqs_queue: "tasks"', lacks=[(*path, "sqs_queue")]
        )
    if delivery.via != "sqs" and (delivery.sqs_queue is not None or delivery.sqs_fallback is not None):
        findings.error(path, "sqs_queue and sqs_fallback are for queues with via: sqs", lacks=[(*path, "via")])


def _topic(path: Path, name: str, topic: TopicDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(topic_name, name))
    settings = declarations.topic_settings(topic)
    bad = _bad(path, TOPIC_READERS, settings, findings)
    findings.obey_together(path, lambda some: topic_spec(cast("TopicSettings", some)), settings, bad)
    for group_called, group in topic.groups.items():
        _group((*path, "groups", group_called), name, group_called, group, findings)


def _group(path: Path, topic: str, name: str, group: GroupDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(group_name, name))
    findings.obey((*path, "start"), lambda: start_of(declarations.start_of(group.start)))
    findings.obey_each((*path, "patterns"), lambda some: patterns_of(topic, some or None), group.patterns)
    _retry((*path, "delivery"), group.delivery, findings)
    for setting, value in declarations.plain_settings(group, declarations.GROUP).items():
        findings.obey_each((*path, *declarations.GROUP[setting]), partial(GROUP_READERS[setting], setting), value)


def _webhook(path: Path, name: str, webhook: WebhookDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(channel_name, name))
    if webhook.max_size is not None:
        findings.obey((*path, "max_size"), lambda: READERS["max_size"]("max_size", webhook.max_size))


def _others(spec: Spec, findings: Findings) -> None:
    for name, owner in spec.owners.items():
        _owner(("owners", name), name, owner, findings)
    for name, consumer in spec.consumers.items():
        _consumer(("consumers", name), name, consumer, findings)
    for name, pool in spec.pools.items():
        path, options = ("pools", name), declarations.pool_options(name, pool)
        findings.obey(path, partial(channel_name, options.pop("name")))
        bad = _bad(path, POOL_READERS, options, findings)
        findings.obey_together(path, partial(RuntimePool, cast("Any", SimpleNamespace(name="any"))), options, bad)
    for name, schedule in spec.schedules.items():
        findings.obey(("schedules", name), partial(channel_name, name))
        _schedule(("schedules", name), declarations.schedule_settings(schedule), findings)


def _bad(path: Path, readers: Mapping[str, Reader], settings: dict[str, Any], findings: Findings) -> set[str]:
    """The settings that are wrong by themselves, after this was said of each."""
    return {
        name
        for name, value in settings.items()
        if not findings.obey((*path, name), partial(readers[name], name, value))
    }


def _owner(path: Path, name: str, owner: OwnerDeclaration, findings: Findings) -> None:
    findings.obey(path, partial(owner_name, name))
    if owner.owner is not None:
        findings.obey((*path, "owner"), partial(owner_name, owner.owner, "owner"))
    usual = declarations.owner_settings(OwnerDeclaration())
    for setting, value in declarations.owner_settings(owner).items():
        if setting != "owner":  # Whose circles are looked for elsewhere.
            findings.obey((*path, setting), partial(owner_spec, "any", **{**usual, setting: value}))


def _schedule(path: Path, settings: dict[str, Any], findings: Findings) -> None:
    timing = {name: settings.pop(name) for name in ("cron", "every")}
    for setting, value in settings.items():
        findings.obey((*path, setting), partial(schedule_change, cast("Any", {setting: value})))
    given = {name: value for name, value in timing.items() if value is not None}
    lacks = [] if given else [(*path, name) for name in timing]
    findings.obey(path, partial(schedule_spec, cast("Any", {"queue": "any", **given})), given, lacks)
    for name, value in given.items() if len(given) > 1 else ():
        findings.obey((*path, name), partial(schedule_spec, cast("Any", {"queue": "any", name: value})))


def _consumer(path: Path, name: str, consumer: ConsumerDeclaration, findings: Findings) -> None:
    """Setting by setting; only weights need others beside them: queues, and a policy that has weights."""
    findings.obey(path, partial(channel_name, name))
    queues = [
        one
        for number, one in enumerate(consumer.queues)
        if findings.obey((*path, "queues", number), partial(reader_name, one, "queue"))
    ]

    def made(**options: Any) -> None:
        RuntimeConsumer(cast("Any", None), stand_in, queues, **{"name": "any", **options})

    options = declarations.consumer_options("any", consumer)
    refused, some_unread = set(consumer.queues).difference(queues), findings.may_be_unread((*path, "queues"))
    weights = {
        one: weight
        for one, weight in options.pop("weights").items()
        if one not in refused and (one in queues or not some_unread)
    }
    for setting, value in options.items():
        findings.obey_each((*path, setting), partial(_alone, made, setting), value)
    findings.obey_each((*path, "weights"), lambda some: made(policy="weighted", weights=some), weights)
    if consumer.policy != "weighted":
        lacks = [(*path, "policy")]
        findings.obey((*path, "weights"), lambda: made(policy=consumer.policy, weights=weights), lacks=lacks)


def _alone(made: Callable[..., None], setting: str, value: Any) -> None:
    made(**{setting: value})


def stand_in(message: object) -> None:
    """The handler of a consumer whose own is not known yet."""


def _retry(path: Path, retry: RetryPolicy, findings: Findings) -> None:
    """The waits between attempts are numbers that only make sense together."""
    findings.obey((*path, "max_attempts"), partial(READERS["max_attempts"], "max_attempts", retry.max_attempts))
    if retry.jitter < 0:
        findings.error((*path, "jitter"), "jitter must not be below 0")
    else:
        findings.obey((*path, "jitter"), lambda: Backoff(jitter=retry.jitter))
    _backoff(path, retry, findings)


def _backoff(path: Path, waits: RetryPolicy | StepDeclaration, findings: Findings) -> None:
    good = True
    for name in ("initial_backoff_ms", "max_backoff_ms"):
        wait = getattr(waits, name)
        if wait < 0:
            findings.error((*path, name), f"{name} must not be below 0")
        good &= wait >= 0 and findings.obey((*path, name), partial(Backoff, wait / 1000, wait / 1000))
    for number, wait in enumerate(waits.backoff_steps_ms):
        findings.obey((*path, "backoff_steps_ms", number), partial(Backoff, steps=(wait / 1000,)))
    first, longest = waits.initial_backoff_ms, waits.max_backoff_ms
    if good and first > longest and not waits.backoff_steps_ms:
        text = f"the first wait ({first} ms) is above the longest ({longest} ms)"
        findings.error((*path, "initial_backoff_ms"), text, lacks=[(*path, name) for name in BACKOFF])


def _fields(path: Path, fields: dict[str, str], findings: Findings) -> None:
    if len(fields) > MOST_FIELDS:
        findings.error(path, f"there are {len(fields)} fields; at most {MOST_FIELDS} are allowed")
    for name, text in fields.items():
        findings.obey((*path, name), partial(_readable, text))


def _readable(text: str) -> None:
    if str(read_shape(text)) != text:
        raise InvalidInput(f"{text!r} is not the canonical form of {read_shape(text)}")
