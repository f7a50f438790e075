"""Every example that users read is run, every command they are told exists, every link leads somewhere."""

import re
import shlex
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
import pytest

import dev
from holdfast import AsyncHoldfast, Holdfast
from holdfast.cli.main import holdfast
from holdfast.client.async_client import async_internals
from tests.docs.pages import ROOT, Block, blocks, links, pages, run
from tests.waiting import LONGEST

POSTGRES = re.compile(r"postgresql://[^\"'\s)]+")
MENTION = re.compile(r"`holdfast ([a-z][a-z-]*)(?: ([a-z|-]*[a-z]))?")
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
    before = threading.enumerate()
    try:
        for block in python_blocks(PAGES[name]):
            if not block.excluded:
                run(with_a_real_server(block, request), name, names)
                assert threads_that_stay(before) == [], "an example joins the threads that it starts"
    finally:
        close_clients(names)


def threads_that_stay(before: Collection[threading.Thread], patience: float = LONGEST) -> list[str]:
    """The threads that an example has started and that do not end, while its clients are open.

    They are waited for: one that ends after its example would find a closed client and no database. Our own threads end
    with their client.
    """
    started = [one for one in threading.enumerate() if one not in before and not one.name.startswith("holdfast-")]
    for thread in started:
        thread.join(patience)
    return [thread.name for thread in started if thread.is_alive()]


def with_a_real_server(block: Block, request: pytest.FixtureRequest) -> Block:
    if not POSTGRES.search(block.text):
        return block
    url = request.getfixturevalue("postgres_url")
    return Block(block.language, block.line, POSTGRES.sub(lambda _: url, block.text))


def close_clients(names: dict[str, Any]) -> None:
    for thing in names.values():
        if isinstance(thing, AsyncHoldfast):
            async_internals(thing).hf.close()
        elif isinstance(thing, Holdfast):
            thing.close()


def test_hardly_any_example_is_excluded() -> None:
    excluded = [block for page in PAGES.values() for block in python_blocks(page) if block.excluded]
    assert len(excluded) <= MOST_EXCLUDED


def test_the_pages_have_examples() -> None:
    assert len(WITH_EXAMPLES) >= 8


def test_commands_exist() -> None:
    lines = [(name, line) for name, page in PAGES.items() for line in command_lines(page)]
    assert len(lines) > 50, "the pages are not read"
    assert [(name, line) for name, line in lines if not is_command(line)] == []


def is_command(line: str) -> bool:
    """Whether there is such a command, with all options of the line."""
    context = click.Context(holdfast)
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)
    if words[:2] == ["python3", "dev.py"]:
        return words[2] in dev.COMMANDS
    if words[1].startswith("-"):
        return True
    command = holdfast.get_command(context, words[1])
    if isinstance(command, click.Group):
        command = command.get_command(context, words[2])
    if command is None:
        return False
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return {word for word in words[2:] if word.startswith("--")} <= known


def test_commands_in_sentences_exist() -> None:
    """In pages, docstrings, and what errors and `holdfast doctor` advise."""
    sources = {str(path.relative_to(ROOT)): path for path in (ROOT / "src").rglob("*.py")}
    named = [(name, words) for name, page in {**PAGES, **sources}.items() for words in mentions(page.read_text())]
    assert len(named) > 100, "they are not found"
    assert [(name, words) for name, words in named if not is_mentioned_rightly(*words)] == []


def mentions(text: str) -> list[tuple[str, str]]:
    """The first word after `holdfast`, and the second if it may be a verb: `holdfast queues list|peek`."""
    return MENTION.findall(text)


def is_mentioned_rightly(command: str, verbs: str) -> bool:
    context = click.Context(holdfast)
    found = holdfast.get_command(context, command)
    if not isinstance(found, click.Group) or not verbs:
        return found is not None
    return all(found.get_command(context, verb) is not None for verb in verbs.split("|"))


def test_a_command_in_a_sentence_that_does_not_exist_is_caught() -> None:
    text = "`holdfast fly`, `holdfast queues`, `holdfast queues list|fly`, `holdfast send Q`, `holdfast dlq list -n 1`"
    assert [is_mentioned_rightly(*words) for words in mentions(text)] == [False, True, False, True, True]


@pytest.mark.parametrize("line", ["holdfast fly", "holdfast work --fly", "holdfast dlq fly", "python3 dev.py fly"])
def test_a_command_that_does_not_exist_is_caught(line: str) -> None:
    assert not is_command(line)


def command_lines(page: Path) -> list[str]:
    texts = [block.text for block in blocks(page.read_text()) if block.language == "sh"]
    return [line for text in texts for line in text.splitlines() if line.startswith(("holdfast ", "python3 dev.py "))]


def test_links_lead_somewhere() -> None:
    targets = [(name, target) for name, page in PAGES.items() for target in links(page.read_text())]
    assert len(targets) > 300, "the pages are not read"
    assert [(name, target) for name, target in targets if not (PAGES[name].parent / target).exists()] == []


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


def test_a_thread_that_stays_is_caught() -> None:
    before, over = threading.enumerate(), threading.Event()
    run(
        Block("python", 0, "Thread(target=over.wait, name='stays').start()\n"),
        "page",
        {"Thread": threading.Thread, "over": over},
    )
    try:
        assert threads_that_stay(before, 0.01) == ["stays"]
    finally:
        over.set()
    assert threads_that_stay(before) == []


def test_links_are_found() -> None:
    assert links("[a](b.md) [c](d.md#e) [f](https://g.h)\n```\n[i](j)\n```\n") == ["b.md", "d.md"]
