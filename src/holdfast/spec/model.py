"""What a spec says, as plain typed data: the form that `check`, `plan`, `apply` and `serve` work with.

It is JSON and back, with the names of the language; `grammar.py` derives from it what may stand in which block.
Durations are seconds, rates are texts such as "5/m", types and expressions are their canonical texts: a person can
read and compare them, and they outlive the trees that a version of Holdfast makes of them.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from holdfast.commitments.rules import TIMEOUT
from holdfast.core.duration import seconds
from holdfast.core.queue import QueueSpec
from holdfast.core.retry import JITTER
from holdfast.notices.rules import OwnerSpec
from holdfast.sagas.rules.declaration import KEEP
from holdfast.spec.webhook_v0 import rewrite
from holdfast.topics.rules.declaration import GroupSpec, TopicSpec, address
from holdfast.worker.pools.restarts import Restarts
from holdfast.worker.pools.scaling import PoolSpec

Number = int | float
Name = Annotated[str, Meta(extra={"kind": "name"})]
Text = Annotated[str, Meta(extra={"kind": "text"})]
Seconds = Annotated[Number, Meta(description="seconds", extra={"kind": "duration"})]
Milliseconds = Annotated[Number, Meta(description="milliseconds", extra={"kind": "milliseconds"})]
RateText = Annotated[str, Meta(description='such as "100/s", "10/30s"', extra={"kind": "rate"})]
Expression = Annotated[str, Meta(description="an expression, as canonical text", extra={"kind": "expression"})]
Fields = Annotated[dict[str, str], Meta(description="names of fields and their types", extra={"kind": "fields"})]
Inputs = Annotated[dict[str, Expression], Meta(extra={"kind": "inputs"})]
Labels = Annotated[dict[str, str], Meta(extra={"kind": "map", "of": "text"})]
Weights = Annotated[dict[str, Number], Meta(extra={"kind": "map", "of": "number"})]
Headers = Annotated[dict[str, Any], Meta(extra={"kind": "map", "of": "json"})]
Json = Annotated[Any, Meta(extra={"kind": "json"})]
Priority = Annotated[Literal["urgent", "high", "normal", "low"], Meta(extra={"kind": "priority"})]

Ordering = Literal["unordered", "fifo", "per_key"]
Empty = Literal["poll", "hibernate", "terminate"]
Scheme = Literal["hex", "github", "pagerduty", "stripe", "slack", "standard", "shopify"]

_QUEUE = QueueSpec()
_GROUP = GroupSpec()
_TOPIC = TopicSpec()
_OWNER = OwnerSpec("")
_POOL = PoolSpec()
_RESTARTS = Restarts()
_KEEP = int(seconds(KEEP, "keep"))


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Anything in a spec. What has its default is left out of the JSON, but for what is `always` there."""

    always: ClassVar[tuple[str, ...]] = ()


class CommandCall(Part, frozen=True):
    """A command, and what it is given: expressions over the fields of a message."""

    always: ClassVar[tuple[str, ...]] = ("input_map",)

    entity_type: str
    command: str
    input_map: Inputs = {}

    @property
    def name(self) -> str:
        """As `@hf.command` has it."""
        return f"{self.entity_type}.{self.command}"


class ForwardCall(Part, frozen=True):
    """Another queue, and the fields of the message that it gets: expressions over the one before it."""

    always: ClassVar[tuple[str, ...]] = ("input_map",)

    queue: Name
    input_map: Inputs = {}


class CommitmentDeclaration(Part, frozen=True):
    """What must be true before a message counts as done: a shell command that checks it."""

    name: Text
    check: Text
    timeout: Seconds = TIMEOUT


class DeadRetention(Part, frozen=True):
    """How long dead letters are kept; for ever unless said."""

    dead_retention: Seconds | None = None


class RetentionDeclaration(DeadRetention, frozen=True):
    """How long and how many messages are kept."""

    max_age_seconds: Seconds | None = _QUEUE.max_age
    max_depth: int | None = _QUEUE.max_depth
    history: Seconds = _QUEUE.history
    history_limit: int = _QUEUE.history_limit
    idempotency_window: Seconds = _QUEUE.idempotency_window


class RetryPolicy(Part, frozen=True):
    """How often something is tried, and how long it waits in between: doubling, or as `backoff_steps_ms` say."""

    always: ClassVar[tuple[str, ...]] = ("max_attempts", "initial_backoff_ms", "max_backoff_ms")

    max_attempts: int = _QUEUE.max_attempts
    initial_backoff_ms: Milliseconds = 1000
    max_backoff_ms: Milliseconds = 60_000
    backoff_steps_ms: list[Milliseconds] = []
    jitter: Number = JITTER


class Delivery(RetryPolicy, frozen=True):
    """How messages reach consumers, and what becomes of those that never succeed."""

    lease: Seconds = _QUEUE.lease
    dead_letter_queue: Name | None = None
    on_dead: Literal["continue", "block"] = "continue"


class QueueDelivery(Delivery, frozen=True):
    """The same, and by whom: the database itself, or SQS; and an SQS queue that is told of deaths."""

    via: Literal["database", "sqs"] = "database"
    sqs_queue: Text | None = None
    sqs_fallback: Seconds | None = None
    dead_events: Text | None = None


class Limits(Part, frozen=True):
    """How much may be worked on at once and per time, and what may be spent."""

    concurrency: int | None = None
    rate: RateText | None = None
    key_concurrency: int | None = None
    key_rate: RateText | None = None
    budget: Number | None = None
    message_budget: Number | None = None
    max_time: Seconds | None = None
    max_repeats: int | None = None


class QueueLimits(Limits, frozen=True):
    """The same, and how large a message may be, in bytes."""

    max_size: int = _QUEUE.max_size


class QueueDeclaration(Part, frozen=True):
    """A queue: the seed's `QueueSpecV0`, and what Holdfast adds. An `external` one is declared by someone else."""

    always: ClassVar[tuple[str, ...]] = ("message_type", "ordering", "retention", "delivery")

    message_type: Fields = {}
    ordering: Ordering = "unordered"
    retention: RetentionDeclaration = RetentionDeclaration()
    delivery: QueueDelivery = QueueDelivery()
    limits: QueueLimits = QueueLimits()
    owner: Name | None = None
    empty: Empty = "poll"
    requires: Labels = {}
    commitments: list[CommitmentDeclaration] = []
    map_to: CommandCall | None = None
    map_to_queue: ForwardCall | None = None
    names_below: bool = False
    external: bool = False


class GroupDeclaration(Part, frozen=True):
    """A group of a topic: what it wants, and how its messages are worked on."""

    patterns: list[Text] = []
    start: Name = "latest"
    ordering: Ordering = "unordered"
    retention: DeadRetention = DeadRetention()
    delivery: Delivery = Delivery()
    limits: Limits = Limits()
    catch_up_rate: RateText | None = None
    timeout: Seconds | None = _GROUP.timeout
    misses: int = _GROUP.misses
    owner: Name | None = None
    empty: Empty = "poll"
    requires: Labels = {}
    commitments: list[CommitmentDeclaration] = []
    map_to: CommandCall | None = None
    map_to_queue: ForwardCall | None = None


class TopicDeclaration(Part, frozen=True):
    """A topic and its groups. An `external` one is declared by someone else; its groups here are ours."""

    retention: Seconds = _TOPIC.retention
    min_retention: Seconds | None = _TOPIC.min_retention
    no_subscribers: Literal["keep", "refuse"] = "keep"
    max_size: int = _TOPIC.max_size
    max_depth: int | None = _TOPIC.max_depth
    idempotency_window: Seconds = _TOPIC.idempotency_window
    groups: dict[str, GroupDeclaration] = {}
    external: bool = False


class OwnerDeclaration(Part, frozen=True):
    """Who answers for dead letters."""

    inbox: Name | None = None
    owner: Name | None = None
    escalate_after: Seconds | None = _OWNER.escalate_after
    notify: Literal["each", "digest"] = "each"
    digest_every: Seconds = _OWNER.digest_every


class ConsumerDeclaration(Part, frozen=True):
    """A consumer of queues and groups: a function (`module:function`), a program, or the commands of its queues."""

    queues: list[Name] = []
    handler: Text | None = None
    exec: Text | None = None
    policy: Literal["round_robin", "weighted", "strict", "random"] = "round_robin"
    weights: Weights = {}
    concurrency: int = 1
    lease: Seconds | None = None
    timeout: Seconds | None = None
    empty: Empty | None = None
    labels: Labels = {}
    isolation: Literal["thread", "process"] = "thread"
    preflight: Text | None = None
    trust_commitments: bool = False


class PoolDeclaration(Part, frozen=True):
    """Several of a consumer, as many as the work needs. The consumer is that of the pool's name unless given."""

    consumer: Name | None = None
    min: int = _POOL.least
    max: int = _POOL.most
    scale_up_depth: int = _POOL.up_depth
    scale_down_depth: int = _POOL.down_depth
    scale_up_age: Seconds = _POOL.up_age
    cooldown: Seconds = _POOL.cooldown
    members: Literal["process", "thread"] = "process"
    owner: Name | None = None
    max_crashes: int = _RESTARTS.most
    crash_window: Seconds = _RESTARTS.window


class ScheduleDeclaration(Part, frozen=True):
    """A message that is sent by the clock."""

    queue: Name
    body: Json = None
    cron: Text | None = None
    every: Seconds | None = None
    tz: Text = "UTC"
    missed: Literal["skip", "once", "all"] = "once"
    priority: Priority = "normal"
    key: Text | None = None
    headers: Headers = {}


class VerifyHmac(Part, frozen=True):
    """How a webhook's signature is checked. Secrets are names of environment variables, never secrets.

    Without a `scheme` the header tells it. `tolerance` is by how much a signed time may differ from ours.
    """

    header: Text
    secret_env: Text | None = None
    secrets: list[Text] = []
    scheme: Scheme | None = None
    tolerance: Seconds = 300

    @property
    def variables(self) -> list[str]:
        """The environment variables with secrets: each of them is accepted, for rotation."""
        return [*([self.secret_env] if self.secret_env else []), *self.secrets]


class WebhookDeclaration(Part, frozen=True):
    """What `POST /hook/{name}` does: into a queue, to a topic, or at once a command. Expressions see the envelope."""

    queue: Name | None = None
    topic: Name | None = None
    command: CommandCall | None = None
    verify_hmac: VerifyHmac | None = None
    idempotency_key: Expression | None = None
    filter: Expression | None = None
    routing: Expression | None = None
    key: Expression | None = None
    priority: Expression | None = None
    allow_ips: list[Text] = []
    max_size: int | None = None
    forms: bool = False
    headers: list[Text] = []


class StepDeclaration(Part, frozen=True):
    """A step of a saga: a queue, a command, an event or a time to wait for, or several steps in parallel.

    `retry` is how often it is sent again when its queue has given up, with the backoff in between.
    """

    name: Text
    queue: Name | None = None
    command: CommandCall | None = None
    event: Text | None = None
    wait: Seconds | None = None
    until: Expression | None = None
    parallel: list[StepDeclaration] = []
    input: Expression | None = None
    undo: CommandCall | None = None
    undo_queue: Name | None = None
    undo_input: Expression | None = None
    when: Expression | None = None
    timeout: Seconds | None = None
    retry: int = 0
    initial_backoff_ms: Milliseconds = 0
    max_backoff_ms: Milliseconds = 0
    backoff_steps_ms: list[Milliseconds] = []

    @property
    def does(self) -> int:
        """How many things it does; a step does one."""
        ways = (self.queue, self.command, self.event, self.wait, self.until, self.parallel or None)
        return sum(one is not None for one in ways)


class SagaDeclaration(Part, frozen=True):
    """Long work in steps, which is finished or undone. `data` is what it is started with."""

    data: Fields = {}
    on_failure: Literal["compensate", "stop"] = "compensate"
    owner: Name | None = None
    keep: Seconds | None = _KEEP
    steps: list[StepDeclaration] = []

    @property
    def calls(self) -> list[CommandCall]:
        """The commands that it runs."""
        each = [inner for step in self.steps for inner in (step, *step.parallel)]
        return [call for step in each for call in (step.command, step.undo) if call is not None]


class Spec(Part, frozen=True):
    """A whole app."""

    app: Name
    owners: dict[str, OwnerDeclaration] = {}
    queues: dict[str, QueueDeclaration] = {}
    topics: dict[str, TopicDeclaration] = {}
    webhooks: dict[str, WebhookDeclaration] = {}
    consumers: dict[str, ConsumerDeclaration] = {}
    pools: dict[str, PoolDeclaration] = {}
    schedules: dict[str, ScheduleDeclaration] = {}
    sagas: dict[str, SagaDeclaration] = {}

    @property
    def group_onwards(self) -> dict[str, ForwardCall]:
        """Where groups send their messages on to, by their addresses."""
        groups = [(topic, name, one) for topic, of in self.topics.items() for name, one in of.groups.items()]
        return {address(topic, name): one.map_to_queue for topic, name, one in groups if one.map_to_queue is not None}

    @property
    def group_calls(self) -> dict[str, CommandCall]:
        """The commands of groups, by their addresses."""
        groups = [(topic, name, one) for topic, of in self.topics.items() for name, one in of.groups.items()]
        return {address(topic, name): one.map_to for topic, name, one in groups if one.map_to is not None}

    @property
    def dead_letter_queues(self) -> set[str]:
        """The queues that are told of deaths."""
        deliveries: list[Delivery] = [queue.delivery for queue in self.queues.values()]
        deliveries += [group.delivery for topic in self.topics.values() for group in topic.groups.values()]
        return {one.dead_letter_queue for one in deliveries if one.dead_letter_queue is not None}


def to_plain(part: Any) -> Any:
    """A spec, or a part of one, as JSON can say it: what has its default is left out."""
    if isinstance(part, Part):
        shown = ((name, default, getattr(part, name)) for name, default in defaults_of(type(part)).items())
        return {name: to_plain(value) for name, default, value in shown if name in part.always or value != default}
    if isinstance(part, dict):
        return {name: to_plain(value) for name, value in part.items()}
    return [to_plain(value) for value in part] if isinstance(part, list) else part


@cache
def defaults_of(part: type[Part]) -> dict[str, Any]:
    """What each field of a part has if nothing is said; `NODEFAULT` if something must be."""
    return {field.name: _default(field) for field in msgspec.structs.fields(part)}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def to_json(spec: Spec) -> bytes:
    """A spec as JSON."""
    return msgspec.json.encode(to_plain(spec))


def from_json(raw: bytes | str) -> Spec:
    """A spec that was written as JSON, by whomever; raises `msgspec.ValidationError` with the path. Check it."""
    return msgspec.convert(rewrite(msgspec.json.decode(raw))[0], Spec)


def json_schema() -> dict[str, Any]:
    """What JSON can be a spec, as JSON Schema."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Spec)}
