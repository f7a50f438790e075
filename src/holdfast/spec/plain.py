"""A spec that was written as JSON: part by part, so that one run finds every mistake and where it is."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.expressions.source import did_you_mean
from holdfast.spec.findings import Finding, path_text
from holdfast.spec.grammar import grammar_of, hint_for
from holdfast.spec.model import Part, Spec, defaults_of
from holdfast.spec.reading import Path
from holdfast.spec.webhook_v0 import rewrite


def read_plain(value: Any) -> tuple[Spec | None, list[Finding]]:
    """What could be understood of a spec, and everything that could not. Without an object there is no spec."""
    value, older = rewrite(value)
    findings = [Finding(path_text(one.path), one.message, None, one.hint, one.severity) for one in older]
    spec = _part(Spec, value, (), findings)
    return (spec if isinstance(spec, Spec) else None), findings


def _part(part: type[Part], value: Any, path: Path, findings: list[Finding]) -> Part | None:
    """The part without what is wrong in it; None if something is missing without which it is none."""
    if not isinstance(value, dict):
        findings.append(Finding(path_text(path), f"expected an object, not {_kind(value)}"))
        return None
    known, given = _types(part), dict[str, Any]()
    for name, one in value.items():
        here = (*path, name)
        if name not in known:
            hint = hint_for(name, grammar_of(part)) or did_you_mean(name, known)
            findings.append(Finding(path_text(here), f"{name!r} has no meaning here", hint=hint))
            continue
        found = _value(known[name], one, here, findings)
        if found is not _REFUSED:
            given[name] = found
    usual = defaults_of(part)
    missing = [name for name in usual if usual[name] is msgspec.NODEFAULT and name not in given]
    findings += [Finding(path_text(path), f"{name} is missing") for name in missing if name not in value]
    if part is Spec and missing == ["app"]:  # The rest can be looked at all the same.
        return Spec(app="app", **given)
    return None if missing else part(**given)


def _value(of: Any, value: Any, path: Path, findings: list[Finding]) -> Any:
    inner = _inner(of)
    if inner is not None and value is None and _may_be_none(of):
        return None
    if inner is not None and get_origin(of) is dict and isinstance(value, dict):
        found = {name: _part(inner, one, (*path, name), findings) for name, one in value.items()}
        return {name: one for name, one in found.items() if one is not None}
    if inner is not None and get_origin(of) is list and isinstance(value, list):
        listed = [_part(inner, one, (*path, number), findings) for number, one in enumerate(value)]
        return [one for one in listed if one is not None]
    if inner is not None and get_origin(of) not in (dict, list):
        part = _part(inner, value, path, findings)
        return _REFUSED if part is None else part
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as problem:
        findings.append(Finding(path_text(path), str(problem)))
        return _REFUSED


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
