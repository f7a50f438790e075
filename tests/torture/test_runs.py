"""Runs of `holdfast torture` on every store, with every fault that is possible there: nothing is violated.

A long run of the tests has longer ones, with more seeds; HOLDFAST_TORTURE_SECONDS=60 makes them as long as you like.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from holdfast.torture.nemesis import OF_POSTGRES, OF_SQLITE, OF_SQS
from holdfast.torture.plan import TorturePlan
from holdfast.torture.progress import HistoryProgress
from holdfast.torture.run import TortureRun, check_folder
from tests.conftest import STORES
from tests.long import only_long, size
from tests.servers import PostgresServer
from tests.sqs.fake_sqs import FakeSQS
from tests.torture.restarting import Restarts

SECONDS = size(6.0, 20.0, "HOLDFAST_TORTURE_SECONDS")
SEEDS = [1, pytest.param(2, marks=only_long), pytest.param(3, marks=only_long)]

pytestmark = [pytest.mark.timeout(300 + 3 * SECONDS), pytest.mark.spread]


class Nobody:
    """Watches."""

    def show(self, phase: str, progress: HistoryProgress) -> None: ...
    def tell(self, fault: str) -> None: ...


Prepare = Callable[[str, int], TorturePlan]


@pytest.fixture
def prepare(tmp_path: Path, start_postgres: Callable[..., PostgresServer]) -> Iterator[Prepare]:
    """The plan of a run on a store; PostgreSQL is a server of its own, because it is restarted."""
    with ExitStack() as stack:

        def prepare(store: str, seed: int) -> TorturePlan:
            if store != "postgres":
                url = f"sqlite:///{tmp_path}/work.db?engine={store.removeprefix('sqlite-')}"
                return TorturePlan(url=url, tenant="torture", seed=seed, seconds=SECONDS, faults=OF_SQLITE)
            server = start_postgres()
            command = stack.enter_context(Restarts(server)).command
            faults = OF_POSTGRES
            return TorturePlan(
                url=server.url(), tenant="torture", seed=seed, seconds=SECONDS, faults=faults, restart_command=command
            )

        yield prepare


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_violated(prepare: Prepare, tmp_path: Path, store: str, seed: int) -> None:
    torture(prepare(store, seed), tmp_path / "histories")


@only_long
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_violated_through_sqs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Who is killed with pointers in hand leaves them hidden for half a minute: that is how long it takes to drain."""
    url = f"sqlite:///{tmp_path}/work.db"
    faults = (*OF_SQLITE, *OF_SQS)
    plan = TorturePlan(url=url, tenant="torture", seed=seed, seconds=SECONDS, faults=faults, delivery="sqs")
    with FakeSQS() as sqs:
        for name, value in sqs.environment.items():
            monkeypatch.setenv(name, value)
        torture(plan, tmp_path / "histories")
        assert sqs.count("ReceiveMessage") > 0


@only_long
def test_a_long_run_forgets_what_is_done(prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is checked all the same."""
    monkeypatch.setattr("holdfast.torture.plan.SHORT_MEMORY", 1.0)
    plan = prepare("sqlite-apsw", 4)
    torture(msgspec.structs.replace(plan, keeps=False, seconds=5, faults=("kill", "late")), tmp_path / "histories")


def torture(plan: TorturePlan, folder: Path) -> None:
    folder.mkdir()
    verdict = TortureRun(plan, folder, Nobody()).run()
    assert verdict.findings == []
    assert verdict.clean
    assert verdict.counts["done"] > 0
    assert verdict.counts["left"] == 0
    assert verdict.faults.keys() == set(plan.faults)
    assert not verdict.is_empty
    assert check_folder(folder) == verdict
