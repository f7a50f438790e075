"""A password in a URL of PostgreSQL is never repeated: not by an error, its causes, a log, or a command."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast import AsyncHoldfast, Holdfast, HoldfastError
from tests.cli.commands import holdfast as run
from tests.servers import PostgresServer

NOWHERE = "127.0.0.1:1"
URLS = {
    "nobody there": f"postgresql://ada:hush-sesame@{NOWHERE}/db",
    "half an address": "postgresql://ada:hush-sesame@[::1/db",
    "no host of that name": "postgresql://ada:hush-sesame@nowhere.invalid/db",
    "not escaped: %": f"postgresql://ada:hush-%zz-sesame@{NOWHERE}/db",
    "not escaped: @": f"postgresql://ada:hush@sesame@{NOWHERE}/db",
    "not escaped: /": f"postgresql://ada:hush/sesame@{NOWHERE}/db",
    "not escaped: ?": f"postgresql://ada:hush?sesame@[{NOWHERE}/db",
    "not escaped: space": f"postgresql://ada:hush sesame@{NOWHERE}/db",
    "an unknown option": f"postgresql://ada:hush-sesame@{NOWHERE}/db?dance=1",
    "half an option": f"postgresql://ada:hush-sesame@{NOWHERE}/db?dance",
    "a bad option": f"postgresql://ada:hush-sesame@{NOWHERE}/db?sslmode=dance",
    "as an option": f"postgresql://{NOWHERE}/db?password=hush%zzsesame",
    "one slash": f"postgresql:/ada:hush-sesame@{NOWHERE}/db",
    "no slash": f"postgresql:ada:hush-sesame@{NOWHERE}/db",
    "another database": f"mysql://ada:hush-sesame@{NOWHERE}/db",
    "another database, half an address": "mysql://ada:hush-sesame@[::1/db",
}


def words_of(error: BaseException | None) -> Iterator[str]:
    """All that an error and everything behind it would tell, whoever prints it."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), "".join(traceback.format_exception(error)))
        yield from words_of(error.__context__)
        error = error.__cause__


def assert_discreet(text: str) -> None:
    """Neither half of the password."""
    assert "hush" not in text
    assert "sesame" not in text


def use(url: str) -> HoldfastError:
    """The error that a client raises when it is used."""
    with pytest.raises(HoldfastError) as refused, Holdfast(url, patience=0.05) as hf:
        hf.enqueue("q", 1)
    return refused.value


@pytest.mark.parametrize("name", URLS)
def test_an_error_and_all_its_causes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = use(URLS[name])
    assert len(str(error)) > 20
    for words in words_of(error):
        assert_discreet(words)
    assert_discreet(caplog.text)


def test_the_check_finds_what_is_there() -> None:
    with pytest.raises(psycopg.Error) as refused:
        psycopg.connect(URLS["half an address"])
    assert any("sesame" in words for words in words_of(refused.value))


async def use_awaited(url: str) -> HoldfastError:
    with pytest.raises(HoldfastError) as refused:
        async with AsyncHoldfast(url, patience=0.05) as hf:
            await hf.enqueue("q", 1)
    return refused.value


@pytest.mark.parametrize("name", ["nobody there", "half an address", "not escaped: @"])
def test_the_same_for_asyncio(name: str) -> None:
    for words in words_of(asyncio.run(use_awaited(URLS[name]))):
        assert_discreet(words)


@pytest.mark.parametrize(
    "command",
    [
        ["queues", "list"],
        ["send", "q", "1"],
        ["migrate"],
        ["rebase"],
        ["doctor"],
        ["dlq", "list"],
        ["queues", "peek", "q"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["half an address", "not escaped: %", "another database, half an address"])
def test_a_command(command: list[str], name: str, tmp_path: Path) -> None:
    """These fail at once, however patient the command is."""
    for answer in (
        run(*command, "--db", URLS[name], folder=tmp_path),
        run(*command, folder=tmp_path, HOLDFAST_DB=URLS[name]),
    ):
        assert answer.returncode == 1
        assert len(answer.stdout + answer.stderr) > 20
        assert_discreet(answer.stdout + answer.stderr)


def test_wake_ups_that_cannot_connect_keep_quiet(
    private_postgres: PostgresServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Threads of their own notify and listen; what they meet goes to nobody."""
    url = private_postgres.url().replace("postgres@", "postgres:hush-sesame@")
    with Holdfast(url) as patient:  # Making the tables may take longer than the other one waits.
        patient.enqueue("q", 1)
    with Holdfast(url, patience=2) as hf:
        hf.enqueue("q", 2)
        assert hf.claim("q", wait=1)
        private_postgres.stop("immediate")
        with pytest.raises(HoldfastError) as refused:
            hf.claim("q", wait=1)
    for words in [*words_of(refused.value), caplog.text, *capfd.readouterr()]:
        assert_discreet(words)
