"""I23: bad input is refused in our own words on every store, and changes nothing."""

import pytest

from tests.clock import FakeClock
from tests.conftest import STORES
from tests.model.bad_input import BAD_INPUT
from tests.model.databases import database
from tests.model.subject import Subject


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("bad", BAD_INPUT)
def test_bad_input_is_refused(bad: str, store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None
    subject = Subject(database(store, url), FakeClock())
    try:
        subject.declare("plain", {})
        subject.declare("keyed", {"ordering": "per_key"})
        subject.refuses(BAD_INPUT[bad])
        subject.enqueue("plain", [1])
    finally:
        subject.close()
