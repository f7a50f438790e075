"""From a document to the model: every value becomes what its setting is, or is refused where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.expressions import to_text
from holdfast.core.expressions.cursor import Cursor
from holdfast.core.expressions.source import Problem, Source, Span
from holdfast.core.expressions.tree import Node
from holdfast.spec import values
from holdfast.spec.document import Block, Command, Document, Entries, Formula, Item, Listing, Setting, Typed, Value
from holdfast.spec.grammar import Entry
from holdfast.spec.model import Call, Part, Spec, defaults_of
from holdfast.spec.parser import Parser
from holdfast.spec.values import Refused

Path = tuple[str | int, ...]
"""Where something stands in the model: ("queues", "mails", "delivery", "lease")."""


class Reading:
    """A spec that was read from a text: the model (None if there is no app), where everything stands, what was wrong.

    `nodes` are the expressions as trees, by path, so that they are not read twice. Unless it `is_whole`, something was
    left out of the document; `unparsed` says what.
    """

    def __init__(self, source: Source) -> None:
        cursor = Cursor(source)
        self.source = source
        self.document = Parser(cursor).document()
        self.comments = cursor.comments
        self.problems: list[Problem] = cursor.problems
        self.unparsed = list(cursor.problems)
        self.is_whole = not self.unparsed
        self._seen: set[Path] = set()
        self.spans: dict[Path, Span] = {}
        self.nodes: dict[Path, Node] = {}
        self.spec = self._spec(self.document)
        self.problems.sort(key=lambda problem: problem.span.start)

    @property
    def is_sound(self) -> bool:
        """Whether every letter of it was understood."""
        return not any(problem.severity == "error" for problem in self.problems)

    def _spec(self, document: Document) -> Spec | None:
        for second in document.apps[1:]:
            self._note("a file describes one app, and this is another", second.keyword.span)
        if not document.apps:
            if not self.problems:
                self._note("there is no app in this file", Span(0, 1), "write: app Name { … }")
            return None
        app = document.apps[0]
        assert app.name is not None, "the grammar says so"
        self.spans[("app",)] = app.name.span
        spec: Spec | None = self._build(Spec, app, (), {"app": app.name.text})
        return spec

    def _build(self, part: type[Part], block: Block, path: Path, given: dict[str, Any]) -> Any:
        """The part that a block says; None if something is missing without which it is none."""
        fields = dict(given)
        self.spans[path] = (block.name or block.keyword).span
        for item in sorted(block.items, key=_comes_last):
            self._take(item, path, fields)
        return self._made(part, block, fields)

    def _made(self, part: type[Part], block: Block, fields: dict[str, Any]) -> Any:
        usual = defaults_of(part)
        missing = [name for name in usual if usual[name] is msgspec.NODEFAULT and name not in fields]
        given = {item.key.text for item in block.items if isinstance(item, Setting)}
        for name in missing:
            if name not in given:
                self._note(f"{block.keyword.text} needs {name}: …", (block.name or block.keyword).span)
        # What `backoff` says of chance is left out where there is none.
        return None if missing else part(**{name: value for name, value in fields.items() if name in usual})

    def _take(self, item: Item, path: Path, fields: dict[str, Any]) -> None:
        entry = item.entry
        assert entry is not None, "items of blocks have one"
        if isinstance(item, Block) and entry.kind == "named":
            self._take_named(item, entry, path, fields)
        elif isinstance(item, Block) and entry.kind == "listed":
            self._take_listed(item, entry, path, fields)
        elif (word := item.keyword if isinstance(item, Block) else item.key) and self._is_second(word.text, path):
            self._note(f"{word.text!r} is set twice", word.span)
        elif isinstance(item, Block):
            fields[entry.field] = self._build(_part(entry), item, (*path, entry.field), {})
        else:
            self._take_setting(item, entry, path, fields)

    def _is_second(self, word: str, path: Path) -> bool:
        """Whether the same word was in this block before."""
        known = (*path, word) in self._seen
        self._seen.add((*path, word))
        return known

    def _take_named(self, block: Block, entry: Entry, path: Path, fields: dict[str, Any]) -> None:
        known: dict[str, Part] = fields.setdefault(entry.field, {})
        assert block.name is not None, "the grammar says so"
        name = block.name.text
        if (*path, entry.field, name) in self.spans:
            self._note(f"there is a {block.keyword.text} {name!r} already", block.name.span)
            return
        found = self._build(_part(entry), block, (*path, entry.field, name), {})
        if found is not None:
            known[name] = found

    def _take_listed(self, block: Block, entry: Entry, path: Path, fields: dict[str, Any]) -> None:
        known: list[Any] = fields.setdefault(entry.field, [])
        assert block.name is not None, "the grammar says so"
        found = self._build(_part(entry), block, (*path, entry.field, len(known)), {"name": block.name.text})
        if found is not None:
            known.append(found)

    # --- values -------------------------------------------------------------------------------------------------------

    def _take_setting(self, setting: Setting, entry: Entry, path: Path, fields: dict[str, Any]) -> None:
        here = (*path, entry.field)
        self.spans[here] = setting.value.span
        if entry.kind == "backoff":
            self._take_backoff(setting, path, fields)
            return
        if entry.field in fields:
            self._note(f"{setting.key.text!r} was set before, by another name", setting.key.span)
            return
        found = self._value(setting.value, entry, here)
        if found is not _REFUSED:
            fields[entry.field] = found

    def _take_backoff(self, setting: Setting, path: Path, fields: dict[str, Any]) -> None:
        """It says what other settings say one by one; only the jitter can be said beside it."""
        found = self._try(setting.value, lambda: values.backoff(setting.value))
        if found is _REFUSED:
            return
        for field, value in found.items():
            if field not in fields:
                fields[field] = value
                self.spans[(*path, field)] = setting.value.span
            elif field != "jitter":
                self._note(f"'backoff' says what {field!r} says", setting.key.span, "write only one of them")

    def _value(self, value: Value, entry: Entry, path: Path) -> Any:
        if isinstance(value, Formula):
            self.nodes[path] = value.node
            return to_text(value.node)
        if isinstance(value, Command):
            return self._call(value, path)
        if entry.kind == "fields":
            return self._each(value, path, lambda one, _: str(one.shape) if isinstance(one, Typed) else "json")
        if entry.kind == "map":
            of = Entry(entry.field, entry.of or "json")
            return self._each(value, path, lambda one, where: self._value(one, of, where))
        if entry.kind == "list":
            return self._list(value, entry, path)
        return self._try(value, lambda: values.read(value, entry))

    def _call(self, value: Command, path: Path) -> Call:
        self.spans[(*path, "command")] = value.entity.span.to(value.command.span)
        inputs = self._each(value.inputs, (*path, "input_map"), self._input) if value.inputs else {}
        return Call(entity_type=value.entity.text, command=value.command.text, input_map=inputs)

    def _input(self, value: Value, path: Path) -> Any:
        return self._value(value, Entry("input_map", "expression"), path)

    def _each(self, value: Value, path: Path, read: Callable[[Any, Path], Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for setting in value.settings if isinstance(value, Entries) else []:
            here = (*path, setting.key.text)
            self.spans[here] = setting.span
            result = read(setting.value, here)
            if result is not _REFUSED:
                found[setting.key.text] = result
        return found

    def _list(self, value: Value, entry: Entry, path: Path) -> list[Any]:
        of = Entry(entry.field, entry.of or "json", words=entry.words)
        listed = value.values if isinstance(value, Listing) else [value]
        for number, one in enumerate(listed):
            self.spans[(*path, number)] = one.span
        found = [self._value(one, of, (*path, number)) for number, one in enumerate(listed)]
        return [one for one in found if one is not _REFUSED]

    def _try(self, value: Value, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Refused as problem:
            self._note(str(problem), problem.span or value.span, problem.hint)
            return _REFUSED

    def _note(self, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(Problem(message, span, hint))


def read_text(text: str, name: str = "<spec>") -> Reading:
    """Reads a spec. Whatever the text is, there is an answer: look at its `problems`."""
    return Reading(Source(text, name))


def _comes_last(item: Item) -> bool:
    return item.entry is not None and item.entry.kind == "backoff"


def _part(entry: Entry) -> type[Part]:
    assert entry.part is not None, "blocks have a part"
    return entry.part


_REFUSED: Any = object()
