"""Settings as they are given in a declaration: those that are not given stay as they are, `DEFAULT` resets one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidInput, shown

Reader = Callable[[str, Any], Any]
Spec = TypeVar("Spec", bound=msgspec.Struct)
Settle = Callable[[Spec | None], Spec]
"""Makes the settings to store of those that are stored; None if there are none."""


class Default(Enum):
    """The type of `DEFAULT`."""

    DEFAULT = "DEFAULT"

    def __repr__(self) -> str:
        return "holdfast.DEFAULT"


DEFAULT: Final = Default.DEFAULT
"""Resets a setting to its default: `hf.queue("emails", lease=DEFAULT)`. Settings that are not given are kept."""


class KeptSentinel(Enum):
    """The type of `KEPT`."""

    KEPT = "KEPT"

    def __repr__(self) -> str:
        return "as it is"


KEPT: Final = KeptSentinel.KEPT
"""Stands for an argument that was not given where None would be one."""


def read_settings(call: str, settings: Mapping[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Checks each setting by its reader; `DEFAULT` stays what it is."""
    for name in settings:
        if name not in readers:
            raise InvalidInput(f"{call} has no setting {shown(name)}; it knows {', '.join(sorted(readers))}")
    return {name: DEFAULT if value is DEFAULT else readers[name](name, value) for name, value in settings.items()}


class SettingsUpdate(Generic[Spec]):
    """What a declaration changes. Called with the stored settings (None: there are none) it returns those to store.

    The store calls it while it holds the row, so that of two declarations at once neither undoes the other. `usual` are
    defaults that differ from those of the spec's type; `check` looks at the whole.
    """

    def __init__(
        self,
        kind: type[Spec],
        given: Mapping[str, Any],
        usual: Mapping[str, Any] | None = None,
        check: Callable[[Spec, Mapping[str, Any]], Spec] = lambda spec, _: spec,
    ) -> None:
        self._kind = kind
        self._given = given
        self._usual = dict(usual or {})
        self._check = check

    def __call__(self, before: Spec | None) -> Spec:
        """The settings after this change."""
        settings = self._usual if before is None else msgspec.structs.asdict(before)
        for name, value in self._given.items():
            if value is not DEFAULT:
                settings = {**settings, name: value}
            elif name in self._usual:
                settings = {**settings, name: self._usual[name]}
            else:
                settings = {other: kept for other, kept in settings.items() if other != name}
        return self._check(self._kind(**settings), self._given)


def unless_there(spec: Spec) -> Settle[Spec]:
    """A change that only creates: settings that are stored stay."""
    return lambda before: spec if before is None else before
