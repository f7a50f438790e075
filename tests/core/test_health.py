"""When a finding is fine, when it is worth advice, when it is a problem."""

import sqlite3
from typing import Any

import pytest

from holdfast.core.health import (
    MOST_COUNTED,
    HealthFinding,
    QueueHealth,
    count,
    newest_finding,
    queue_findings,
    schema_finding,
    size,
    skew_finding,
    span,
)
from holdfast.store.postgres import health as postgres
from holdfast.store.sqlite import health as sqlite

pytestmark = pytest.mark.unit

SECOND = 1_000_000
MINUTE = 60 * SECOND
NOW = 1_767_225_600 * SECOND


def queue(name: str = "emails", **seen: Any) -> QueueHealth:
    nothing = {"paused": False, "open": 0, "lapsed": 0, "waiting_since": None, "blocked": 0, "dead": 0}
    return QueueHealth(**{"tenant": "default", "name": name, **nothing, **seen})


def only(findings: list[HealthFinding], check: str) -> HealthFinding:
    [found] = [finding for finding in findings if finding.check == check]
    return found


@pytest.mark.parametrize(("version", "state"), [(0, "advice"), (2, "advice"), (3, "ok"), (4, "problem")])
def test_schemas(version: int, state: str) -> None:
    assert schema_finding(version, 3).state == state


@pytest.mark.parametrize(
    ("ahead", "state"), [(-MINUTE, "ok"), (SECOND, "ok"), (30 * SECOND, "advice"), (61 * SECOND, "problem")]
)
def test_what_is_from_the_future(ahead: int, state: str) -> None:
    assert newest_finding(NOW + ahead, NOW).state == state


def test_an_empty_database_has_nothing_from_the_future() -> None:
    assert newest_finding(None, NOW).state == "ok"


@pytest.mark.parametrize(("ahead", "word"), [(SECOND, "agree"), (5 * SECOND, "ahead of"), (-5 * SECOND, "behind")])
def test_clocks_that_disagree(ahead: int, word: str) -> None:
    found = skew_finding(ahead)
    assert word in found.found
    assert (found.state == "ok") == (word == "agree")


def test_without_queues_there_is_one_finding() -> None:
    assert [finding.check for finding in queue_findings([], NOW, False)] == ["queues"]


def test_who_works_on_a_queue_decides_what_to_do_about_old_messages() -> None:
    old = NOW - 20 * MINUTE
    alone = only(queue_findings([queue(waiting_since=old)], NOW, False), "waiting")
    silent = only(queue_findings([queue(waiting_since=old, open=1, lapsed=1)], NOW, False), "waiting")
    busy = only(queue_findings([queue(waiting_since=old, open=2, lapsed=1)], NOW, False), "waiting")
    assert "20 min" in alone.found
    assert "Nobody claims" in str(alone.advice)
    assert "Nobody claims" in str(silent.advice)
    assert "keep up" in str(busy.advice)


@pytest.mark.parametrize("seen", [{"waiting_since": NOW - MINUTE}, {"waiting_since": NOW + 99 * MINUTE}])
def test_what_is_young_or_due_later_does_not_wait(seen: dict[str, Any]) -> None:
    assert only(queue_findings([queue(**seen)], NOW, False), "waiting").state == "ok"


def test_a_paused_queue_is_not_accused_of_waiting() -> None:
    findings = queue_findings([queue(paused=True, waiting_since=0)], NOW, False)
    assert only(findings, "waiting").state == "ok"
    assert only(findings, "paused").state == "advice"


def test_many_queues_are_listed_in_part_and_the_needy_first() -> None:
    queues = [queue(f"q{number}", open=1, lapsed=int(number >= 20)) for number in range(25)]
    leases = [finding for finding in queue_findings(queues, NOW, False) if finding.check == "leases"]
    assert [finding.state for finding in leases] == ["advice"] * 5 + ["ok"] * 16
    assert leases[-1].found == "and 5 queues more"


def test_more_needy_queues_than_are_listed_still_count() -> None:
    findings = queue_findings([queue(f"q{number}", dead=1) for number in range(22)], NOW, False)
    assert [f.state for f in findings if f.check == "dead letters"] == ["advice"] * 21


def test_a_cut_list_of_queues_says_so() -> None:
    assert only(queue_findings([queue()], NOW, True), "queues").state == "advice"


def test_commands_in_advice_can_be_pasted() -> None:
    one = queue("a b", tenant="acme", dead=MOST_COUNTED, paused=True, blocked=1)
    findings = queue_findings([one], NOW, False)
    found = only(findings, "dead letters")
    assert found.found == "acme/a b: 1,000 or more not replayed"
    assert "`holdfast dead-letters list --queue 'a b' --tenant acme`" in str(found.advice)
    assert "`holdfast queues resume 'a b' --tenant acme`" in str(only(findings, "paused").advice)
    assert "`holdfast queues blocked 'a b' --tenant acme`" in str(only(findings, "blocked keys").advice)


def test_numbers_for_people() -> None:
    assert [span(n * SECOND) for n in (0.5, 45, 100, 600, 7200, 90000, 864000)] == [
        *("0.5 s", "45 s", "100 s", "10 min", "2 h", "25 h", "10 days")
    ]
    assert [size(n) for n in (0, 999, 4096, 95_000_000, 2_500_000_000)] == [
        *("0 bytes", "999 bytes", "4.1 kB", "95 MB", "2.5 GB")
    ]
    assert (count(999), count(1000)) == ("999", "1,000 or more")


@pytest.mark.parametrize(
    ("version", "state"),
    [
        *(("3.34.1", "problem"), ("3.40.1", "problem"), ("3.44.5", "problem"), ("3.44.6", "ok"), ("3.45.0", "problem")),
        *(("3.50.6", "problem"), ("3.50.7", "ok"), ("3.51.0", "problem"), ("3.51.2", "problem"), ("3.51.3", "ok")),
        ("3.54.1", "ok"),
    ],
)
def test_versions_of_sqlite(version: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version", version)
    found = sqlite.version_finding("stdlib")
    assert found.state == state
    assert f"SQLite {version}" in found.found


@pytest.mark.parametrize(
    ("mode", "level", "state"), [("wal", 2, "ok"), ("wal", 3, "ok"), ("delete", 2, "advice"), ("wal", 1, "problem")]
)
def test_durability_of_sqlite(mode: str, level: int, state: str) -> None:
    assert sqlite.durability_finding(mode, level).state == state


@pytest.mark.parametrize(("number", "state"), [(129_999, "problem"), (130_000, "ok"), (180_004, "ok")])
def test_versions_of_postgresql(number: int, state: str) -> None:
    assert postgres.server_findings(number, "x", 1)[0].state == state


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        (("on", "on", "on", False), "ok"),
        (("on", "remote_write", "on", False), "ok"),
        (("on", "off", "on", False), "advice"),
        (("on", "on", "off", False), "advice"),
        (("off", "on", "on", False), "problem"),
        (("on", "on", "on", True), "problem"),
    ],
)
def test_durability_of_postgresql(settings: tuple[str, str, str, bool], state: str) -> None:
    assert postgres.durability_findings(*settings)[0].state == state
