"""The specs in `golden/`, and what is said of them. `python -m tests.spec.golden` writes that anew: read the diff."""

import json
from pathlib import Path

from holdfast.spec.check import check_reading
from holdfast.spec.grammar import Grammar, grammar_of
from holdfast.spec.model import Part, Spec, to_plain
from holdfast.spec.reading import read_text

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.holdfast"))


def text_of(name: str) -> str:
    return (GOLDEN / f"{name}.holdfast").read_text()


def diagnostics(name: str) -> str:
    reading = read_text(text_of(name), f"{name}.holdfast")
    found = check_reading(reading, environ={})
    return "".join(f"{finding.path}\n{reading.source.show(finding.problem())}\n" for finding in found)


def vocabulary() -> set[str]:
    """Every word that can begin a setting or a block somewhere."""
    return _words(grammar_of(Spec), frozenset())


def _words(grammar: Grammar, seen: frozenset[type[Part]]) -> set[str]:
    found = set(grammar)
    for entry in grammar.values():
        if entry.is_block and entry.part is not None and entry.part not in seen:
            found |= _words(entry.inside, seen | {entry.part})
    return found


def model(name: str) -> str:
    return json.dumps(to_plain(read_text(text_of(name)).spec), indent=2) + "\n"


if __name__ == "__main__":
    for one in NAMES:
        (GOLDEN / f"{one}.expected").write_text(diagnostics(one))
    for one in ("seed", "everything"):
        (GOLDEN / f"{one}.json").write_text(model(one))
