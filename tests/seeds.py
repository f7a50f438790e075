"""One seed for everything that tests leave to chance, and how to repeat a failure.

`HOLDFAST_SEED` sets it; otherwise each run draws one. Before each test the global `random` is seeded from it and the
test's name, so a test draws the same values whichever tests ran before it. Hypothesis starts from it too, and so do the
processes of `tests.acceptance.workers`. Tests with numbered seeds of their own (`Random(7)`, simulations) stay as they
are. The report of a failed test ends with the command that repeats it.
"""

import os
import random
import shlex
from collections.abc import Generator

import hypothesis.core
import pytest
from hypothesis import settings

VARIABLE = "HOLDFAST_SEED"


def install(config: pytest.Config) -> None:
    """Seed this run; workers of xdist and other child processes inherit the seed with the environment."""
    seed = os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(10**9)))
    if not seed.isdecimal():
        raise pytest.UsageError(f"{VARIABLE} must be a whole number, got {seed!r}")
    # A slow machine is not a failure. In CI, Hypothesis would draw the same examples in every run, whatever the seed.
    settings.register_profile("holdfast", deadline=None, derandomize=False)
    settings.load_profile("holdfast")
    if config.getoption("hypothesis_seed", None) is None:
        hypothesis.core.global_force_seed = int(seed)
    config.pluginmanager.register(Seeds(seed, ["--long"] if config.getoption("--long", False) else []))


class Seeds:
    """The plugin that seeds tests and says how to repeat those that fail."""

    def __init__(self, seed: str, options: list[str]) -> None:
        self._seed, self._options = seed, options

    def pytest_report_header(self) -> str:
        return f"{VARIABLE}={self._seed}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._seed_test(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        # Once more: fixtures of the session have drawn numbers only if this is the first test that takes them.
        self._seed_test(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            command = ["python3", "dev.py", "test", *self._options, item.nodeid]
            report.sections.append(("To repeat", f"{VARIABLE}={self._seed} {shlex.join(command)}"))
        return report

    def _seed_test(self, item: pytest.Item) -> None:
        random.seed(f"{self._seed}/{item.nodeid}")
