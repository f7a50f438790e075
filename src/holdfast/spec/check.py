"""Whether a spec can work: every name leads somewhere, every value is in its range, every expression fits.

Ranges are not described here: the rules of the client itself are asked (`settled.py`).
"""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping

from holdfast.commands.rules import command_of
from holdfast.core.expressions.source import Span
from holdfast.spec import client_rules
from holdfast.spec.annotations import CommandLike, CommandSignature, wanted_by
from holdfast.spec.document import Block
from holdfast.spec.expression_checks import Formulas
from holdfast.spec.findings import Findings, SpecFinding, path_text
from holdfast.spec.model import (
    ConsumerDeclaration,
    Delivery,
    GroupDeclaration,
    QueueDeclaration,
    SagaDeclaration,
    Spec,
    StepDeclaration,
    TopicDeclaration,
    VerifyHmac,
    WebhookDeclaration,
)
from holdfast.spec.parser import MOST_PROBLEMS
from holdfast.spec.reading import Path, ReadSpec, Unread
from holdfast.topics.rules.declaration import parts
from holdfast.topics.rules.routing import names_above

MOST = {
    **dict.fromkeys(("owners", "queues", "topics", "webhooks", "consumers", "pools", "schedules", "sagas"), 1_000),
    "groups": 1_000,
    "steps": 200,
    "secrets": 10,
    "allow_ips": 1_000,
    "headers": 100,
}
"""So many of each a spec may have."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def check(
    spec: Spec,
    reading: ReadSpec | None = None,
    *,
    commands: Iterable[CommandLike] | None = None,
    consumers: Collection[str] | None = None,
    handlers: Callable[[str], object] | None = None,
    environ: Mapping[str, str] | None = None,
    serving: bool = False,
    unread: Unread | None = None,
) -> list[SpecFinding]:
    """Everything that is wrong with a spec, in the order of its text if it was read from one.

    `commands` (`hf.commands.list()`) and `consumers` (names) are those that the program declares; without them nothing
    is said about those that the spec only names. `handlers` finds what "module:function" stands for, or refuses it.
    `environ` is where secrets should be: one that is missing is a warning, and an error when `serving`.
    `unread` is what was written and is not in the spec, if no text tells.
    """
    known = None if commands is None else wanted_by(commands)
    checker = Checker(spec, reading, known, consumers, handlers, environ, serving, unread)
    checker.everything()
    return sorted(checker.findings.all, key=lambda finding: (finding.span or Span(0, 0)).start)


def check_reading(
    reading: ReadSpec,
    *,
    commands: Iterable[CommandLike] | None = None,
    consumers: Collection[str] | None = None,
    handlers: Callable[[str], object] | None = None,
    environ: Mapping[str, str] | None = None,
    serving: bool = False,
) -> list[SpecFinding]:
    """The same for a text, with what was wrong with the text itself."""
    at = _blocks(reading)
    unread = [SpecFinding(at(one.span), one.message, one.span, one.hint, one.severity) for one in reading.problems]
    if reading.spec is None or len(unread) >= MOST_PROBLEMS:
        return unread
    options = {"commands": commands, "consumers": consumers, "handlers": handlers, "environ": environ}
    checked = check(reading.spec, reading, serving=serving, **options)  # type: ignore[arg-type]
    return sorted([*unread, *checked], key=lambda finding: (finding.span or Span(0, 0)).start)


def _blocks(reading: ReadSpec) -> Callable[[Span], str]:
    """Finds the queue, webhook or whatever stands at a place of the text; "" outside of all of them."""
    items = [item for app in reading.document.apps for item in app.items]
    blocks = sorted((item for item in items if isinstance(item, Block)), key=lambda block: block.span.start)
    starts = [block.span.start for block in blocks]

    def find(span: Span) -> str:
        at = bisect_right(starts, span.start) - 1
        if at < 0 or span.start >= blocks[at].span.end or blocks[at].name is None:
            return ""
        return path_text((blocks[at].entry.field, blocks[at].name.text))  # type: ignore[union-attr]

    return find


class Checker:
    """One look at one spec."""

    def __init__(
        self,
        spec: Spec,
        reading: ReadSpec | None,
        commands: Mapping[str, CommandSignature] | None,
        consumers: Collection[str] | None,
        handlers: Callable[[str], object] | None,
        environ: Mapping[str, str] | None,
        serving: bool,
        unread: Unread | None = None,
    ) -> None:
        self.spec = spec
        self.findings = Findings(reading, unread)
        self._formulas = Formulas(spec, self.findings, commands)
        self._consumers = consumers
        self._handlers = handlers
        self._environ = environ
        self._serving = serving
        self._mapped_groups = {*spec.group_calls, *spec.group_onwards}
        self._saga_commands = {call.name for saga in spec.sagas.values() for call in saga.calls}

    def everything(self) -> None:
        """Looks at every part."""
        client_rules.look(self.spec, self.findings)
        for kind in ("owners", "queues", "topics", "webhooks", "consumers", "pools", "schedules", "sagas"):
            self._count((kind,), getattr(self.spec, kind))
        self._owners()
        for name, queue in self.spec.queues.items():
            self._queue(("queues", name), name, queue)
        self._circles_of_the_dead()
        self._circles_of_messages()
        for name, topic in self.spec.topics.items():
            self._topic(("topics", name), topic)
        for name, webhook in self.spec.webhooks.items():
            self._webhook(("webhooks", name), webhook)
        for name, consumer in self.spec.consumers.items():
            self._consumer(("consumers", name), consumer)
        self._pools()
        for name, schedule in self.spec.schedules.items():
            self._need_queue(("schedules", name, "queue"), schedule.queue)
        for name, saga in self.spec.sagas.items():
            self._saga(("sagas", name), saga)

    # --- names --------------------------------------------------------------------------------------------------------

    def _count(self, path: Path, things: Collection[object]) -> None:
        most = MOST[str(path[-1])]
        if len(things) > most:
            self.findings.error(path, f"there are {len(things):,} {path[-1]}; at most {most:,} are allowed")

    def _need_queue(self, path: Path, name: str | None) -> bool:
        if name is None or name in self.spec.queues:
            return name is not None
        hint = "a topic is none" if name in self.spec.topics else f"declare it: queue {name} {{}}"
        self.findings.missing(path, "queue", name, self.spec.queues, hint)
        return False

    def _need_topic(self, path: Path, name: str | None) -> None:
        if name is not None and name not in self.spec.topics:
            above = next((one for one in names_above(name) if one in self.spec.topics), None)
            if name in self.spec.queues:
                self.findings.missing(path, "topic", name, (), f"it is a queue: write queue: {name}")
            elif above is not None:
                hint = f'it is a name below {above!r}: write topic: {above} and routing: "{name}"'
                self.findings.missing(path, "topic", name, (), hint)
            else:
                self.findings.missing(path, "topic", name, self.spec.topics, f"declare it: topic {name} {{}}")

    def _need_owner(self, path: Path, name: str | None) -> None:
        if name is not None and name not in self.spec.owners:
            hint = f"notices go to the queue {name}.inbox; declare who reads it: owner {name} {{}}"
            self.findings.warn(path, f"the owner {name!r} is not declared", hint, [("owners", name)])

    def _owners(self) -> None:
        above = {name: owner.owner for name, owner in self.spec.owners.items()}
        for name, owner in self.spec.owners.items():
            self._need_owner(("owners", name, "owner"), owner.owner)
        for circle in _circles(above):
            path = ("owners", circle[0], "owner")
            self.findings.error(path, f"a notice would climb in a circle: {' → '.join([*circle, circle[0]])}")

    # --- queues and topics --------------------------------------------------------------------------------------------

    def _queue(self, path: Path, name: str, queue: QueueDeclaration) -> None:
        if name in self.spec.topics:
            self.findings.error(path, f"there is a topic {name!r} too, and a name belongs to one of them")
        if queue.external:
            kept = {"external", "message_type", "map_to", "map_to_queue"}
            self._refuse_settings(path, queue, kept, QueueDeclaration())
        self._dead_letters(path, queue.delivery)
        self._need_owner((*path, "owner"), queue.owner)
        self._onward(path, queue)
        self._formulas.queue(path, queue)

    def _refuse_settings(
        self,
        path: Path,
        part: QueueDeclaration | TopicDeclaration,
        kept: set[str],
        usual: QueueDeclaration | TopicDeclaration,
    ) -> None:
        for field in part.__struct_fields__:
            if field not in kept and getattr(part, field) != getattr(usual, field):
                hint = "leave it out, or declare it here: external: false"
                self.findings.error((*path, field), f"{field} is for those to say who declare it", hint)

    def _dead_letters(self, path: Path, delivery: Delivery) -> None:
        target, here = delivery.dead_letter_queue, (*path, "delivery", "dead_letter_queue")
        if self._need_queue(here, target):
            self._formulas.dead_letter(here, str(target))

    def _circles_of_the_dead(self) -> None:
        targets = {name: queue.delivery.dead_letter_queue for name, queue in self.spec.queues.items()}
        for circle in _circles(targets):
            path = ("queues", circle[0], "delivery", "dead_letter_queue")
            way = " → ".join([*circle, circle[0]])
            self.findings.error(path, f"dead letters would go in a circle and never rest: {way}")

    def _onward(self, path: Path, part: QueueDeclaration | GroupDeclaration) -> None:
        if part.map_to_queue is None:
            return
        if part.map_to is not None:
            self.findings.error((*path, "map_to_queue"), "a message runs a command or is sent on to a queue, not both")
        target, here = part.map_to_queue.queue, (*path, "map_to_queue", "queue")
        if self._need_queue(here, target) and target in self.spec.dead_letter_queues:
            hint = "what is sent on would be taken for a death; take a queue of its own"
            self.findings.error(here, f"{target!r} is a queue for dead letters", hint)

    def _circles_of_messages(self) -> None:
        onward = {name: queue.map_to_queue for name, queue in self.spec.queues.items()}
        targets = {name: None if one is None else one.queue for name, one in onward.items()}
        for circle in _circles(targets):
            path = ("queues", circle[0], "map_to_queue", "queue")
            self.findings.error(
                path, f"messages would go in a circle and never end: {' → '.join([*circle, circle[0]])}"
            )

    def _topic(self, path: Path, topic: TopicDeclaration) -> None:
        self._count((*path, "groups"), topic.groups)
        if topic.external:
            self._refuse_settings(path, topic, {"external", "groups"}, TopicDeclaration())
        for name, group in topic.groups.items():
            self._dead_letters((*path, "groups", name), group.delivery)
            self._need_owner((*path, "groups", name, "owner"), group.owner)
            self._onward((*path, "groups", name), group)
            self._formulas.group((*path, "groups", name), group)

    # --- webhooks -----------------------------------------------------------------------------------------------------

    def _webhook(self, path: Path, webhook: WebhookDeclaration) -> None:
        aims = [webhook.queue, webhook.topic, webhook.command]
        # A routing alone chooses a queue; beside a topic, it chooses the name to publish under.
        if sum(aim is not None for aim in aims) != 1 and not (webhook.routing is not None and not any(aims)):
            lacks = [] if any(aims) else [(*path, field) for field in ("queue", "topic", "routing", "command")]
            text = "a webhook has either a queue, or a topic, or a command that is run at once"
            self.findings.error(path, text, lacks=lacks)
        elif webhook.command is not None and webhook.routing is not None:
            self.findings.error((*path, "routing"), "routing is for a queue or a topic, and this webhook has a command")
        if self._need_queue((*path, "queue"), webhook.queue):
            self._formulas.envelope((*path, "queue"), str(webhook.queue))
        self._need_topic((*path, "topic"), webhook.topic)
        self._formulas.webhook(path, webhook)
        self._count((*path, "allow_ips"), webhook.allow_ips)
        for number, address in enumerate(webhook.allow_ips):
            try:
                ipaddress.ip_network(address)
            except ValueError as problem:
                hint = 'write it like "192.0.2.7" or "192.0.2.0/24"'
                self.findings.error((*path, "allow_ips", number), f"this is no address or network: {problem}", hint)
        self._count((*path, "headers"), webhook.headers)
        for number, header in enumerate(webhook.headers):
            self._header((*path, "headers", number), header)
        if webhook.verify_hmac is not None:
            self._secrets((*path, "verify_hmac"), webhook.verify_hmac)
        elif not webhook.allow_ips:
            lacks, hint = [(*path, "verify_hmac"), (*path, "allow_ips")], "add verify_hmac { … }, or allow_ips: [ … ]"
            self.findings.warn(path, "anybody can post to this webhook", hint, lacks)

    def _secrets(self, path: Path, verify: VerifyHmac) -> None:
        self._count((*path, "secrets"), verify.secrets)
        self._header((*path, "header"), verify.header)
        if verify.tolerance <= 0:
            self.findings.error((*path, "tolerance"), "tolerance must be more than nothing")
        if not verify.variables:
            hint = 'name the environment variable that holds it: secret_env: "WEBHOOK_SECRET"'
            lacks = [(*path, "secret_env"), (*path, "secrets")]
            self.findings.error(path, "a signature cannot be verified without a secret", hint, lacks=lacks)
        if verify.secret_env is not None:
            self._secret((*path, "secret_env"), verify.secret_env)
        for number, name in enumerate(verify.secrets):
            self._secret((*path, "secrets", number), name)

    def _header(self, path: Path, name: str) -> None:
        if not _HEADER.fullmatch(name):
            self.findings.error(path, f"{name!r} is not the name of a header")

    def _secret(self, path: Path, name: str) -> None:
        if not _VARIABLE.fullmatch(name):
            # Not quoted: it may be the secret itself.
            hint = "a spec never holds a secret, only the name of the variable that does"
            self.findings.error(path, "this is not the name of an environment variable", hint)
        elif self._environ is not None and not self._environ.get(name, "").strip():
            tell = self.findings.error if self._serving else self.findings.warn
            tell(path, f"the environment variable {name} is not set, or empty; it has to hold the secret")

    # --- consumers, pools, sagas --------------------------------------------------------------------------------------

    def _consumer(self, path: Path, consumer: ConsumerDeclaration) -> None:
        if not consumer.queues:
            self.findings.error(path, "a consumer needs queues: [ … ]", lacks=[(*path, "queues")])
        if consumer.handler is not None and consumer.exec is not None:
            self.findings.error((*path, "exec"), "a consumer has a handler or a program, not both")
        find, handler = self._handlers, consumer.handler
        if find is not None and handler is not None:
            self.findings.obey((*path, "handler"), lambda: find(handler))
        for number, name in enumerate(consumer.queues):
            here = (*path, "queues", number)
            if command_of(name) in self._saga_commands:
                continue
            if self._need_reader(here, name) and consumer.handler is None and consumer.exec is None:
                queue = self.spec.queues.get(name)
                mapped = queue is not None and (queue.map_to or queue.map_to_queue)
                if not mapped and name not in self._mapped_groups:
                    address = parts(name)
                    kind = "queue" if address is None else "group"
                    hint = f'add handler: "module:function", or exec: "program", or map_to to the {kind}'
                    called: Path = ("queues", name) if address is None else ("topics", address[0], "groups", address[1])
                    lacks: list[Path] = [
                        (*path, "handler"),
                        (*path, "exec"),
                        (*called, "map_to"),
                        (*called, "map_to_queue"),
                    ]
                    text = f"nothing says what to do with a message of {name!r}"
                    self.findings.error(here, text, hint, lacks=lacks)

    def _need_reader(self, path: Path, name: str) -> bool:
        address = parts(name)
        if address is None:
            if name in self.spec.topics:
                self.findings.error(path, f"{name!r} is a topic: say for which group", f"write {name}/group")
                return False
            return self._need_queue(path, name)
        topic, group = address
        if topic not in self.spec.topics:
            self.findings.missing(path, "topic", topic, self.spec.topics)
        elif group not in self.spec.topics[topic].groups:
            kind, groups = f"group of {topic!r} that is called", self.spec.topics[topic].groups
            self.findings.missing(path, kind, group, groups, lacks=[("topics", topic, "groups", group)])
        else:
            return True
        return False

    def _pools(self) -> None:
        taken: dict[str, str] = {}
        for name, pool in self.spec.pools.items():
            consumer = pool.consumer or name
            path = ("pools", name, "consumer")
            if consumer in taken:
                self.findings.error(path, f"the pool {taken[consumer]!r} has the consumer {consumer!r} already")
            taken.setdefault(consumer, name)
            self._need_owner(("pools", name, "owner"), pool.owner)
            if consumer in self.spec.consumers or consumer in (self._consumers or ()):
                continue
            lacks = [path, ("consumers", consumer)]
            known = [*self.spec.consumers, *(self._consumers or ())]
            if self._consumers is not None:
                self.findings.missing(path, "consumer", consumer, known, lacks=lacks)
            else:
                hint = "your program has to declare it: @hf.consumer(…)"
                self.findings.warn(path, f"there is no consumer {consumer!r} in this spec", hint, lacks)

    def _saga(self, path: Path, saga: SagaDeclaration) -> None:
        if not saga.steps:
            self.findings.error(path, "a saga needs at least one step", lacks=[(*path, "steps")])
        self._need_owner((*path, "owner"), saga.owner)
        steps = [*client_rules.saga_steps((*path, "steps"), saga.steps)]
        self._count((*path, "steps"), steps)
        names: set[str] = set()
        for here, step in steps:
            if step.name in names:
                self.findings.error(here, f"there is a step {step.name!r} already")
            elif step.name in saga.data and not step.parallel:
                hint = "what it gives back would stand in its place; take another name"
                self.findings.error(here, f"the saga's data has a field {step.name!r} already", hint)
            names.add(step.name)
            self._step(here, step)
        self._formulas.saga(path, saga)

    def _step(self, path: Path, step: StepDeclaration) -> None:
        if step.does != 1:
            hint = "a step has one of: queue, command, event, wait, until"
            ways = ("queue", "command", "event", "wait", "until", "parallel")
            lacks = [] if step.does else [(*path, way) for way in ways]
            text = f"the step {step.name!r} does nothing, or two things at once"
            self.findings.error(path, text, hint, lacks=lacks)
        if step.undo is not None and step.undo_queue is not None:
            self.findings.error((*path, "undo_queue"), "a step is undone by a command or by a queue, not both")
        if step.input is not None and step.queue is None:
            text = "input is for a queue; a command has inputs in braces"
            self.findings.error((*path, "input"), text, lacks=[(*path, "queue")])
        if step.undo_input is not None and step.undo_queue is None:
            text = "undo_input is for undo_queue; a command has inputs in braces"
            self.findings.error((*path, "undo_input"), text, lacks=[(*path, "undo_queue")])
        if step.does and step.queue is None and step.command is None:
            self._refuse_sending(path, step)
        self._need_queue((*path, "queue"), step.queue)
        self._need_queue((*path, "undo_queue"), step.undo_queue)

    def _refuse_sending(self, path: Path, step: StepDeclaration) -> None:
        usual = StepDeclaration(name=step.name)
        for field in ("undo", "undo_queue", "retry", "initial_backoff_ms", "max_backoff_ms", "backoff_steps_ms"):
            if getattr(step, field) != getattr(usual, field):
                text, lacks = f"the step {step.name!r} sends nothing, so {field} has no meaning", [(*path, "queue")]
                self.findings.error((*path, field), text, lacks=[*lacks, (*path, "command")])


def _circles(targets: Mapping[str, str | None]) -> Iterable[list[str]]:
    """Each circle of "this leads to that" once, beginning with the name that comes first."""
    done: set[str] = set()
    for start in targets:
        way: list[str] = []
        name: str | None = start
        while name is not None and name in targets and name not in done:
            done.add(name)
            way.append(name)
            name = targets[name]
        if name in way:
            circle = way[way.index(name) :]
            first = min(range(len(circle)), key=lambda place: list(targets).index(circle[place]))
            yield [*circle[first:], *circle[:first]]
