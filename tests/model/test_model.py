"""Every store does what the model says: I1 to I12, I15, I18 to I20, I23, I24 (reference/reliability.md, section 3).

A failure prints the steps that lead to it. HOLDFAST_MODEL_EXAMPLES=2000 looks longer, and cuts those steps down to the
fewest, which may take many minutes.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import STORES
from tests.long import size
from tests.model.databases import database
from tests.model.machine import QueueMachine

pytestmark = pytest.mark.both_engines

DEFAULT_EXAMPLES = {"sqlite-apsw": size(15, 60), "sqlite-stdlib": size(5, 40), "postgres": size(4, 16)}
"""Five seconds each by default: a step on PostgreSQL costs three times as much."""


def settings_for(store: str, examples: dict[str, int] = DEFAULT_EXAMPLES) -> settings:
    wanted = os.environ.get("HOLDFAST_MODEL_EXAMPLES")
    return settings(
        max_examples=int(wanted or examples[store]),
        phases=tuple(Phase) if wanted else (Phase.generate,),
        stateful_step_count=50,
        deadline=None,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", STORES)
def test_a_store_does_what_the_model_says(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None
    run_state_machine_as_test(lambda: QueueMachine(database(store, url)), settings=settings_for(store))
