"""Every store does what the model says: I1 to I12, I15, I18 to I20, I23, I24 (reference/reliability.md, section 3).

HOLDFAST_MODEL_EXAMPLES=2000 looks longer. A failure prints the steps that lead to it, cut down to the fewest.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import STORES
from tests.model.databases import database
from tests.model.machine import QueueMachine

DEFAULT_EXAMPLES = {"sqlite-apsw": 60, "sqlite-stdlib": 60, "postgres": 20}
"""What fits in half a minute each: a step on PostgreSQL costs ten times as much. A failure is first cut down to fewer
steps, which may take minutes there."""


def settings_for(store: str) -> settings:
    examples = os.environ.get("HOLDFAST_MODEL_EXAMPLES") or DEFAULT_EXAMPLES[store]
    return settings(
        max_examples=int(examples),
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
