"""From a document to the model: every value becomes what its setting is, or is refused where it stands."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from holdfast.core.expressions import to_text
from holdfast.core.expressions.cursor import TokenCursor
from holdfast.core.expressions.lexer import LexerToken
from holdfast.core.expressions.source import Source, SourceProblem, Span
from holdfast.core.expressions.tree import Node
from holdfast.spec import model, values
from holdfast.spec.document import (
    Block,
    CommandSyntax,
    Document,
    Formula,
    ForwardSyntax,
    Item,
    Listing,
    Literal,
    MapSyntax,
    Setting,
    Typed,
    Value,
)
from holdfast.spec.grammar import GrammarWord
from holdfast.spec.model import CommandCall, Part, Spec, defaults_of
from holdfast.spec.parser import Parser, is_unnamed
from holdfast.spec.values import ValueRefused

NAMED = ("owners", "queues", "topics", "groups", "webhooks", "consumers", "pools", "schedules", "sagas")
"""Where the model has parts by their names."""
BACKOFF = frozenset({"initial_backoff_ms", "max_backoff_ms", "backoff_steps_ms"})
"""What `backoff` says."""
ANY = "*"
"""In the place of the fields of a block, if it may be any of them."""
STAND_IN = "?"
"""In the place of what is missing, so that the rest of a part can be looked at."""

Path = tuple[str | int, ...]
"""Where something stands in the model: ("queues", "mails", "delivery", "lease")."""


class Unread:
    """What was written, or had to be, and is not in the model: nobody should be told of it a second time.

    `paths` are of what was refused; parts have something else in its place. `partly` are blocks of which something was
    skipped, with its fields, and `names` those that what was skipped may have declared.
    """

    def __init__(self) -> None:
        self.paths: set[Path] = set()
        self.partly: dict[Path, set[str]] = {}
        self.names: set[str] = set()
        self._around: set[Path] = set()

    def add(self, path: Path) -> None:
        """This was refused."""
        self.paths.add(path)
        self._around.update(path[:length] for length in range(1, len(path)))

    def covers(self, path: Path) -> bool:
        """Whether this was refused, or is inside of what was."""
        return any(path[:length] in self.paths for length in range(1, len(path) + 1))

    def may_hold(self, path: Path, known: Collection[Path]) -> bool:
        """Whether this is missing only because it was not understood. `known` are places that were read."""
        if path in self._around or self.covers(path):
            return True
        if len(path) > 1 and path[-2] in NAMED:
            return path[-1] in self.names
        for length in range(1, len(path)):
            gone = self.partly.get(path[:length], ())
            if (ANY in gone or path[length] in gone) and path[: length + 1] not in known:
                return True
        return False


class ReadSpec:
    """A spec that was read from a text: the model (None if there is no app), where everything stands, what was wrong.

    `nodes` are the expressions as trees, by path, so that they are not read twice. Unless it `is_whole`, something was
    left out of the document; `unparsed` says what.
    """

    def __init__(self, source: Source) -> None:
        cursor = TokenCursor(source)
        self.source = source
        in_signs = [problem.span.start for problem in cursor.problems]
        parser = Parser(cursor)
        self.document = parser.document()
        self._skipped = parser.skipped
        self._gaps = sorted([*in_signs, *(start for start, _ in parser.skipped)])
        self.comments = cursor.comments
        self.problems: list[SourceProblem] = cursor.problems
        self.unparsed = list(cursor.problems)
        self.is_whole = not self.unparsed
        self._doubts = sorted(problem.span.start for problem in self.unparsed)
        self.unread = Unread()
        self.unread.names.update(name for _, run in parser.skipped for name in _declared(run))
        self._seen: set[Path] = set()
        self._twins: Counter[Path] = Counter()
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
        """The part that a block says; something stands in for what is missing."""
        fields = dict(given)
        self.spans[path] = (block.name or block.keyword).span
        for item in sorted(block.items, key=_comes_last):
            self._take(item, path, fields)
        if gone := self._gone(block):
            self.unread.partly[path] = gone
        return self._made(part, block, path, fields)

    def _gone(self, block: Block) -> set[str]:
        """The fields of a block that may have been skipped; `ANY` if what was skipped tells nothing."""
        gaps = _count_in(self._gaps, block.span.start, block.span.end + 1)
        if gaps == sum(_count_in(self._gaps, item.span.start, item.span.end) for item in block.items):
            return set()
        inside = [
            run
            for start, run in self._skipped
            if block.span.start <= start <= block.span.end
            and not any(item.span.start <= start < item.span.end for item in block.items)
        ]
        grammar = block.entry.inside
        gone = set[str]() if inside else {ANY}
        for run in inside:
            words = {_text(one) for one, after in pairwise(run) if after.is_mark(":", "{")} | {
                _text(run[0]) if run else ""
            }
            known = [grammar[word] for word in words if word in grammar]
            gone |= {entry.field for entry in known} if run and _text(run[0]) in grammar else {ANY}
            if any(entry.kind == "backoff" for entry in known):
                gone |= BACKOFF
        return gone

    def _made(self, part: type[Part], block: Block, path: Path, fields: dict[str, Any]) -> Any:
        usual = defaults_of(part)
        missing = [name for name in usual if usual[name] is msgspec.NODEFAULT and name not in fields]
        given = {item.key.text for item in block.items if isinstance(item, Setting)}
        for name in missing:
            if name not in given and not self.unread.may_hold((*path, name), self.spans):
                self._note(f"{block.keyword.text} needs {name}: …", (block.name or block.keyword).span)
            self.unread.add((*path, name))
            fields[name] = STAND_IN
        # What `backoff` says of chance is left out where there is none.
        return part(**{name: value for name, value in fields.items() if name in usual})

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

    def _take_named(self, block: Block, entry: GrammarWord, path: Path, fields: dict[str, Any]) -> None:
        known: dict[str, Part] = fields.setdefault(entry.field, {})
        assert block.name is not None, "the grammar says so"
        name = block.name.text
        if (*path, entry.field, name) in self.spans:
            self._note(f"there is a {block.keyword.text} {name!r} already", block.name.span)
            self._twins[(*path, entry.field, name)] += 1
            name = f"{name} ({1 + self._twins[(*path, entry.field, name)]})"
            self.unread.add((*path, entry.field, name, "consumer"))  # A pool's is not this name.
        known[name] = self._build(_part(entry), block, (*path, entry.field, name), {})

    def _take_listed(self, block: Block, entry: GrammarWord, path: Path, fields: dict[str, Any]) -> None:
        known: list[Any] = fields.setdefault(entry.field, [])
        assert block.name is not None, "the grammar says so"
        here = (*path, entry.field, len(known))
        self.spans[(*here, "name")] = block.name.span
        if is_unnamed(block.name):
            self.unread.add((*here, "name"))
        known.append(self._build(_part(entry), block, here, {"name": block.name.text}))

    # --- values -------------------------------------------------------------------------------------------------------

    def _take_setting(self, setting: Setting, entry: GrammarWord, path: Path, fields: dict[str, Any]) -> None:
        here = (*path, entry.field)
        self.spans[here] = setting.value.span
        if entry.kind == "backoff":
            self._take_backoff(setting, path, fields)
            return
        if isinstance(setting.value, ForwardSyntax):
            self._take_onward(setting.value, path, fields)
            return
        if entry.field in fields:
            self._note(f"{setting.key.text!r} was set before, by another name", setting.key.span)
            return
        found = self._value(setting.value, entry, here)
        if found is _REFUSED:
            self.unread.add(here)
        else:
            fields[entry.field] = found

    def _take_onward(self, value: ForwardSyntax, path: Path, fields: dict[str, Any]) -> None:
        here = (*path, "map_to_queue")
        self.spans[here], self.spans[(*here, "queue")] = value.span, value.queue.span
        queue = self._try(value.queue, lambda: values.read(value.queue, GrammarWord("queue", "name")))
        inputs = self._each(value.inputs, (*here, "input_map"), self._input) if value.inputs else {}
        if queue is _REFUSED:  # Its fields are looked at all the same.
            self.unread.add((*here, "queue"))
            queue = "?"
        fields["map_to_queue"] = model.ForwardCall(queue=queue, input_map=inputs)

    def _take_backoff(self, setting: Setting, path: Path, fields: dict[str, Any]) -> None:
        """It says what other settings say one by one; only the jitter can be said beside it."""
        found = self._try(setting.value, lambda: values.backoff(setting.value))
        if found is _REFUSED:
            for field in BACKOFF:
                self.unread.add((*path, field))
            return
        for field, value in found.items():
            if field not in fields:
                fields[field] = value
                self.spans[(*path, field)] = setting.value.span
            elif field != "jitter":
                self._note(f"'backoff' says what {field!r} says", setting.key.span, "write only one of them")

    def _value(self, value: Value, entry: GrammarWord, path: Path) -> Any:
        if isinstance(value, Formula | Literal):
            self._is_doubtful(value, path)
        if isinstance(value, Formula):
            self.nodes[path] = value.node
            return to_text(value.node)
        if isinstance(value, CommandSyntax):
            return self._call(value, path)
        if entry.kind == "fields":
            return self._fields(value, path)
        if entry.kind == "map":
            of = GrammarWord(entry.field, entry.of or "json")
            return self._each(value, path, lambda one, where: self._value(one, of, where))
        if entry.kind == "list":
            return self._list(value, entry, path)
        return self._try(value, lambda: values.read(value, entry))

    def _fields(self, value: Value, path: Path) -> dict[str, str]:
        found = self._each(value, path, self._type)
        return {**dict.fromkeys(self._left_out(value), "json"), **found}

    def _type(self, value: Value, path: Path) -> str:
        if isinstance(value, Typed) and not self._is_doubtful(value, path):
            return str(value.shape)
        return "json"

    def _is_doubtful(self, value: Value, path: Path) -> bool:
        """Whether something in a value was not understood: then it says nothing certain, and nothing is said of it."""
        if not _count_in(self._doubts, value.span.start, value.span.end):
            return False
        self.unread.add(path)
        return True

    def _left_out(self, value: Value) -> list[str]:
        """The names in a map whose values were not understood."""
        runs = [run for start, run in self._skipped if value.span.start <= start < value.span.end]
        named = [token for run in runs for token, after in pairwise(run) if after.is_mark(":")]
        return [
            _text(token) for token in [*named, *(run[0] for run in runs if run)] if token.kind in ("name", "string")
        ]

    def _call(self, value: CommandSyntax, path: Path) -> CommandCall:
        self.spans[(*path, "command")] = value.entity.span.to(value.command.span)
        inputs = self._each(value.inputs, (*path, "input_map"), self._input) if value.inputs else {}
        return CommandCall(entity_type=value.entity.text, command=value.command.text, input_map=inputs)

    def _input(self, value: Value, path: Path) -> Any:
        return self._value(value, GrammarWord("input_map", "expression"), path)

    def _each(self, value: Value, path: Path, read: Callable[[Any, Path], Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for setting in value.settings if isinstance(value, MapSyntax) else []:
            here = (*path, setting.key.text)
            self.spans[here] = setting.span
            result = read(setting.value, here)
            if result is not _REFUSED:
                found[setting.key.text] = result
            else:
                self.unread.add(here)
        for name in self._left_out(value) if self._skipped else ():
            if name not in found:
                self.unread.add((*path, name))
        return found

    def _list(self, value: Value, entry: GrammarWord, path: Path) -> list[Any]:
        of = GrammarWord(entry.field, entry.of or "json", words=entry.words)
        listed = value.values if isinstance(value, Listing) else [value]
        for number, one in enumerate(listed):
            self.spans[(*path, number)] = one.span
        found = [self._value(one, of, (*path, number)) for number, one in enumerate(listed)]
        for number in [number for number, one in enumerate(found) if one is _REFUSED]:
            self.unread.add((*path, number))
            found[number] = STAND_IN if of.kind in ("name", "text") else 0
        return found

    def _try(self, value: Value, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ValueRefused as problem:
            self._note(str(problem), problem.span or value.span, problem.hint)
            return _REFUSED

    def _note(self, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(SourceProblem(message, span, hint))


def read_text(text: str, name: str = "<spec>") -> ReadSpec:
    """Reads a spec. Whatever the text is, there is an answer: look at its `problems`."""
    return ReadSpec(Source(text, name))


def _comes_last(item: Item) -> bool:
    return item.entry is not None and item.entry.kind == "backoff"


def _part(entry: GrammarWord) -> type[Part]:
    assert entry.part is not None, "blocks have a part"
    return entry.part


def _count_in(starts: list[int], start: int, end: int) -> int:
    return bisect_left(starts, end) - bisect_left(starts, start)


def _text(token: LexerToken) -> str:
    return str(token.value) if token.kind == "string" else token.text


def _declared(run: list[LexerToken]) -> Iterator[str]:
    """The names of blocks that may begin among these tokens: after a word for blocks, or before a brace."""
    for at, token in enumerate(run):
        if token.kind not in ("name", "string"):
            continue
        name, end = _text(token), at + 1
        while end + 1 < len(run) and run[end].is_mark(".") and run[end + 1].kind == "name":
            name, end = f"{name}.{run[end + 1].text}", end + 2
        opens = end < len(run) and run[end].is_mark("{")
        if opens or (at and run[at - 1].kind == "name" and f"{run[at - 1].text}s" in NAMED):
            yield name


_REFUSED: Any = object()
