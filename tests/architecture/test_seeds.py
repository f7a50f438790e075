"""A failed test says with which seed it ran, and fails in the same way with that seed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.seeds import VARIABLE

CONFTEST = "import tests.seeds\ndef pytest_configure(config): tests.seeds.install(config)\n"

TESTS = """
import random
import pytest
from hypothesis import Phase, given, settings, strategies

@pytest.fixture(scope="session")
def drawn(): return random.random()

def test_before(drawn): ...

@pytest.mark.parametrize("name", ["it's"])
def test_chance(drawn, name): assert not random.random(), "of random"

@settings(database=None, max_examples=1, phases=[Phase.generate])
@given(strategies.lists(strategies.integers(0, 10**9), min_size=9, max_size=9).filter(any))
def test_property(numbers): raise AssertionError(f"example {numbers} of hypothesis")
"""

COMMAND = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={ROOT}"]

PLUGINS = ["-p", "xdist.plugin", "-p", "_hypothesis_pytestplugin"]
"""No others: loading all that are installed takes longer than these tests."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, seed: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", VARIABLE))}
    # In CI, Hypothesis has defaults of its own, which leave nothing to chance.
    environment = {**inherited, "CI": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **({VARIABLE: seed} if seed else {})}
    command = [*COMMAND, *PLUGINS, f"--rootdir={folder}", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def drawn(output: str) -> list[str]:
    """What the two failing tests have drawn."""
    by_random = re.findall(r"assert not ([\d.e-]+)$", output, re.MULTILINE)
    return sorted({*by_random, *re.findall(r"example \[.*\]", output)})


def test_a_failure_says_how_to_repeat_it_and_that_does(folder: Path) -> None:
    output = run(folder, None).stdout
    [seed] = set(re.findall(rf"^{VARIABLE}=(\d+) python3 dev.py test test_it.py::test_property$", output, re.MULTILINE))
    assert f"""{VARIABLE}={seed} python3 dev.py test 'test_it.py::test_chance[it'"'"'s]'""" in output
    alone = run(folder, seed, "-n", "1", "test_it.py::test_property", "test_it.py::test_chance").stdout
    assert drawn(alone) == drawn(output)
    assert len(drawn(output)) == 2
    assert not set(drawn(output)) & set(drawn(run(folder, str(int(seed) + 1)).stdout))


def test_a_seed_that_is_no_number_is_refused(folder: Path) -> None:
    done = run(folder, "yesterday", "--collect-only")
    assert done.returncode != 0
    assert f"{VARIABLE} must be a whole number, got 'yesterday'" in done.stderr
