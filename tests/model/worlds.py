"""What all machines share: every step is done in several worlds (a model, stores), which must answer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from holdfast.errors import HoldfastError

LONG_AGO = 1_000_000_000_000_000
"""In 2001: whoever reads the computer's own clock is far off."""


class Worlds(RuleBasedStateMachine):
    worlds: list[Any]

    def all_do(self, verb: str, *args: Any, **options: Any) -> Any:
        """Every world does it; their answers, or the kinds of errors they raise, must be the same (I25)."""
        (answer, error), *others = [_outcome(getattr(world, verb), *args, **options) for world in self.worlds]
        for other, its_error in others:
            expected, got = error or answer, its_error or other
            same = (answer, type(error)) == (other, type(its_error))
            assert same, f"{verb}{args}{options or ''}:\nexpected {expected!r},\n     got {got!r}"
        if error is not None:
            raise error
        return answer


def _outcome(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, HoldfastError | None]:
    try:
        return call(*args, **options), None
    except HoldfastError as error:
        return None, error
