"""Expressions and what they are for: each is checked against what it can see, and against what is wanted of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core import expressions
from holdfast.core.expressions import types
from holdfast.core.expressions.source import did_you_mean
from holdfast.core.expressions.types import EnumOf, Type, assignable, required, show
from holdfast.core.priority import NAMES
from holdfast.errors import InvalidInput
from holdfast.spec.annotations import CommandSignature
from holdfast.spec.client_rules import MOST_INPUTS
from holdfast.spec.findings import Findings
from holdfast.spec.message_type import DEAD_LETTER, ENVELOPE, PUBLISHED, expression_type, scope
from holdfast.spec.model import (
    CommandCall,
    ForwardCall,
    GroupDeclaration,
    QueueDeclaration,
    SagaDeclaration,
    Spec,
    StepDeclaration,
    WebhookDeclaration,
)
from holdfast.spec.reading import Path
from holdfast.spec.shapes import read_shape, read_shapes
from holdfast.topics.rules.routing import belongs

Scope = Mapping[str, Type]


class Formulas:
    """All expressions of a spec."""

    def __init__(self, spec: Spec, findings: Findings, commands: Mapping[str, CommandSignature] | None) -> None:
        self._spec = spec
        self._findings = findings
        self._commands = commands
        self._envelope = scope(read_shapes(ENVELOPE))
        self._published = scope(read_shapes(PUBLISHED))

    def queue(self, path: Path, queue: QueueDeclaration) -> None:
        """What `map_to` gives to its command, or to the next queue."""
        if queue.map_to is None and queue.map_to_queue is None:
            return
        word = "map_to" if queue.map_to is not None else "map_to_queue"
        if not queue.message_type:
            hint = "say what a message looks like: message_type { payload: json }"
            text, lacks = "map_to needs a message_type, whose fields it can use", [(*path, "message_type")]
            self._findings.error((*path, word), text, hint, lacks=lacks)
        else:
            self._mapped(path, queue, self._scope(queue.message_type))

    def group(self, path: Path, group: GroupDeclaration) -> None:
        """The same for a group."""
        self._mapped(path, group, self._published)

    def _mapped(self, path: Path, part: QueueDeclaration | GroupDeclaration, seen: Scope) -> None:
        if part.map_to is not None:
            self._call((*path, "map_to"), part.map_to, seen)
        if part.map_to_queue is not None:
            self._onward((*path, "map_to_queue"), part.map_to_queue, seen)

    def _onward(self, path: Path, onward: ForwardCall, seen: Scope) -> None:
        """Whether what is made of a message is one of the next queue."""
        known = self._spec.queues.get(onward.queue)
        fields = known.message_type if known is not None else {}
        wanted = self._scope(fields)
        if len(onward.input_map) > MOST_INPUTS:
            text = f"there are {len(onward.input_map)} fields; at most {MOST_INPUTS} are allowed"
            self._findings.error(path, text)
        for name, text in onward.input_map.items():
            here = (*path, "input_map", name)
            if wanted and name not in wanted:
                hint = did_you_mean(name, wanted) or f"it has {', '.join(wanted)}"
                lacks: list[Path] = [("queues", onward.queue, "message_type", name)]
                self._findings.error(here, f"a message of {onward.queue!r} has no field {name!r}", hint, lacks=lacks)
            self._of(here, text, seen, wanted.get(name, types.JSON))
        for name, of in fields.items():
            if name not in onward.input_map and not _may_be_left_out(of):
                text = f"a message of {onward.queue!r} needs {name}: {of}"
                self._findings.error((*path, "queue"), text, f"add {name}: …", lacks=[(*path, "input_map", name)])

    def webhook(self, path: Path, webhook: WebhookDeclaration) -> None:
        """What a webhook asks of a request, and what it gives to its command."""
        seen = self._envelope
        text = types.optional(types.STRING)
        self._of((*path, "idempotency_key"), webhook.idempotency_key, seen, text)
        self._of((*path, "key"), webhook.key, seen, text)
        self._of((*path, "filter"), webhook.filter, seen, types.JSON)
        priority = self._of((*path, "priority"), webhook.priority, seen, types.JSON)
        if required(priority) in (types.BOOL, types.DOUBLE):
            self._findings.error((*path, "priority"), f"a priority is a word or 0 to 3, not {show(priority)}")
        self._words((*path, "priority"), priority, "priority", NAMES)
        chosen = self._of((*path, "routing"), webhook.routing, seen, text)
        if webhook.topic is not None:
            self._subjects((*path, "routing"), webhook.topic, chosen)
        else:
            self._routes((*path, "routing"), chosen)
        if webhook.command is not None:
            self._call((*path, "command"), webhook.command, seen)

    def _subjects(self, path: Path, topic: str, chosen: Type) -> None:
        """Names to publish under: the topic itself, and those below it."""
        for name in _values(chosen):
            if not belongs(name, topic):
                hint = f'write it like "{topic}.created"'
                self._findings.error(path, f"{name!r} is not a name of the topic {topic!r}", hint)

    def _routes(self, path: Path, chosen: Type) -> None:
        """Queues, each of which must take what a webhook gives."""
        self._words(path, chosen, "queue", self._spec.queues)
        for name in _values(chosen):
            if name in self._spec.dead_letter_queues:
                hint = "what was delivered would be taken for a death; route to a queue of its own"
                self._findings.error(path, f"{name!r} is a queue for dead letters", hint)
            elif name in self._spec.queues:
                self.envelope(path, name)

    def envelope(self, path: Path, name: str) -> None:
        """Whether what a webhook enqueues fits the queue's message type."""
        self._fit(path, name, ENVELOPE, "a webhook")

    def dead_letter(self, path: Path, name: str) -> None:
        """Whether what a death enqueues fits the queue's message type."""
        self._fit(path, name, DEAD_LETTER, "a death")

    def _fit(self, path: Path, name: str, fields: Mapping[str, str], who: str) -> None:
        wanted = self._scope(self._spec.queues[name].message_type)
        known = scope(read_shapes(fields))
        for field, of in wanted.items():
            given = known.get(field)
            if not assignable(given or types.NULL, of):
                instead = f"which {who} does not give" if given is None else f"not {show(given)}"
                hint = f"{who} gives {', '.join(f'{field}: {text}' for field, text in fields.items())}"
                self._findings.error(path, f"a message of {name!r} needs {field}: {show(of)}, {instead}", hint)

    def saga(self, path: Path, saga: SagaDeclaration) -> None:
        """What the steps of a saga take from its data, and from what steps before them gave back."""
        fields = self._scope(saga.data)
        before: dict[str, Type] = {}
        # Another step may have been written, or one of these may have another name.
        names = [(*path, "steps", number, "name") for number in range(len(saga.steps) + 1)]
        unsure = any(map(self._findings.may_be_unread, names))
        for number, entry in enumerate(saga.steps):
            here = (*path, "steps", number)
            beside = [((*here, "parallel", inner), step) for inner, step in enumerate(entry.parallel)]
            seen = _seen(fields, before, unsure)
            if beside:
                self._of((*here, "when"), entry.when, seen, types.JSON)
            for place, step in beside or [(here, entry)]:
                self._step(place, step, seen, {**(fields or {}), **before} if fields else None)
            done = {step.name: self._output(step, entry.when) for _, step in beside or [(here, entry)]}
            before = {**before, **done}
            for place, step in beside or [(here, entry)]:
                self._undo(place, step, _seen(fields, before, unsure))

    def _step(self, path: Path, step: StepDeclaration, seen: Scope, whole: Scope | None) -> None:
        self._of((*path, "when"), step.when, seen, types.JSON)
        moment = self._of((*path, "until"), step.until, seen, types.JSON)
        if step.until is not None and required(moment) not in (types.INT, types.DOUBLE, types.TIME, types.JSON):
            hint = "seconds since 1970, or a field of type time"
            self._findings.error((*path, "until"), f"a time is wanted, and this is {show(moment)}", hint)
        if step.command is not None:
            self._call((*path, "command"), step.command, seen)
        self._message(path, "input", step.queue, step.input, seen, whole)

    def _undo(self, path: Path, step: StepDeclaration, seen: Scope) -> None:
        if step.undo is not None:
            self._call((*path, "undo"), step.undo, seen)
        self._message(path, "undo_input", step.undo_queue, step.undo_input, seen, None)

    def _message(
        self, path: Path, word: str, queue: str | None, given: str | None, seen: Scope, whole: Scope | None
    ) -> None:
        """What a step sends to a queue, beside what a message of that queue has to be."""
        known = self._spec.queues.get(queue or "")
        wanted = self._scope(known.message_type) if known else {}
        if given is None:
            sent, hint = None if whole is None else types.ObjectOf(dict(whole)), f"say what to send: {word}: {{…}}"
        else:
            found, hint = self._of((*path, word), given, seen, types.JSON), None
            sent, path = (found if isinstance(found, types.ObjectOf) else None), (*path, word)
            if wanted and not isinstance(required(found), types.ObjectOf | types.MapOf) and found != types.JSON:
                text = f"a message of {queue!r} is an object with {', '.join(wanted)}, and this is {show(found)}"
                self._findings.error(path, text)
        has_fields = {} if sent is None else sent.fields
        for field, of in wanted.items() if sent is not None else ():
            has = has_fields.get(field)
            if not assignable(has or types.NULL, of):
                instead = "which is not there" if has is None else f"not {show(has)}"
                self._findings.error(path, f"a message of {queue!r} needs {field}: {show(of)}, {instead}", hint)

    def _output(self, step: StepDeclaration, together: str | None) -> Type:
        """What a step gives back; null if it is left out."""
        call = step.command
        if step.queue in self._spec.queues:
            call = self._spec.queues[step.queue].map_to
        known = self._commands.get(call.name) if self._commands is not None and call is not None else None
        given = known.returns if known is not None else types.JSON
        if step.wait is not None or step.until is not None:
            given = types.NULL
        return given if step.when is None and together is None else types.optional(given)

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _scope(self, fields: Mapping[str, str]) -> dict[str, Type]:
        return {name: _type_of(text) for name, text in fields.items()}

    def _call(self, path: Path, call: CommandCall, seen: Scope) -> None:
        wanted = self._wanted(path, call)
        if len(call.input_map) > MOST_INPUTS:
            self._findings.error(path, f"there are {len(call.input_map)} inputs; at most {MOST_INPUTS} are allowed")
        for name, text in call.input_map.items():
            here = (*path, "input_map", name)
            if wanted is not None and name not in wanted.inputs:
                hint = did_you_mean(name, wanted.inputs) or f"it takes {', '.join(wanted.inputs) or 'nothing'}"
                self._findings.error(here, f"{call.name} has no input {name!r}", hint)
            self._of(here, text, seen, wanted.inputs.get(name, types.JSON) if wanted else types.JSON)
        for name in sorted(wanted.required - call.input_map.keys() if wanted else ()):
            self._findings.error(
                (*path, "command"),
                f"{call.name} needs the input {name!r}",
                f"add {name}: …",
                lacks=[(*path, "input_map", name)],
            )

    def _wanted(self, path: Path, call: CommandCall) -> CommandSignature | None:
        if self._commands is None:
            return None
        if call.name not in self._commands:
            hint = f'declare it: @hf.command("{call.name}")'
            self._findings.missing((*path, "command"), "command", call.name, self._commands, hint)
        return self._commands.get(call.name)

    def _of(self, path: Path, text: str | None, seen: Scope, wanted: Type) -> Type:
        """The type of an expression, after everything that is wrong with it was said."""
        if text is None:
            return types.NULL
        node, written = self._findings.node_at(path), True
        if node is None:
            node, problems = expressions.parse_text(text)
            written = False
            if node is None or problems:
                self._findings.error(path, f"{text!r} is no expression: {problems[0].message}")
                return types.JSON
        found, problems = expressions.check(node, seen)
        for problem in problems:
            self._findings.error(path, problem.message, problem.hint, problem.span if written else None)
        if not assignable(found, wanted):
            span = node.span if written else None
            self._findings.error(
                path, f"this is {show(found)}, and {show(wanted)} is wanted", _mending(found, wanted), span
            )
        return found

    def _words(self, path: Path, found: Type, kind: str, known: Iterable[str]) -> None:
        for value in _values(found):
            if value not in known:
                self._findings.missing(path, kind, value, known)


def _type_of(text: str) -> Type:
    try:
        return expression_type(read_shape(text))
    except InvalidInput:
        return types.JSON  # Said where it stands.


def _may_be_left_out(text: str) -> bool:
    try:
        return read_shape(text).optional
    except InvalidInput:
        return True  # What it is was not understood, which is said where it stands.


def _seen(data: Scope | None, steps: Scope, unsure: bool) -> Scope:
    done: Type = types.JSON if unsure else types.ObjectOf(dict(steps))
    return {"data": types.ObjectOf(dict(data)) if data else types.JSON, "steps": done}


def _mending(found: Type, wanted: Type) -> str | None:
    if assignable(required(found), wanted):
        return "say what to take instead of null: coalesce(…, …)"
    return "string(…) makes a text of it" if required(wanted) == types.STRING else None


def _values(found: Type) -> tuple[str, ...]:
    """The texts that an expression can give, if they are known."""
    of = required(found)
    return of.values if isinstance(of, EnumOf) else ()
