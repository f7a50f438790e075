"""I23: what a user may hand over by mistake where sagas are concerned. See `bad_input`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast import Expression, Holdfast, Step, Wait
from tests.client_names import method_of
from tests.model.mistakes import (
    CONNS,
    COUNT_SAYS,
    COUNTS,
    JSON_SAYS,
    LENGTHS_OR_NONE,
    NAME_SAYS,
    NAMES,
    NAMES_OR_NONE,
    TEXT_SAYS,
    TEXTS,
    VALUES,
    WORDS,
    Argument,
    length,
    named,
)

A = Step("a", "plain")
STEPS = {
    "nothing": [],
    "None": None,
    "a step": A,
    "a name": ["a"],
    "an empty list inside": [[]],
    "the same name twice": [A, [A]],
    "lists in lists": [[[A]]],
    "too many": [Step(str(n), "plain") for n in range(201)],
}
EXPRESSIONS = {
    **{what: text for what, text in TEXTS.items() if not isinstance(text, str)},
    "nothing": "",
    "half of one": "data.a +",
    "an unknown name": "order.id",
    "an unknown function": "eval(data)",
    "much": "1 + " * 2000 + "1",
}
SAGA_IDS = {
    **TEXTS,
    "nothing": "",
    "a slash": "epic/bd-123",
    "a line": "a\nb",
    "outer spaces": " a",
    "a dot": ".",
    "two dots": "..",
}
RETRIES = {"negative": -1, "a fraction": 1.5, "text": "5", "True": True, "too many": 1001, "None": None}
VALUES_OR_PICKS = {
    **{what: value for what, value in VALUES.items() if what != "a function"},
    "a sum": lambda data: data.a + 1,
    "a choice": lambda data: 1 if data.a else 2,
    "a text": lambda data: len(data.a),
    "two arguments": lambda data, more: data,
}


def _of_steps() -> Iterator[Argument]:
    def step(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.saga("s", steps=[Step(**{"name": "a", "target": "plain", name: bad})])

    yield Argument("Step(name)", step("name"), NAMES, "^step ")
    yield Argument("Step(target)", step("target"), NAMES, "^target ")
    yield Argument("Expression(text)", lambda hf, bad: Expression(bad), EXPRESSIONS, "expression|cannot be worked out")
    yield Argument("Step(undo=)", step("undo"), NAMES_OR_NONE, "^undo ")
    yield length("Step", "timeout", step("timeout"), {**LENGTHS_OR_NONE, "no time": 0})
    yield Argument("Step(retry=)", step("retry"), RETRIES, "^retry must be a number from 0")
    yield Argument("Step(backoff=)", step("backoff"), {"negative": -1, "an unknown word": "soon"}, "backoff")
    for name in ("input", "undo_input", "when"):
        yield Argument(f"Step({name}=)", step(name), VALUES_OR_PICKS, f"^{name}")


def _of_waits() -> Iterator[Argument]:
    def wait(name: str, **others: Any) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.saga("s", steps=[Wait(**{"name": "a", **others, name: bad})])

    yield Argument("Wait(name)", wait("name", delay=1), NAMES, "^step ")
    yield Argument("Wait(signal=)", wait("signal"), NAMES_OR_NONE, "^signal ")
    yield Argument("Wait(signal=)", wait("signal"), {"None": None}, "needs one of signal=")
    yield Argument("Wait(signal=)", wait("signal", delay=1), {"beside delay": "x"}, "needs one of signal=")
    yield length("Wait", "delay", wait("delay"), LENGTHS_OR_NONE)
    yield Argument("Wait(until=)", wait("until"), VALUES_OR_PICKS, "^until")
    yield length("Wait", "timeout", wait("timeout", signal="x"), {**LENGTHS_OR_NONE, "no time": 0})
    yield Argument("Wait(timeout=)", wait("timeout", delay=1), {"for a time": 1}, "^timeout is for a signal")
    yield Argument("Wait(when=)", wait("when", delay=1), VALUES_OR_PICKS, "^when")


def _of_sagas() -> Iterator[Argument]:
    yield Argument("saga(name)", lambda hf, bad: hf.saga(bad, steps=[A]), NAMES, NAME_SAYS)
    yield Argument("saga(steps=)", lambda hf, bad: hf.saga("s", steps=bad), STEPS, "^steps")
    words = lambda hf, bad: hf.saga("s", steps=[A], on_failure=bad)  # noqa: E731
    yield Argument("saga(on_failure=)", words, WORDS, "^on_failure must be one of")
    yield Argument("saga(owner=)", lambda hf, bad: hf.saga("s", steps=[A], owner=bad), NAMES_OR_NONE, "^owner ")
    yield length("saga", "keep", lambda hf, bad: hf.saga("s", steps=[A], keep=bad), LENGTHS_OR_NONE)
    yield Argument("start_saga(name)", lambda hf, bad: hf.start_saga(bad), NAMES, NAME_SAYS)
    data = {**{what: {"a": value} for what, value in VALUES.items()}, "a list": [1], "text": "a"}
    yield Argument(
        "start_saga(data)", lambda hf, bad: hf.start_saga("s", bad), data, named("data", JSON_SAYS + "|must")
    )
    yield Argument(
        "start_saga(id=)",
        lambda hf, bad: hf.start_saga("s", id=bad),
        SAGA_IDS,
        named("saga_id", TEXT_SAYS + "|may not hold"),
    )
    yield length("start_saga", "delay", lambda hf, bad: hf.start_saga("s", delay=bad))
    yield Argument("start_saga(conn=)", lambda hf, bad: hf.start_saga("s", conn=bad), CONNS, "^conn= on .* takes")


def _of_acts() -> Iterator[Argument]:
    said = named("saga_id", TEXT_SAYS + "|may not hold")
    more: dict[str, tuple[Any, ...]] = {
        "signal": ("go",),
        "sagas.cancel": (),
        "sagas.retry": ("a",),
        "sagas.skip": ("a", "why"),
        "sagas.mark_done": ("a",),
        "sagas.get": (),
    }
    for verb, rest in more.items():
        hand = lambda hf, bad, verb=verb, rest=rest: method_of(hf, verb)(bad, *rest)  # noqa: E731
        yield Argument(f"{verb}(saga_id)", hand, {**SAGA_IDS, "None": None}, said)
        if verb in ("sagas.retry", "sagas.skip", "sagas.mark_done"):
            hand = lambda hf, bad, verb=verb, rest=rest: method_of(hf, verb)("t", bad, *rest[1:])  # noqa: E731
            yield Argument(f"{verb}(step)", hand, NAMES, "^step ")
    yield Argument("signal(name)", lambda hf, bad: hf.signal("t", bad), NAMES, NAME_SAYS)
    yield Argument("signal(data)", lambda hf, bad: hf.signal("t", "go", bad), VALUES, named("data", JSON_SAYS))
    yield Argument("sagas.cancel(reason)", lambda hf, bad: hf.sagas.cancel("t", bad), TEXTS, named("reason", TEXT_SAYS))
    reasons = {**TEXTS, "nothing": "", "spaces": "  ", "None": None}
    skip = lambda hf, bad: hf.sagas.skip("t", "a", bad)  # noqa: E731
    yield Argument("sagas.skip(reason)", skip, reasons, named("reason", TEXT_SAYS))
    done = lambda hf, bad: hf.sagas.mark_done("t", "a", bad)  # noqa: E731
    yield Argument("sagas.mark_done(output)", done, VALUES, named("output", JSON_SAYS))
    states = {what: word for what, word in WORDS.items() if word is not None}
    yield Argument("sagas.list(status)", lambda hf, bad: hf.sagas.list(bad), states, "^status must be one of")
    yield Argument("sagas.list(name=)", lambda hf, bad: hf.sagas.list(name=bad), NAMES_OR_NONE, NAME_SAYS)
    yield Argument("sagas.list(n=)", lambda hf, bad: hf.sagas.list(n=bad), COUNTS, COUNT_SAYS)
    yield Argument("sagas.list(after=)", lambda hf, bad: hf.sagas.list(after=bad), SAGA_IDS, said)


BAD_SAGAS = [*_of_sagas(), *_of_acts(), *_of_steps(), *_of_waits()]
