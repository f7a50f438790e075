"""Every spec that users read is sound and in its canonical form, and every word of the language is explained."""

import re

import pytest

from holdfast.spec.check import check_reading
from holdfast.spec.printer import format_reading
from holdfast.spec.reading import read_text
from tests.docs.pages import ROOT, blocks, pages
from tests.spec.golden import vocabulary

SPECS = [
    (f"{page.relative_to(ROOT)}:{block.line}", block.text)
    for page in pages()
    for block in blocks(page.read_text())
    if block.language == "holdfast"
]


@pytest.mark.parametrize(("place", "text"), SPECS, ids=[place for place, _ in SPECS])
def test_it_is_sound(place: str, text: str) -> None:
    reading = read_text(text, place)
    found = [finding for finding in check_reading(reading) if finding.severity == "error"]
    assert found == [], "\n".join(reading.source.show(finding.problem()) for finding in found)
    assert format_reading(reading) == text


def test_every_word_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "spec-language.md").read_text()
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", page))))
    assert sorted(vocabulary() - explained) == []
