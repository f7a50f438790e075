"""The page about fleets quotes what the simulation says."""

from bench.fleet import FLEETS, table
from tests.docs.pages import ROOT


def test_the_page_has_the_table_of_the_simulation() -> None:
    assert table(FLEETS) in (ROOT / "docs" / "scaling.md").read_text()
