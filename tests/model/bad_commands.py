"""I23 for commands: what may not be declared, and what may not be run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from holdfast import InvalidInput
from tests.model.mistakes import JSON_SAYS, TEXT_SAYS, TEXTS, VALUES, Argument, named

NAME_SAYS = "^a command's name must be an entity and a verb"
NAMES = {
    **TEXTS,
    "nothing": "",
    "None": None,
    "one part": "Create",
    "three parts": "A.B.C",
    "a dash": "A.b-c",
    "a space": "A. B",
    "a digit first": "1A.B",
    "an end of a line": "A.B\n",
    "another alphabet": "Ä.B",
    "too long": f"A.{'b' * 200}",
}


def _thing(what: int) -> int:
    return what


def _with_command(hf: Any) -> Any:
    with contextlib.suppress(InvalidInput):
        hf.command("Thing.Do")(_thing)
    return hf


class Unreadable:
    """No JSON leads here."""


def _unreadable(what: Unreadable) -> None: ...


def _unheard_of(what: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def _of_declaring() -> Iterator[Argument]:
    yield Argument("command(name)", lambda hf, bad: hf.command(bad)(_thing), NAMES, NAME_SAYS)
    functions = {
        "a number": 7,
        "any number of arguments": lambda *what: None,
        "any keyword": lambda **what: None,
        "a place without a name": lambda what, /: None,
        "an unreadable type": _unreadable,
        "an unknown type": _unheard_of,
    }
    yield Argument("command(function)", lambda hf, bad: hf.command("Thing.Odd")(bad), functions, "command Thing.Odd ")


def _of_running() -> Iterator[Argument]:
    yield Argument("commands.run(name)", lambda hf, bad: hf.commands.run(bad, {}), NAMES, NAME_SAYS)
    given = {
        "None": None,
        "a list": [1],
        "text": "x",
        "nothing": {},
        "a stranger": {"what": 1, "colour": "red"},
        "the wrong type": {"what": "1"},
    }
    hand = lambda hf, bad: _with_command(hf).commands.run("Thing.Do", bad)  # noqa: E731
    yield Argument("commands.run(input)", hand, given, "^the input (of Thing.Do must be|does not fit Thing.Do: )")
    hand = lambda hf, bad: _with_command(hf).commands.run("Thing.Do", {"what": bad})  # noqa: E731
    yield Argument("commands.run(input), inside", hand, VALUES, named("input", JSON_SAYS))
    hand = lambda hf, bad: _with_command(hf).commands.run("Thing.Do", {"what": 1}, idempotency_key=bad)  # noqa: E731
    yield Argument("commands.run(idempotency_key=)", hand, TEXTS, named("idempotency_key", TEXT_SAYS))


BAD_COMMANDS = list(_of_declaring())
BAD_RUNS = list(_of_running())
