"""Makes a database as a spec says. Every step declares something by name, so what was cut off is just repeated."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from holdfast import Holdfast
from holdfast.core.redaction import without_password
from holdfast.errors import HoldfastError
from holdfast.spec.model import Spec
from holdfast.spec.plan import PlanStep, SpecPlan, make_plan, wanted
from holdfast.topics.rules.declaration import parts


class WouldLose(HoldfastError):
    """The spec would remove messages that are in the database, and nobody has agreed to that.

    `command` is what does it all the same.
    """

    def __init__(self, plan: SpecPlan, command: str) -> None:
        said = "; ".join(f"{step.kind} {step.name}: {loss}" for step, loss in plan.losses)
        super().__init__(f"messages would be lost, so nothing was changed: {said}. To accept that, run: {command}")
        self.plan = plan


def accepting(verb: str, file: str, **options: str | bool | None) -> str:
    """The command that makes a database as a file says, whatever is lost. Passwords are left out of it."""
    words = ["holdfast", verb, shlex.quote(file)]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, str) and (name, value) != ("tenant", "default"):
            words += [f"--{name}", shlex.quote(value) if without_password(value) == value else name.upper()]
    return " ".join([*words, "--accept-loss"])


def apply(
    hf: Holdfast,
    spec: Spec,
    *,
    accept_loss: bool = False,
    prune: bool = False,
    command: str = "holdfast apply FILE --accept-loss",
    told: Callable[[PlanStep], object] = lambda _: None,
) -> SpecPlan:
    """Declares what is new or different; what that was. `told` is called after each step.

    Nothing is removed but, with `prune`, groups and schedules that the spec does not have; and nothing is done at all
    if messages would be lost, unless `accept_loss`. `command` is how a user says so.
    """
    plan = make_plan(hf, spec, prune)
    if plan.losses and not accept_loss:
        raise WouldLose(plan, command)
    declare = {(one.kind, one.name): one.declare for one in wanted(spec)}
    for step in plan.steps:
        if step.act == "remove":
            _remove(hf, step)
        else:
            declare[step.kind, step.name](hf)
        told(step)
    return plan


def _remove(hf: Holdfast, step: PlanStep) -> None:
    if step.kind == "schedule":
        hf.schedules.remove(step.name)
    else:
        found = parts(step.name)
        assert found is not None, "a group is called topic/group"
        hf.groups.remove(*found)
