"""What has to change in a database so that it is as a spec says, and which messages would be lost. Changes nothing.

A spec is the complete definition of what it declares: a setting that it does not have gets its default.
All of it is declared by name, so a plan is a comparison: of the settings that a spec wants with those that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Literal

import msgspec

from holdfast import DEFAULT, Holdfast, InvalidInput
from holdfast.client.client import internals
from holdfast.commands.rules import command_of
from holdfast.core.queue import READERS, queue_spec
from holdfast.notices.rules import owner_spec
from holdfast.sagas.rules.declaration import SagaSpec, StepSpec, saga_spec
from holdfast.schedules.rules import Schedule, schedule_spec
from holdfast.spec import declarations
from holdfast.spec.model import Spec
from holdfast.store.api import Topic
from holdfast.topics.rules import routing
from holdfast.topics.rules.declaration import GROUP_READERS, TOPIC_READERS, address, group_spec, topic_spec

Kind = Literal["owner", "queue", "topic", "group", "schedule", "saga"]
Settings = dict[str, Any]

_STANDING = {"name", "paused", "next_at_us", "last_slot_us", "last_at_us", "created_at_us", "error"}
"""What of a schedule is not a setting."""


class SettingChange(msgspec.Struct, frozen=True):
    """A setting that is to be another one. `loses` says which messages that removes, if it removes any that are there;
    `means` what else there is to know."""

    setting: str
    before: Any
    after: Any
    loses: str | None = None
    means: str | None = None


class PlanStep(msgspec.Struct, frozen=True):
    """One thing that is to be made, changed or removed."""

    act: Literal["create", "change", "remove"]
    kind: Kind
    name: str
    changes: list[SettingChange] = []
    loses: str | None = None
    means: str | None = None

    @property
    def losses(self) -> list[str]:
        """The messages that would be lost."""
        return [loss for loss in (self.loses, *(change.loses for change in self.changes)) if loss is not None]


class SpecPlan(msgspec.Struct, frozen=True):
    """The steps, in the order in which they can be done. `others` are in the database and not in the spec."""

    steps: list[PlanStep]
    unchanged: int
    others: list[tuple[Kind, str]]

    @property
    def losses(self) -> list[tuple[PlanStep, str]]:
        """Whatever someone has to agree to."""
        return [(step, loss) for step in self.steps for loss in step.losses]


class DeclaredState(msgspec.Struct, frozen=True):
    """Something that a spec declares: its settings, and how to declare it."""

    kind: Kind
    name: str
    settings: Settings
    declare: Callable[[Holdfast], object]


def make_plan(hf: Holdfast, spec: Spec, prune: bool = False) -> SpecPlan:
    """Compares a spec with a database. With `prune`, groups and schedules that the spec does not have are to go."""
    _refuse_absent(hf, spec)
    steps, unchanged = [], 0
    all_wanted = list(wanted(spec))
    effects = _Effects(hf, all_wanted)
    for one in all_wanted:
        step = _step(effects, one, _stored(hf, one))
        if step is None:
            unchanged += 1
        else:
            steps.append(step)
    others = list(_others(hf, spec))
    if prune:
        steps += [_removal(hf, kind, name) for kind, name in others if kind in PRUNED]
        others = [(kind, name) for kind, name in others if kind not in PRUNED]
    return SpecPlan(steps, unchanged, others)


def wanted(spec: Spec) -> Iterator[DeclaredState]:
    """Everything that a spec declares, each after what it needs."""
    for name in _superiors_first({name: owner.owner for name, owner in spec.owners.items()}):
        settings = declarations.owner_settings(spec.owners[name])
        yield DeclaredState(
            "owner", name, _plain(owner_spec(name, **settings)), _call(Holdfast.owner, name, **settings)
        )
    for name, queue in spec.queues.items():
        if not queue.external:
            settings = declarations.queue_settings(queue)
            whole = {**dict.fromkeys(READERS, DEFAULT), **settings}
            owning = {"mode": "queue"} if queue.names_below else {}
            declare = _call(Holdfast.topic if owning else Holdfast.queue, name, **owning, **whole)
            yield DeclaredState("queue", name, _plain(queue_spec(settings)), declare)  # type: ignore[arg-type]
    for name, topic in spec.topics.items():
        if not topic.external:
            settings = declarations.topic_settings(topic)
            whole = {**dict.fromkeys(TOPIC_READERS, DEFAULT), **settings}
            declare = _call(Holdfast.topic, name, mode="pubsub", **whole)
            yield DeclaredState("topic", name, _plain(topic_spec(settings)), declare)  # type: ignore[arg-type]
        for group_name, group in topic.groups.items():
            yield _wanted_group(name, group_name, declarations.group_settings(group))
    for name, schedule in spec.schedules.items():
        settings = declarations.schedule_settings(schedule)
        found = schedule_spec(settings)  # type: ignore[arg-type]
        stored = _plain(found) | {"body": msgspec.json.decode(found.body)}
        yield DeclaredState("schedule", name, stored, _call(Holdfast.schedule, name, **settings))
    for name, saga in spec.sagas.items():
        settings = declarations.saga_settings(saga)
        yield DeclaredState("saga", name, _of_saga(saga_spec(**settings)), _call(Holdfast.saga, name, **settings))


def _wanted_group(topic: str, group: str, settings: Settings) -> DeclaredState:
    patterns = routing.patterns_of(topic, settings["patterns"])
    own = {key: value for key, value in settings.items() if key not in ("patterns", "start")}
    whole = {**dict.fromkeys(GROUP_READERS, DEFAULT), **settings}
    stored = _plain(group_spec(patterns, own))  # type: ignore[arg-type]
    return DeclaredState("group", address(topic, group), stored, _call(Holdfast.subscribe, topic, group, **whole))


def _of_saga(spec: SagaSpec) -> Settings:
    """Step by step, so that a plan shows which one is to change."""
    steps = {f"step {step.name}": _said(step) for step in spec.steps}
    stages = [[step.name for step in beside] for _, beside in groupby(spec.steps, key=lambda step: step.stage)]
    order = [beside if len(beside) > 1 else beside[0] for beside in stages]
    return {"order": order, **steps, "on_failure": spec.on_failure, "owner": spec.owner, "keep": spec.keep}


def _said(step: StepSpec) -> Settings:
    """What is not as usual."""
    usual = _plain(StepSpec(step.name, step.stage))
    return {name: value for name, value in _plain(step).items() if value != usual[name]}


def _call(method: Callable[..., object], *names: str, **settings: Any) -> Callable[[Holdfast], object]:
    return lambda hf: method(hf, *names, **settings)


def _plain(spec: msgspec.Struct) -> Settings:
    return msgspec.structs.asdict(spec)


def _superiors_first(owners: dict[str, str | None]) -> list[str]:
    """Owners in the order in which they can be declared: nobody before whom their notices climb to."""
    order: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        superior = owners.get(name)
        if superior in owners and superior not in above:
            add(superior, (*above, superior))
        if name not in order:
            order.append(name)

    for name in owners:
        add(name, (name,))
    return order


# --- what there is ----------------------------------------------------------------------------------------------------


def _stored(hf: Holdfast, one: DeclaredState) -> Settings | None:
    """The settings of what has this name now; None if nothing has."""
    tenant = hf.settings.tenant
    if one.kind == "owner":
        owner = hf.notices.owners().get(one.name)
        return None if owner is None else _plain(owner)
    if one.kind == "schedule":
        return next((_settings_of(schedule) for schedule in hf.schedules.list() if schedule.name == one.name), None)
    internals(hf).catalog.open()
    if one.kind == "saga":
        found = internals(hf).store.saga_definitions.find(tenant, one.name)
        return None if found is None else _of_saga(found)
    if one.kind == "topic":
        topic = internals(hf).store.topics.find(tenant, [one.name])
        return _plain(topic.spec) if isinstance(topic, Topic) and topic.name == one.name else None
    channel = internals(hf).store.channels.find(tenant, one.name)
    return None if channel is None else _plain(channel.spec)


def _settings_of(schedule: Schedule) -> Settings:
    return {name: value for name, value in _plain(schedule).items() if name not in _STANDING}


def _refuse_absent(hf: Holdfast, spec: Spec) -> None:
    """What others are to have declared must be there."""
    queues, topics = set(hf.queues.list()), set(hf.topics.list())
    external = [("queue", name, queues) for name, queue in spec.queues.items() if queue.external]
    external += [("topic", name, topics) for name, topic in spec.topics.items() if topic.external]
    for kind, name, known in external:
        if name not in known:
            raise InvalidInput(
                f"the spec says that the {kind} {name!r} is external, and nobody has declared it in this database: "
                "apply the spec that does first, or take `external` away"
            )


def _others(hf: Holdfast, spec: Spec) -> Iterator[tuple[Kind, str]]:
    inboxes = {owner.inbox for owner in hf.notices.owners().values()}
    queues = hf.queues.list()
    for name in queues:
        if name not in spec.queues and name not in inboxes and command_of(name) is None:
            yield "queue", name
    for name in hf.topics.list():
        if name not in spec.topics:
            if name not in queues:  # Some queues own the names below them, as topics do.
                yield "topic", name
            continue
        for status in hf.groups.list(name):
            if status.group not in spec.topics[name].groups:
                yield "group", address(name, status.group)
    for name in hf.notices.owners():
        if name not in spec.owners:
            yield "owner", name
    for schedule in hf.schedules.list():
        if schedule.name not in spec.schedules:
            yield "schedule", schedule.name
    for name in internals(hf).store.saga_definitions.names(hf.settings.tenant):
        if name not in spec.sagas:
            yield "saga", name


# --- what differs, and what that would cost ---------------------------------------------------------------------------


def _step(effects: _Effects, one: DeclaredState, stored: Settings | None) -> PlanStep | None:
    if stored is None:
        return PlanStep("create", one.kind, one.name)
    changes = [
        effects.change(one, stored, name, after)
        for name, after in {**dict.fromkeys(_gone(one, stored)), **one.settings}.items()
        if stored.get(name) != after
    ]
    return PlanStep("change", one.kind, one.name, changes) if changes else None


def _gone(one: DeclaredState, stored: Settings) -> list[str]:
    """Steps of a saga that there are no more; everything else always has the same settings."""
    return [name for name in stored if name not in one.settings] if one.kind == "saga" else []


class _Effects:
    """What changes of settings do to the messages that are there."""

    def __init__(self, hf: Holdfast, all_wanted: list[DeclaredState]) -> None:
        self._hf = hf
        self._wanted = {one.name: one.settings for one in all_wanted if one.kind in ("queue", "group")}

    def change(self, one: DeclaredState, stored: Settings, setting: str, after: Any) -> SettingChange:
        """Less of something removes messages only if there are any that it is too little for, which the store knows."""
        before = stored.get(setting)
        change = SettingChange(setting, msgspec.to_builtins(before), msgspec.to_builtins(after))
        if setting in ("dead_retention", "dead_letter"):
            return msgspec.structs.replace(change, loses=self._of_dead_letters(one, stored))
        if setting != "patterns" and not _is_less(after, before):
            return change
        place = (one.kind, setting)
        losses = [_REMOVING[place]] if place in _REMOVING and self._removes(one.kind, one.name, setting, after) else []
        if place == ("queue", "max_age") and (losing := self._whose_copies_expire(one.name, after)):
            losses.append(f"{_DEAD}: those of {', '.join(losing)}")
        if losses:
            return msgspec.structs.replace(change, loses="; ".join(losses))
        return msgspec.structs.replace(change, means=_MEANING.get(place))

    def _of_dead_letters(self, one: DeclaredState, stored: Settings) -> str | None:
        """They live as long as their queue says; if it does not, as long as the queue of their copies says."""
        before, after = (self._lifetime(settings, now) for settings, now in ((stored, True), (one.settings, False)))
        less = _is_less(after, before) and self._removes(one.kind, one.name, "dead_retention", after)
        return _DEAD if less else None

    def _lifetime(self, settings: Settings, now: bool) -> float | None:
        own, copies = settings["dead_retention"], settings["dead_letter"]
        if own is not None or copies is None:
            return own  # type: ignore[no-any-return]
        if not now and copies in self._wanted:
            return self._wanted[copies]["max_age"]  # type: ignore[no-any-return]
        found = internals(self._hf).store.channels.find(self._hf.settings.tenant, copies)
        return None if found is None else found.spec.max_age

    def _whose_copies_expire(self, queue: str, max_age: float) -> list[str]:
        """The queues and groups whose dead letters live as long as their copies in this queue."""
        losing = []
        for reader in internals(self._hf).catalog.readers():
            settings = self._wanted.get(reader.name) or _plain(reader.spec)
            depends = settings["dead_retention"] is None and settings["dead_letter"] == queue
            if depends and internals(self._hf).store.retention.removes(reader, "dead_retention", max_age):
                losing.append(reader.name)
        return sorted(losing)

    def _removes(self, kind: Kind, name: str, setting: str, after: Any) -> bool:
        tenant, store = self._hf.settings.tenant, internals(self._hf).store
        found = store.topics.find(tenant, [name]) if kind == "topic" else store.channels.find(tenant, name)
        return found is not None and store.retention.removes(found, setting, after)


def _is_less(after: Any, before: Any) -> bool:
    """None is no limit. Anything that cannot be compared is another, not less."""
    try:
        return after is not None and (before is None or bool(after < before))
    except TypeError:
        return False


def _removal(hf: Holdfast, kind: Kind, name: str) -> PlanStep:
    if kind == "schedule":
        return PlanStep("remove", kind, name, means="it sends nothing any more")
    stats = hf.stats(name)
    if stats.queue_depth or stats.in_flight_count:
        return PlanStep("remove", kind, name, loses="all that it is owed is lost; its dead letters stay")
    return PlanStep("remove", kind, name, means="it is owed nothing now; its dead letters stay")


PRUNED: tuple[Kind, ...] = ("group", "schedule")
"""What is removed if a spec does not have it, with `prune`."""

_HISTORY = "finished messages are forgotten earlier"
_DEAD = "older dead letters are removed"
_REMOVING: dict[tuple[str, str], str] = {
    ("queue", "max_age"): "messages that have waited for longer expire",
    ("queue", "history"): _HISTORY,
    ("queue", "history_limit"): _HISTORY,
    ("group", "patterns"): "what it does not want any more is passed by, also what was published already",
    ("topic", "retention"): "older messages are removed, whoever still waits for them",
    ("topic", "min_retention"): "what every group is done with is removed earlier, and cannot be read again",
}
"""Settings that remove messages when they become less, or others, by kind."""

_TRIES = "a message that has failed so often already is dead-lettered at its next failure"
_MEANING: dict[tuple[str, str], str] = {
    ("queue", "max_attempts"): _TRIES,
    ("group", "max_attempts"): _TRIES,
    ("queue", "idempotency_window"): "keys are forgotten earlier: what is sent again after that is another message",
    (
        "topic",
        "idempotency_window",
    ): "keys are forgotten earlier: what is published again after that is another message",
    ("queue", "max_depth"): "at that depth new messages are refused; those that wait stay",
    ("topic", "max_depth"): "at that depth new messages are refused; those that are there stay",
    ("group", "timeout"): "nothing is kept any more for a group that is silent for so long",
    ("saga", "keep"): "sagas that have ended are forgotten earlier, and their ids with them",
}
"""What else it means when a setting becomes less: worth knowing, and no message is lost."""


def summary(steps: Iterable[PlanStep]) -> str:
    """In a few words: `2 to create, 1 to change`."""
    found = [step.act for step in steps]
    parts = [f"{found.count(act)} to {act}" for act in ("create", "change", "remove") if act in found]
    return ", ".join(parts) or "nothing to do"
