"""The model in the words of the client: what `hf.queue()`, `hf.topic()`, `hf.subscribe()` … are to be called with.

`QUEUE`, `GROUP` and so on say where in the model each of their settings stands, for those who look for the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast.commands.rules import command_queue
from holdfast.core.retry import Backoff
from holdfast.sagas.rules.data_selection import Expression
from holdfast.sagas.rules.declaration import Step as SagaStep
from holdfast.sagas.rules.declaration import Wait
from holdfast.spec.message_type import message_form
from holdfast.spec.model import (
    CommandCall,
    ConsumerDeclaration,
    GroupDeclaration,
    OwnerDeclaration,
    Part,
    PoolDeclaration,
    QueueDeclaration,
    RetryPolicy,
    SagaDeclaration,
    ScheduleDeclaration,
    StepDeclaration,
    TopicDeclaration,
    to_plain,
)

Places = dict[str, tuple[str, ...]]

_DELIVERY: Places = {
    "lease": ("delivery", "lease"),
    "dead_letter": ("delivery", "dead_letter_queue"),
    "on_dead": ("delivery", "on_dead"),
}
_LIMITS: Places = {
    name: ("limits", name)
    for name in (
        *("concurrency", "rate", "key_concurrency", "key_rate"),
        *("budget", "message_budget", "max_time", "max_repeats"),
    )
}
_COMMON: Places = {
    **_DELIVERY,
    **_LIMITS,
    **{name: (name,) for name in ("ordering", "owner", "empty", "requires", "commitments")},
    "dead_retention": ("retention", "dead_retention"),
}

QUEUE: Places = {
    **_COMMON,
    "max_age": ("retention", "max_age_seconds"),
    **{name: ("retention", name) for name in ("max_depth", "history", "history_limit", "idempotency_window")},
    "max_size": ("limits", "max_size"),
    "delivery": ("delivery", "via"),
    **{name: ("delivery", name) for name in ("sqs_queue", "sqs_fallback", "dead_events")},
}
TOPIC: Places = {
    name: (name,)
    for name in ("retention", "min_retention", "no_subscribers", "max_size", "max_depth", "idempotency_window")
}
GROUP: Places = {**_COMMON, **{name: (name,) for name in ("timeout", "misses", "catch_up_rate")}}


def queue_settings(queue: QueueDeclaration) -> dict[str, Any]:
    """The keywords of `hf.queue(name, …)`; `names_below` wants `hf.topic(mode="queue", …)`."""
    form = message_form(queue.message_type)
    return {**plain_settings(queue, QUEUE), **_retries(queue.delivery), "message_type": form}


def topic_settings(topic: TopicDeclaration) -> dict[str, Any]:
    """The keywords of `hf.topic(name, …)`."""
    return _fields(topic, *TOPIC)


def group_settings(group: GroupDeclaration) -> dict[str, Any]:
    """The keywords of `hf.subscribe(topic, name, …)`."""
    return {
        **plain_settings(group, GROUP),
        **_retries(group.delivery),
        "patterns": group.patterns or None,
        "start": start_of(group.start),
    }


def start_of(start: str) -> str | datetime:
    """Where a group begins: a word, the id of a message, or a time as RFC 3339 has it."""
    try:
        return datetime.fromisoformat(start)
    except ValueError:
        return start


def owner_settings(owner: OwnerDeclaration) -> dict[str, Any]:
    """The keywords of `hf.owner(name, …)`."""
    return _fields(owner, "inbox", "owner", "escalate_after", "notify", "digest_every")


def pool_options(name: str, pool: PoolDeclaration) -> dict[str, Any]:
    """The keywords of `hf.pool(consumer, …)`; the consumer is `pool.consumer or name`."""
    return {"name": name, **{field: getattr(pool, field) for field in pool.__struct_fields__ if field != "consumer"}}


def schedule_settings(schedule: ScheduleDeclaration) -> dict[str, Any]:
    """The keywords of `hf.schedule(name, …)`."""
    found = {field: getattr(schedule, field) for field in schedule.__struct_fields__}
    return {**found, "headers": schedule.headers or None}


def saga_settings(saga: SagaDeclaration) -> dict[str, Any]:
    """The keywords of `hf.saga(name, …)`."""
    steps = [[step_of(one, entry.when) for one in entry.parallel] or step_of(entry) for entry in saga.steps]
    return {"steps": steps, **_fields(saga, "on_failure", "owner", "keep")}


def step_of(
    step: StepDeclaration, together: str | None = None, read: Callable[[str], Any] = Expression
) -> SagaStep | Wait:
    """A step as `hf.saga` takes it; `together` is the condition of its parallel group. `read` reads expressions."""
    conditions = [text for text in (together, step.when) if text is not None]
    when = _read(" && ".join(f"({text})" for text in conditions) or None, read)
    if step.queue is None and step.command is None:
        until = _read(step.until, read)
        return Wait(step.name, signal=step.event, delay=step.wait, until=until, timeout=step.timeout, when=when)
    target, given = _target(step.queue, step.command, step.input, read)
    undo, undo_given = _target(step.undo_queue, step.undo, step.undo_input, read)
    assert target is not None, "there is a queue or a command"
    return SagaStep(
        step.name,
        target,
        undo=undo,
        timeout=step.timeout,
        retry=step.retry,
        backoff=_step_backoff(step),
        input=given,
        undo_input=undo_given,
        when=when,
    )


def _target(
    queue: str | None, call: CommandCall | None, given: str | None, read: Callable[[str], Any]
) -> tuple[Any, Any]:
    if call is not None:
        return command_queue(call.name), {name: read(text) for name, text in call.input_map.items()}
    return queue, _read(given, read)


def _read(text: str | None, read: Callable[[str], Any]) -> Any:
    return None if text is None else read(text)


def _step_backoff(step: StepDeclaration) -> Backoff:
    steps = tuple(wait / 1000 for wait in step.backoff_steps_ms)
    if steps:
        return Backoff(steps=steps, jitter=0.0)
    return Backoff(step.initial_backoff_ms / 1000, step.max_backoff_ms / 1000, jitter=0.0)


def consumer_options(name: str, consumer: ConsumerDeclaration) -> dict[str, Any]:
    """The keywords of `hf.consumer(*consumer.queues, …)`, but for `preflight`, which is a program here."""
    fields = ("policy", "weights", "concurrency", "lease", "timeout", "empty", "labels", "isolation")
    return {"name": name, **_fields(consumer, *fields, "trust_commitments")}


def backoff_of(retry: RetryPolicy) -> Backoff:
    """How long to wait after a failure; `InvalidInput` if that makes no sense."""
    steps = tuple(step / 1000 for step in retry.backoff_steps_ms)
    if steps:
        return Backoff(steps=steps, jitter=retry.jitter)
    return Backoff(retry.initial_backoff_ms / 1000, retry.max_backoff_ms / 1000, jitter=retry.jitter)


def plain_settings(part: QueueDeclaration | GroupDeclaration, places: Places) -> dict[str, Any]:
    """Every setting that stands in one place of the model."""
    found = {}
    for name, place in places.items():
        value: Any = part
        for step in place:
            value = getattr(value, step)
        found[name] = to_plain(value)
    return found


def _retries(retry: RetryPolicy) -> dict[str, Any]:
    return {"max_attempts": retry.max_attempts, "backoff": backoff_of(retry)}


def _fields(part: Part, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}
