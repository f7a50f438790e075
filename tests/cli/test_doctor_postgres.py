"""`holdfast doctor` on a server: its settings, who else is there, and what must not be told."""

from pathlib import Path

import psycopg
import pytest

import holdfast.cli.doctor
from holdfast import Holdfast
from holdfast.store.postgres import health as postgres_health
from tests.cli.commands import holdfast as run
from tests.cli.looking import Look, found, look_inside, not_ok


def test_a_server_without_fsync(postgres_url: str, look: Look) -> None:
    code, findings = look(postgres_url)
    assert (code, not_ok(findings)["durability"]) == (1, "problem")


def test_the_settings_are_those_of_our_session(safe_url: str, look: Look) -> None:
    code, findings = look(f"{safe_url}?options=-csynchronous_commit%3Doff")
    assert (code, not_ok(findings)["durability"]) == (0, "advice")


def test_a_transaction_that_stays_open(safe_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(safe_url) as other:
        other.execute("SELECT 1")
        pid = other.info.backend_pid
        _, young = look_inside(safe_url)
        monkeypatch.setattr(postgres_health, "LONG_TRANSACTION", 0)
        _, old = look_inside(safe_url)
    assert (found(young, "transactions")[0][0], found(old, "transactions")[0][0]) == ("ok", "advice")
    assert f"session {pid} of postgres (idle in transaction)" in found(old, "transactions")[0][1]


def test_a_prepared_transaction_is_open_too(safe_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_health, "LONG_TRANSACTION", 0)
    with psycopg.connect(safe_url, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("PREPARE TRANSACTION 'forgotten'")
        _, findings = look_inside(safe_url)
        other.execute("ROLLBACK PREPARED 'forgotten'")
    assert found(findings, "transactions")[0][1].endswith("prepared transaction forgotten")


def test_a_slot_without_a_reader(safe_url: str, look: Look) -> None:
    with psycopg.connect(safe_url, autocommit=True) as server:
        server.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
        code, findings = look(safe_url)
        server.execute("SELECT pg_drop_replication_slot('left_behind')")
    assert (code, not_ok(findings)["WAL"]) == (0, "advice")
    assert found(findings, "WAL")[0][1].startswith("slot left_behind has no reader and holds")


def test_a_crowded_server(safe_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(safe_url), psycopg.connect(safe_url):
        monkeypatch.setattr(postgres_health, "CROWDED", 2 / 200)
        _, findings = look_inside(safe_url)
    assert found(findings, "connections")[0][0] == "advice"


def test_a_role_that_may_not_look(safe_url: str, look: Look) -> None:
    with Holdfast(safe_url) as hf:
        hf.enqueue("emails", 1)
        with psycopg.connect(safe_url, autocommit=True) as server:
            server.execute("CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA public TO stranger")
            code, findings = look(safe_url.replace("postgres@", "stranger@"))
            server.execute("DROP OWNED BY stranger; DROP ROLE stranger")
    assert code == 1
    assert not_ok(findings) == {"connections": "advice", "tables": "problem"}
    assert "permission denied" in found(findings, "tables")[0][1]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:open-sesame@127.0.0.1:1/db",
        "postgresql://ada:open-sesame@[::1/db",
        "postgresql://ada:open-%zz-sesame@127.0.0.1:1/db",
        "postgresql://ada:open@sesame@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password=open%zzsesame",
    ],
)
def test_a_server_that_is_away_is_a_finding_without_a_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.cli.doctor, "PATIENCE", 0.1)
    code, findings = look_inside(url)
    assert (code, not_ok(findings)) == (1, {"server": "problem"})
    assert "open" not in str(findings)
    assert "sesame" not in str(findings)


def test_a_password_that_works_is_not_told_either(safe_url: str, look: Look, tmp_path: Path) -> None:
    url = safe_url.replace("postgres@", "postgres:open-sesame@")
    assert "sesame" not in str(look(url))
    assert "sesame" not in run("doctor", "--db", url, folder=tmp_path).stdout
