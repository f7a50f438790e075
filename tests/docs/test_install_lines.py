"""Install instructions name extras that exist, in one form everywhere."""

import re
import tomllib
from pathlib import Path

from tests.docs.pages import ROOT, pages

INSTALL = re.compile(
    r"(?:pip install|pip add|uv add)\s+(?:-\w+\s+)*([\"']?)((?:holdfast|\.)(?:\[[^\]]*\])?)(?=[\"'\s`]|$)"
)
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def mistakes(text: str) -> list[str]:
    """What is wrong with the install instructions of a text."""
    found = []
    for quote, target in INSTALL.findall(text):
        extras = set(re.findall(r"[\w-]+", target.partition("[")[2]))
        if extras - EXTRAS:
            found.append(f"unknown extras: {target}")
        elif extras and quote != "'":  # zsh takes brackets without quotes for a pattern.
            found.append(f"write '{target}'")
    return found


def texts() -> list[Path]:
    return [*pages(), *(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]


def test_install_lines_name_extras_that_exist() -> None:
    assert {str(path.relative_to(ROOT)): wrong for path in texts() if (wrong := mistakes(path.read_text()))} == {}


def test_readme_and_tutorial_say_how_to_install() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "pip install 'holdfast[postgres,server]'" in readme
    assert "pip install '.[postgres,server]'" in readme
    assert "pip install ." in (ROOT / "docs" / "tutorial" / "first-queue.md").read_text()


def test_mistakes_are_found() -> None:
    assert mistakes("pip install 'holdfast[postgres,server]'; pip install holdfast\npip install .\n") == []
    assert mistakes("`pip install holdfast[sqs]`") == ["write 'holdfast[sqs]'"]
    assert mistakes("pip install 'holdfast[postgresql]'") == ["unknown extras: holdfast[postgresql]"]
