"""What all tests of this folder need."""

import pytest

from tests.model.subject import MANY


@pytest.fixture(autouse=True)
def no_limit_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much one sweep does at most is a matter of speed; the model sweeps all there is."""
    monkeypatch.setattr("holdfast.client.validate.SWEEP_LIMIT", MANY)
