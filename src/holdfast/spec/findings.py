"""What is wrong, or only odd, in a spec: where in the model, and where in the text if there is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import msgspec

from holdfast.core.expressions.source import SourceProblem, Span, did_you_mean
from holdfast.core.expressions.tree import Node
from holdfast.errors import InvalidInput
from holdfast.spec.reading import NAMED, Path, ReadSpec, Unread

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SpecFinding(msgspec.Struct, frozen=True):
    """One of them. `span` is None where there is no text, or nothing in it to point at."""

    path: str
    message: str
    span: Span | None = None
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"

    def problem(self) -> SourceProblem:
        """As a source can show it."""
        return SourceProblem(self.message, self.span or Span(0, 1), self.hint, self.severity)


class Findings:
    """All that was found so far."""

    def __init__(self, reading: ReadSpec | None, unread: Unread | None = None) -> None:
        self._unread = unread or (reading.unread if reading else Unread())
        self._spans = reading.spans if reading else {}
        self._nodes = reading.nodes if reading else {}
        self.all: list[SpecFinding] = []

    def may_be_unread(self, path: Path) -> bool:
        """Whether something is missing there that was written, but not understood."""
        return self._unread.may_hold(path, self._spans)

    def _follows(self, path: Path, lacks: Iterable[Path]) -> bool:
        """Whether this would be said only because of what was not understood, which was said."""
        return self._unread.covers(path) or any(map(self.may_be_unread, lacks))

    def error(
        self,
        path: Path,
        message: str,
        hint: str | None = None,
        span: Span | None = None,
        lacks: Iterable[Path] = (),
    ) -> None:
        """This cannot work. `lacks` are the places where something is that would make it work."""
        if not self._follows(path, lacks):
            self.all.append(SpecFinding(path_text(path), message, span or self.span_of(path), hint))

    def warn(self, path: Path, message: str, hint: str | None = None, lacks: Iterable[Path] = ()) -> None:
        """This can work, but is probably not what was meant."""
        if not self._follows(path, lacks):
            self.all.append(SpecFinding(path_text(path), message, self.span_of(path), hint, "warning"))

    def missing(
        self,
        path: Path,
        kind: str,
        name: str,
        known: Iterable[str],
        hint: str | None = None,
        lacks: Iterable[Path] = (),
    ) -> None:
        """Something is named that is not there."""
        lacks = [*lacks, *([(f"{kind}s", name)] if f"{kind}s" in NAMED else [])]
        self.error(path, f"there is no {kind} {name!r}", did_you_mean(name, known) or hint, lacks=lacks)

    def obey(
        self, path: Path, rule: Callable[[], object], names: Iterable[str] = (), lacks: Iterable[Path] = ()
    ) -> bool:
        """Whether a rule of the client accepts it. If not, the setting that the rule complains of is looked for."""
        try:
            rule()
        except InvalidInput as problem:
            words = _PLAIN.findall(str(problem))
            blamed = next((word for word in words if word in set(names)), None)
            self.error(path if blamed is None else (*path, blamed), str(problem), lacks=lacks)
            return False
        return True

    def obey_each(self, path: Path, rule: Callable[[Any], object], value: Any) -> bool:
        """The same for a map or a list: each entry is asked about by itself, so that every bad one is found."""
        entries: list[tuple[str | int, Any]] = []
        if isinstance(value, dict):
            entries = [(name, {name: one}) for name, one in value.items()]
        elif isinstance(value, list):
            entries = [(number, [one]) for number, one in enumerate(value)]
        good = [self.obey((*path, entry), partial(rule, alone)) for entry, alone in entries]
        return all(good) and self.obey(path, partial(rule, value))

    def obey_together(self, path: Path, rule: Callable[[Any], object], settings: dict[str, Any], bad: set[str]) -> None:
        """What a rule says of several settings at once. Of those that are `bad` by themselves, nothing more is said."""
        bad = bad | {name for name in settings if self.may_be_unread((*path, name))}
        left = {name: value for name, value in settings.items() if name not in bad}
        while True:
            try:
                rule(left)
            except InvalidInput as problem:
                named = [word for word in _PLAIN.findall(str(problem)) if word in settings]
                if bad.isdisjoint(named):
                    self.error((*path, *named[:1]), str(problem))
                if left.keys().isdisjoint(named):
                    return
                left = {name: value for name, value in left.items() if name not in named}
            else:
                return

    def node_at(self, path: Path) -> Node | None:
        """The expression that was read there."""
        return self._nodes.get(path)

    def span_of(self, path: Path) -> Span | None:
        """Where in the text this stands, or what it is a part of."""
        while path:
            if path in self._spans:
                return self._spans[path]
            path = path[:-1]
        return self._spans.get(("app",))


def path_text(path: Path) -> str:
    """`queues.mails.delivery.lease`, `sagas.trip.steps[0]`, `queues["mails.dead"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{msgspec.json.encode(step).decode()}]"
    return text
