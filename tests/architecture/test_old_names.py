"""The flat names that the client had before its verbs were put on nouns are used nowhere: there are no aliases."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

RECORD = ROOT / "docs" / "decisions" / "0037-the-client-is-composed.md"
"""Has the table of old names and new ones."""

FOLDERS = ("src", "docs", "examples", "tests", "bench", "deploy")
PAGES = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")

CLIENTS = ("hf", "ahf", "rival", r"self\.hf", r"self\._hf", r"\w+\.hf")
"""What a client is called in this repository."""

NOUNS = (
    "queues",
    "dead_letters",
    "topics",
    "groups",
    "sagas",
    "schedules",
    "notices",
    "consumers",
    "commands",
    "audit",
)
"""Were methods, and are namespaces now."""

GONE = (
    *("queue_settings", "pause", "resume", "is_paused", "purge", "peek", "blocked_keys", "unblock", "sweep"),
    *("spent", "reset_budget", "amplification", "search", "commitments", "count_dead_letters", "find_dead_letter"),
    *("replay", "replay_many", "delete_dead_letter", "delete_dead_letters", "seek", "skip", "accept_loss"),
    *("heartbeat", "cancel_group", "unsubscribe", "saga_status", "cancel_saga", "retry_saga", "skip_saga_step"),
    *("mark_saga_step_done", "advance_sagas", "pause_schedule", "resume_schedule", "run_schedule", "unschedule"),
    *("fire_schedules", "acknowledge", "escalate", "report", "owners", "attach", "detach", "attachments"),
    *("run_command", "store"),
)

UNMISTAKABLE = (
    *("blocked_keys", "count_dead_letters", "find_dead_letter", "delete_dead_letter", "delete_dead_letters"),
    *("saga_status", "cancel_saga", "retry_saga", "skip_saga_step", "mark_saga_step_done", "advance_sagas"),
    *("pause_schedule", "resume_schedule", "run_schedule", "unschedule", "fire_schedules", "run_command"),
)
"""Whatever the client is called: nothing else has a method of this name."""

OLD = re.compile(
    rf"(?<![\w.])(?:{'|'.join(CLIENTS)})\.(?:(?:{'|'.join(GONE)})\b(?!\.md)|(?:{'|'.join(NOUNS)})\()"
    rf"|\.(?:{'|'.join(UNMISTAKABLE)})\("
)


def old_names(text: str) -> Iterator[tuple[int, str]]:
    """Uses of old names, with their lines."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, found[0]) for found in OLD.finditer(line))


def files() -> list[Path]:
    found = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    return [*found, *(ROOT / page for page in PAGES)]


def test_no_old_name_is_used() -> None:
    exempt = {RECORD, Path(__file__)}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in files()
        if path not in exempt
        for number, name in old_names(path.read_text())
    ]
    assert found == []


def test_the_record_names_each_of_them() -> None:
    """Also the other way round: a new name in the table is one that there is."""
    from tests.client_names import public_methods

    table = dict(re.findall(r"^\| `hf\.(\w+)`.*? \| (.*) \|$", RECORD.read_text(), re.MULTILINE))
    assert {*GONE, *NOUNS} - {*table} == set()
    new = {name for cell in table.values() for name in re.findall(r"`hf\.([\w.]+)`", cell)}
    assert new - public_methods().keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "hf.pause('emails')",
        "await ahf.seek('a', 'latest')",
        "hf.dead_letters('emails')",
        "hf.queues()",
        "self.client.delete_dead_letters()",
        "any.thing().pause_schedule('nightly')",
        "hf.store.reads",
        "see `hf.unblock`",
        "estate.hf.audit()",
    ],
)
def test_an_old_name_is_caught(line: str) -> None:
    assert len(list(old_names(line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "hf.queues.pause('emails')",
        "hf.dead_letters.list()",
        "the groups, `hf.groups`, and their verbs",
        "context.spent",
        "def pause_schedule(access):",
        "internals(hf).store.reads",
        "self._store.topics.unsubscribe(name)",
        "notifier.pause",
    ],
)
def test_what_only_looks_like_one_is_not(line: str) -> None:
    assert list(old_names(line)) == []
