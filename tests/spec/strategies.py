"""Specs that nobody would write, but anybody could."""

from typing import Any

from hypothesis import strategies as st

from holdfast.spec import model
from holdfast.spec.shapes import Shape, word_text

letters = st.characters(codec="utf-8", exclude_categories=["Cs"])
texts = st.text(letters, max_size=12)
names = st.one_of(
    st.sampled_from(["mails", "a.b", "in", "true", "none", "queue", "with space", "é", "x-y", 'q"', "step", "_"]),
    st.text(letters, min_size=1, max_size=8),
)
references = st.one_of(names, st.sampled_from(["orders/email", "a.b/c"]))
wholes = st.integers(-(2**62), 2**62)
numbers = st.one_of(st.integers(-1000, 10**9), st.integers(0, 10**6).map(lambda n: model_number(n / 1000)))
durations = st.one_of(st.integers(0, 10**8), st.integers(1, 10**7).map(lambda n: model_number(n / 1000)))
milliseconds = st.integers(0, 10**8)
rates = st.builds(lambda count, per: f"{count}/{per}", st.integers(1, 10**6), st.sampled_from(["s", "m", "h", "30s"]))
expressions = st.sampled_from(
    ['"x"', "payload.a", 'a == "b" ? 1 : -2', "size(items) > 0", '{"a": [1, 2.5, null]}', 'm["k"] in [true]', "!a && b"]
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e6, 1e6), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
plain_shapes = st.sampled_from(["json", "string", "int", "float", "bool", "time"]).map(lambda kind: Shape(kind=kind))  # type: ignore[arg-type]
enums = st.lists(names, min_size=1, max_size=3, unique=True).map(lambda words: Shape(kind="enum", words=tuple(words)))
shapes = st.recursive(
    st.one_of(plain_shapes, enums),
    lambda inner: st.one_of(
        st.builds(Shape, kind=st.just("list"), of=inner, optional=st.booleans()),
        st.builds(Shape, kind=st.just("map"), key=st.one_of(st.just(Shape(kind="string")), enums), of=inner),
        st.builds(Shape, kind=st.just("object"), fields=st.dictionaries(names, inner, max_size=3)),
    ),
    max_leaves=5,
)
fields = st.dictionaries(names, shapes.map(str), max_size=4)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "name": references,
    "text": texts,
    "int": wholes,
    "number": numbers,
    "bool": st.booleans(),
    "duration": durations,
    "milliseconds": milliseconds,
    "rate": rates,
    "expression": expressions,
    "json": json_values,
    "fields": fields,
    "call": st.builds(
        model.CommandCall, entity_type=words, command=words, input_map=st.dictionaries(names, expressions, max_size=3)
    ),
}

onwards = st.none() | st.builds(
    model.ForwardCall, queue=references, input_map=st.dictionaries(names, expressions, max_size=3)
)


def model_number(number: float) -> int | float:
    return int(number) if number == int(number) else number


def of_entry(entry: Any) -> st.SearchStrategy[Any]:
    if entry.words:
        found: st.SearchStrategy[Any] = st.sampled_from(entry.words)
    elif entry.kind == "list":
        found = st.lists(KINDS[entry.of], max_size=3)
    elif entry.kind == "map":
        found = st.dictionaries(names, KINDS[entry.of], max_size=3)
    elif entry.kind == "block":
        found = part(entry.part)
    elif entry.kind == "named":
        found = st.dictionaries(names, part(entry.part), max_size=2)
    elif entry.kind == "listed":
        found = st.lists(part(entry.part), max_size=2)
    else:
        found = KINDS[entry.kind]
    return st.one_of(st.none(), found) if entry.may_be_none else found


def part(of: type[Any]) -> st.SearchStrategy[Any]:
    """Any part of a spec, by the grammar: what can be written is what is tried."""
    from holdfast.spec.grammar import grammar_of

    given = {entry.field: of_entry(entry) for word, entry in grammar_of(of).items() if word not in OTHER_WORDS}
    fixed = {name: values for name, values in given.items() if name in REQUIRED.get(of, ())}
    free = {name: values for name, values in given.items() if name not in fixed}
    if of in NAMED:
        fixed["name"] = names
    if of is model.Spec:
        fixed["app"] = names
    made = st.fixed_dictionaries(fixed, optional=free)
    if issubclass(of, model.RetryPolicy | model.StepDeclaration):
        made = st.one_of(made, st.builds(with_steps, made, st.lists(milliseconds, min_size=1, max_size=3)))
    if of in (model.QueueDeclaration, model.GroupDeclaration):
        made = st.builds(with_onward, made, onwards)
    if of is model.SagaDeclaration:
        made = st.builds(with_parallel, made, names, st.lists(part(model.StepDeclaration), min_size=1, max_size=2))
    return made.map(lambda values: of(**values))


def with_steps(values: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """A list of waits stands instead of the first and the longest."""
    kept = {name: value for name, value in values.items() if name not in ("initial_backoff_ms", "max_backoff_ms")}
    return {**kept, "backoff_steps_ms": steps}


def with_onward(values: dict[str, Any], onward: model.ForwardCall | None) -> dict[str, Any]:
    """The next queue stands instead of a command."""
    return values if values.get("map_to") is not None else {**values, "map_to_queue": onward}


def with_parallel(values: dict[str, Any], name: str, steps: list[Any]) -> dict[str, Any]:
    return {**values, "steps": [*values.get("steps", []), model.StepDeclaration(name=name, parallel=steps)]}


OTHER_WORDS = {"max_age", "backoff", "dead_letter", "parallel"}
REQUIRED: dict[type[Any], tuple[str, ...]] = {
    model.ScheduleDeclaration: ("queue",),
    model.VerifyHmac: ("header",),
    model.CommitmentDeclaration: ("check",),
}
NAMED = (model.CommitmentDeclaration, model.StepDeclaration)

specs = part(model.Spec)

SNIPPETS = [
    *("app", "queue", "A", "{", "}", ":", "message_type", "delivery", "[", "]", "(", ")", '"', "'", "\\", "\n", "//x"),
    *("map_to", "command", "E.C", "1s..60s", "5/m", "-", "1e999", "?", "<", ">", "map<string,", "enum(", "webhook"),
    *("filter", "a.b", "==", "in", "é", "\x00", "\ud7ff", "9" * 25, word_text("a b"), "#", ",", ";", "saga", "step"),
]
gibberish = st.lists(st.one_of(st.sampled_from(SNIPPETS), texts), max_size=60).map(" ".join)
