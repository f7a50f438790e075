"""A spec that was written as JSON: part by part, so that one run finds every mistake and where it is."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.expressions.source import did_you_mean
from holdfast.spec.findings import SpecFinding, path_text
from holdfast.spec.grammar import grammar_of, hint_for
from holdfast.spec.model import Fields, Part, Spec, defaults_of
from holdfast.spec.reading import STAND_IN, Path, Unread
from holdfast.spec.webhook_v0 import rewrite


def read_plain(value: Any) -> tuple[Spec | None, list[SpecFinding], Unread]:
    """What could be understood of a spec, and everything that could not. Without an object there is no spec."""
    value, older = rewrite(value)
    reader = _Reader()
    reader.findings += [SpecFinding(path_text(one.path), one.message, None, one.hint, one.severity) for one in older]
    spec = reader.part(Spec, value, ())
    return (spec if isinstance(value, dict) else None), reader.findings, reader.unread


class _Reader:
    def __init__(self) -> None:
        self.findings: list[SpecFinding] = []
        self.unread = Unread()

    def part(self, part: type[Part], value: Any, path: Path) -> Any:
        """The part; where something is wrong or missing, something else stands in its place."""
        if not isinstance(value, dict):
            self._refuse(path, f"expected an object, not {_kind(value)}")
            value = {}
        known, given = _types(part), dict[str, Any]()
        for name, one in value.items():
            here = (*path, name)
            if name in known:
                found = self._value(known[name], one, here)
                if found is not _REFUSED:
                    given[name] = found
            elif not self.unread.covers(path):
                hint = hint_for(name, grammar_of(part)) or did_you_mean(name, known)
                self.findings.append(SpecFinding(path_text(here), f"{name!r} has no meaning here", hint=hint))
        usual = defaults_of(part)
        for name in [name for name in usual if usual[name] is msgspec.NODEFAULT and name not in given]:
            if name not in value and not self.unread.covers(path):
                self.findings.append(SpecFinding(path_text(path), f"{name} is missing"))
            self.unread.add((*path, name))
            given[name] = STAND_IN
        return part(**given)

    def _value(self, of: Any, value: Any, path: Path) -> Any:
        inner, outer = _inner(of), get_origin(_bare(of))
        if inner is not None and value is None and _may_be_none(of):
            return None
        if inner is not None and outer not in (dict, list):
            return self.part(inner, value, path)
        each = get_args(_bare(of))[-1] if outer in (dict, list) else None
        if outer is dict and isinstance(value, dict):
            found = {name: self._entry(of, each, one, (*path, name)) for name, one in value.items()}
            return {name: one for name, one in found.items() if one is not _REFUSED}
        if outer is list and isinstance(value, list):
            return [self._entry(of, each, one, (*path, number)) for number, one in enumerate(value)]
        try:
            return msgspec.convert(value, of)
        except msgspec.ValidationError as problem:
            self._refuse(path, str(problem))
            return _REFUSED

    def _entry(self, of: Any, each: Any, value: Any, path: Path) -> Any:
        """One of a map or a list. In a list something stands in for it, so that the others keep their numbers."""
        found = self._value(each, value, path)
        if found is not _REFUSED:
            return found
        if of is Fields:
            return "json"
        if get_origin(_bare(of)) is dict:
            return _REFUSED
        return STAND_IN if _bare(each) is str else 0

    def _refuse(self, path: Path, message: str) -> None:
        self.findings.append(SpecFinding(path_text(path), message))
        self.unread.add(path)


def _bare(of: Any) -> Any:
    """A type without what is annotated to it."""
    return get_args(of)[0] if get_origin(of) is Annotated else of


def _inner(of: Any) -> type[Part] | None:
    """The kind of part that a field is, or holds several of."""
    if isinstance(of, type) and issubclass(of, Part):
        return of
    if get_origin(of) in (dict, list, Union, UnionType):
        return next((found for one in get_args(of) if (found := _inner(one)) is not None), None)
    return None


def _may_be_none(of: Any) -> bool:
    return type(None) in get_args(of)


@cache
def _types(part: type[Part]) -> dict[str, Any]:
    hints = get_type_hints(part, include_extras=True)
    return {name: hints[name] for name in defaults_of(part)}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "a bool", int: "a number", float: "a number", str: "a text", list: "a list"}[type(value)]


_REFUSED: Any = object()
