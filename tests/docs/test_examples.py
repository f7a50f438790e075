"""Every example that users read is run, every command they are told exists, every link leads somewhere."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import dev
from holdfast import AsyncHoldfast, Holdfast
from holdfast.cli.main import holdfast
from tests.docs.pages import ROOT, Block, blocks, links, pages, run

POSTGRES = re.compile(r"postgresql://[^\"'\s)]+")
MOST_EXCLUDED = 3

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text()) if block.language == "python"]


WITH_EXAMPLES = [name for name, page in PAGES.items() if any(not block.excluded for block in python_blocks(page))]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__example__"}
    try:
        for block in python_blocks(PAGES[name]):
            if not block.excluded:
                run(with_a_real_server(block, request), name, names)
    finally:
        close_clients(names)


def with_a_real_server(block: Block, request: pytest.FixtureRequest) -> Block:
    if not POSTGRES.search(block.text):
        return block
    url = request.getfixturevalue("postgres_url")
    return Block(block.language, block.line, POSTGRES.sub(lambda _: url, block.text))


def close_clients(names: dict[str, Any]) -> None:
    for thing in names.values():
        if isinstance(thing, AsyncHoldfast):
            thing._hf.close()
        elif isinstance(thing, Holdfast):
            thing.close()


def test_hardly_any_example_is_excluded() -> None:
    excluded = [block for page in PAGES.values() for block in python_blocks(page) if block.excluded]
    assert len(excluded) <= MOST_EXCLUDED


def test_the_pages_have_examples() -> None:
    assert len(WITH_EXAMPLES) >= 8


@pytest.mark.parametrize("name", PAGES)
def test_commands_exist(name: str) -> None:
    context = click.Context(holdfast)
    for line in command_lines(PAGES[name]):
        words = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)
        if words[:2] == ["python3", "dev.py"]:
            assert words[2] in dev.COMMANDS, line
        elif words[0] == "holdfast" and not words[1].startswith("-"):
            command = holdfast.get_command(context, words[1])
            if isinstance(command, click.Group):
                command = command.get_command(context, words[2])
            assert command is not None, line
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            assert {word for word in words[2:] if word.startswith("--")} <= known, line


def command_lines(page: Path) -> list[str]:
    texts = [block.text for block in blocks(page.read_text()) if block.language == "sh"]
    return [line for text in texts for line in text.splitlines() if line.startswith(("holdfast ", "python3 dev.py "))]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = PAGES[name]
    assert [target for target in links(page.read_text()) if not (page.parent / target).exists()] == []


def test_examples_are_found_and_reasons_are_read() -> None:
    text = "a\n```python\nx = 1\n```\n\n<!-- no test: needs a printer -->\n\n```python\ny = 2\n```\n```sh\nls\n```\n"
    assert list(blocks(text)) == [
        Block("python", 2, "x = 1\n"),
        Block("python", 8, "y = 2\n", "needs a printer"),
        Block("sh", 11, "ls\n"),
    ]


def test_a_wrong_value_is_caught() -> None:
    run(Block("python", 0, "1 + 1  # → 2\n'a'  # → a\n"), "page", {})
    with pytest.raises(AssertionError, match="page:1: it is 2"):
        run(Block("python", 0, "1 + 1  # → 3\n"), "page", {})
    with pytest.raises(AssertionError, match="only an expression"):
        run(Block("python", 0, "x = 1  # → 1\n"), "page", {})


def test_links_are_found() -> None:
    assert links("[a](b.md) [c](d.md#e) [f](https://g.h)\n```\n[i](j)\n```\n") == ["b.md", "d.md"]
