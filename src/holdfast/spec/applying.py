"""Makes a database as a spec says. Every step declares something by name, so what was cut off is just repeated."""

from __future__ import annotations

from collections.abc import Callable

from holdfast import Holdfast
from holdfast.core.topic import parts
from holdfast.errors import HoldfastError
from holdfast.spec.model import Spec
from holdfast.spec.plan import Plan, Step, make_plan, wanted


class WouldLose(HoldfastError):
    """The spec would make the database lose something, and nobody has agreed to that."""

    def __init__(self, plan: Plan) -> None:
        said = "; ".join(f"{step.kind} {step.name}: {loss}" for step, loss in plan.losses)
        super().__init__(f"this would lose something, so nothing was changed: {said}. With --accept-loss it is done")
        self.plan = plan


def apply(
    hf: Holdfast,
    spec: Spec,
    *,
    accept_loss: bool = False,
    prune: bool = False,
    told: Callable[[Step], object] = lambda _: None,
) -> Plan:
    """Declares what is new or different; what that was. `told` is called after each step.

    Nothing is removed but, with `prune`, groups and schedules that the spec does not have; and nothing is done at all
    if anything would be lost, unless `accept_loss`.
    """
    plan = make_plan(hf, spec, prune)
    if plan.losses and not accept_loss:
        raise WouldLose(plan)
    declare = {(one.kind, one.name): one.declare for one in wanted(spec)}
    for step in plan.steps:
        if step.act == "remove":
            _remove(hf, step)
        else:
            declare[step.kind, step.name](hf)
        told(step)
    return plan


def _remove(hf: Holdfast, step: Step) -> None:
    if step.kind == "schedule":
        hf.unschedule(step.name)
    else:
        found = parts(step.name)
        assert found is not None, "a group is called topic/group"
        hf.unsubscribe(*found)
