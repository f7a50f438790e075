"""The examples in the docstrings of public names do what they say."""

import doctest
import inspect
import sys
import time
from pathlib import Path

import pytest

import holdfast
from tests.client_names import namespaces

FINDER = doctest.DocTestFinder()
CLASSES = {name: thing for name in holdfast.__all__ if inspect.isclass(thing := getattr(holdfast, name))}
CLASSES |= {f"Holdfast.{name}": thing for name, thing in namespaces().items()}


def examples(name: str) -> list[doctest.DocTest]:
    thing = CLASSES[name]
    module = sys.modules[thing.__module__]
    return [test for test in FINDER.find(thing, name, module=module) if test.examples]


@pytest.mark.parametrize("name", [name for name in CLASSES if examples(name)])
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for number, test in enumerate(examples(name)):
        with holdfast.Holdfast(f"sqlite:///example{number}.db") as hf:
            test.globs.update(hf=hf, time=time)
            outcome = runner.run(test)
        assert outcome.attempted
        assert not outcome.failed


def test_the_clients_have_examples() -> None:
    assert examples("Holdfast")
    assert examples("AsyncHoldfast")
    assert len([name for name in namespaces() if examples(f"Holdfast.{name}")]) >= 5
