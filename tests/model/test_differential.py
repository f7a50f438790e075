"""I25: the same steps on two stores give the same answers, whatever the model thinks of them."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.databases import database
from tests.model.machine import QueueMachine
from tests.model.test_model import settings_for


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pair", [("sqlite-apsw", "sqlite-stdlib"), ("sqlite-apsw", "postgres")], ids="+".join)
def test_two_stores_answer_alike(pair: tuple[str, str], request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if "postgres" in pair else None
    run_state_machine_as_test(
        lambda: QueueMachine(*(database(store, url) for store in pair), with_model=False),
        settings=settings_for(pair[1]),
    )
