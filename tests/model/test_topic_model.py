"""Every store does what the model says of topics and groups: I13, I14, and I15 for retention (`test_model` has the
others). HOLDFAST_MODEL_EXAMPLES=2000 looks longer.
"""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import STORES
from tests.long import size
from tests.model.databases import database
from tests.model.test_model import settings_for
from tests.model.topic_machine import TopicMachine

EXAMPLES = {"sqlite-apsw": size(15, 60), "sqlite-stdlib": size(5, 40), "postgres": size(3, 10)}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", STORES)
def test_groups_get_what_the_model_says(store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None
    run_state_machine_as_test(lambda: TopicMachine(database(store, url)), settings=settings_for(store, EXAMPLES))
