"""What may stand in which block, derived from the model: its fields are the settings, their types the values."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.spec.model import (
    CommandCall,
    Delivery,
    Part,
    RetentionDeclaration,
    RetryPolicy,
    SagaDeclaration,
    StepDeclaration,
)

KEYWORDS = {
    "owners": "owner",
    "queues": "queue",
    "topics": "topic",
    "groups": "group",
    "webhooks": "webhook",
    "consumers": "consumer",
    "pools": "pool",
    "schedules": "schedule",
    "sagas": "saga",
    "steps": "step",
    "commitments": "commitment",
}
"""Fields of the model that hold several of something → the word that declares one of them."""


class GrammarWord(msgspec.Struct, frozen=True):
    """What a word in a block stands for: the `field` of the model that it sets, and the `kind` of value that it takes.

    Of kind "block", "named" (blocks with a name each, kept by it) and "listed" (the same, kept in order), `part` is
    what is inside. `of` is the kind of the values in a list or map, `words` are those that a value may be.
    """

    field: str
    kind: str
    part: type[Part] | None = None
    of: str | None = None
    words: tuple[str, ...] = ()
    may_be_none: bool = False
    parallel: bool = False

    @property
    def is_block(self) -> bool:
        """Whether braces follow, and settings inside of them."""
        return self.kind in ("block", "named", "listed")

    @property
    def inside(self) -> Grammar:
        """The words that may stand in its block."""
        if self.parallel:
            return {
                "step": GrammarWord("parallel", "listed", StepDeclaration),
                "when": grammar_of(StepDeclaration)["when"],
            }
        return {} if self.part is None else grammar_of(self.part)


Grammar = dict[str, GrammarWord]

OTHER_NAMES = {
    "visibility_timeout": ("lease", "30s", "how long a claim lasts is the lease"),
    "secret": ("secret_env", '"WEBHOOK_SECRET"', "a spec names the environment variable that holds the secret"),
}
"""What other systems call a setting → our word, an example of its value, and why it is another word."""


def hint_for(word: str, grammar: Grammar) -> str | None:
    """What to write instead of a word that means something elsewhere; None if it does not, or not in this block."""
    ours, example, why = OTHER_NAMES.get(word, ("", "", ""))
    if ours in grammar:
        return f"{why}: write {ours}: {example}"
    for name, entry in grammar.items():
        if entry.kind == "block" and ours in entry.inside:
            return f"{why}: write {name} {{ {ours}: {example} }}"
    return None


_NO_SETTINGS = {"app", "name", "parallel", "backoff_steps_ms", "map_to_queue"}
"""Fields that are written in another way than as settings: see `_other_words`, and names stand before the braces."""


@cache
def grammar_of(part: type[Part]) -> Grammar:
    """The words that may stand in a block of this part."""
    info = inspect.type_info(part)
    assert isinstance(info, inspect.StructType), "parts are structs"
    entries = [_entry(field.name, field.type) for field in info.fields if field.name not in _NO_SETTINGS]
    return {word_of(entry): entry for entry in entries} | _other_words(part)


def word_of(entry: GrammarWord) -> str:
    """The word for a field."""
    return KEYWORDS[entry.field] if entry.kind in ("named", "listed") else entry.field


def _other_words(part: type[Part]) -> Grammar:
    """Words beside the names of fields."""
    words: Grammar = {}
    if issubclass(part, RetentionDeclaration):
        words["max_age"] = GrammarWord("max_age_seconds", "duration", may_be_none=True)
    if issubclass(part, RetryPolicy | StepDeclaration):
        words["backoff"] = GrammarWord("backoff", "backoff", may_be_none=True)
    if issubclass(part, Delivery):
        words["dead_letter"] = GrammarWord("dead_letter_queue", "name", may_be_none=True)
    if part is SagaDeclaration:
        words["parallel"] = GrammarWord("steps", "listed", StepDeclaration, parallel=True)
    return words


def _entry(name: str, of: inspect.Type, extra: dict[str, str] | None = None) -> GrammarWord:
    kind = (extra or {}).get("kind")
    if isinstance(of, inspect.Metadata):
        return _entry(name, of.type, of.extra or extra)
    if isinstance(of, inspect.UnionType):
        return _union(name, of, extra)
    if isinstance(of, inspect.LiteralType):
        return GrammarWord(name, kind or "word", words=tuple(str(word) for word in of.values))
    if kind is not None:
        return GrammarWord(name, kind, of=(extra or {}).get("of"))
    if isinstance(of, inspect.StructType):
        return GrammarWord(name, "call" if of.cls is CommandCall else "block", _part(of))
    if isinstance(of, inspect.DictType):
        return GrammarWord(name, "named", _part(of.value_type))
    if isinstance(of, inspect.ListType):
        return _list(name, of)
    return GrammarWord(name, _PLAIN[type(of)])


def _union(name: str, of: inspect.UnionType, extra: dict[str, str] | None) -> GrammarWord:
    kinds = [one for one in of.types if not isinstance(one, inspect.NoneType)]
    if len(kinds) > 1:  # int | float
        return GrammarWord(name, (extra or {}).get("kind", "number"), may_be_none=of.includes_none)
    return msgspec.structs.replace(_entry(name, kinds[0], extra), may_be_none=True)


def _list(name: str, of: inspect.ListType) -> GrammarWord:
    if isinstance(of.item_type, inspect.StructType):
        return GrammarWord(name, "listed", _part(of.item_type))
    return GrammarWord(name, "list", of=_entry(name, of.item_type).kind)


def _part(of: inspect.Type) -> Any:
    assert isinstance(of, inspect.StructType), "maps of other things have a kind"
    return of.cls


_PLAIN: dict[type[inspect.Type], str] = {inspect.IntType: "int", inspect.BoolType: "bool", inspect.StrType: "text"}
