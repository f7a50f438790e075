"""Specs in files, for those who need one that holds together."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.expressions.lexer import LONGEST_SPEC
from holdfast.core.expressions.source import Source
from holdfast.errors import InvalidInput
from holdfast.spec.annotations import CommandLike
from holdfast.spec.check import check, check_reading
from holdfast.spec.findings import SpecFinding, path_text
from holdfast.spec.model import Spec
from holdfast.spec.plain import read_plain
from holdfast.spec.reading import Path as ModelPath
from holdfast.spec.reading import read_text

STDIN = "-"


class InvalidSpec(InvalidInput):
    """A spec that cannot work. Its text is everything that is wrong, as `holdfast check` shows it."""

    is_report = True


class Examined(msgspec.Struct, frozen=True):
    """A file, what it says, and what is to be said about it. `spec` is None if that could not be made out."""

    name: str
    spec: Spec | None
    findings: list[SpecFinding]
    source: Source | None = None

    @property
    def errors(self) -> list[SpecFinding]:
        """What keeps it from working."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def count(self) -> str:
        """How much was found."""
        errors = len(self.errors)
        return f"{self.name}: {counted(errors, 'error')}, {counted(len(self.findings) - errors, 'warning')}"

    def show(self, finding: SpecFinding) -> str:
        """For a terminal: with the line that it is about, if the file is one with lines."""
        if self.source is not None:
            problem = finding.problem()
            about = f" (in {finding.path})" if finding.path else ""
            return self.source.show(msgspec.structs.replace(problem, message=problem.message + about))
        where = f"{self.name}: {finding.path}" if finding.path else self.name
        return f"{where}: {finding.severity}: {finding.message}" + (f"\n  {finding.hint}" if finding.hint else "")


def examine(
    path: str,
    *,
    commands: Iterable[CommandLike] | None = None,
    consumers: Collection[str] | None = None,
    handlers: Callable[[str], object] | None = None,
    environ: Mapping[str, str] | None = None,
    serving: bool = False,
) -> Examined:
    """Reads a *.holdfast file, or the JSON of one, and looks for everything that is wrong with it."""
    text, name = read_file(path), shown_name(path)
    known = {"commands": commands, "consumers": consumers, "handlers": handlers}
    options = {**known, "environ": environ, "serving": serving}
    if not text.lstrip().startswith("{"):
        reading = read_text(text, name)
        return Examined(name, reading.spec, check_reading(reading, **options), reading.source)  # type: ignore[arg-type]
    try:
        spec, refused, unread = read_plain(msgspec.json.decode(text))
        found = [] if spec is None else check(spec, unread=unread, **options)  # type: ignore[arg-type]
        return Examined(name, spec, [*_twins(text), *refused, *found])
    except msgspec.DecodeError as problem:
        return Examined(name, None, [SpecFinding("", str(problem))])
    except RecursionError:
        return Examined(name, None, [SpecFinding("", "it is nested too deeply")])


class _Object(list[tuple[str, Any]]):
    """The members of an object, also those of the same name."""


def _twins(text: str) -> list[SpecFinding]:
    """Names that stand twice in one object: a reader takes the last, which nobody sees."""
    return list(_twins_in(json.loads(text, object_pairs_hook=_Object), ()))


def _twins_in(value: Any, path: ModelPath) -> Iterator[SpecFinding]:
    if isinstance(value, _Object):
        for name, times in Counter(name for name, _ in value).items():
            if times > 1:
                yield SpecFinding(path_text(path), f"an object has two members {name!r}: which of them counts?")
    entries = value if isinstance(value, _Object) else enumerate(value) if isinstance(value, list) else ()
    for step, one in entries:
        yield from _twins_in(one, (*path, step))


def counted(number: int, word: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def sound_spec(examined: Examined) -> Spec:
    """The spec, or `InvalidSpec`."""
    if examined.spec is None or examined.errors:
        raise InvalidSpec("\n".join([*map(examined.show, examined.findings), examined.count]))
    return examined.spec


def shown_name(path: str) -> str:
    """What a file is called in a diagnostic."""
    return "<stdin>" if path == STDIN else path


def read_file(path: str) -> str:
    """The text of a file; one error of ours for everything that can be wrong with it."""
    try:
        # A little more than allowed is enough to see that it is too much.
        most = 4 * LONGEST_SPEC + 1
        if path == STDIN:
            raw = sys.stdin.buffer.read(most)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(most)
        return raw.decode("utf-8-sig")
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{shown_name(path)} is no text in UTF-8: see its byte {problem.start}") from None
