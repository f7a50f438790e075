"""The text of a migration is frozen: databases know it by its SHA-256, and refuse another one."""

import re
from pathlib import Path

from holdfast.store.migrate import digest_of
from holdfast.store.sql import is_transactional, load_migrations, statements

FROZEN = Path(__file__).with_name("migrations.txt")


def test_migrations_keep_their_texts() -> None:
    """A change of the tables is a new file, and a new line at the end of each store's list."""
    found = [
        f"{digest_of(text)} {store}/{name}"
        for store in ("sqlite", "postgres")
        for _, name, text in load_migrations(store)
    ]
    assert found == FROZEN.read_text().splitlines()


INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON ")


def outside_faults(text: str) -> list[str]:
    """Statements that a migration without a transaction may not have: it is run again from its start if it fails."""
    dropped, faults = set(), []
    for statement in statements(text):
        built = INDEX.match(statement)
        if statement.startswith("DROP INDEX CONCURRENTLY IF EXISTS "):
            dropped.add(statement.split()[-1].rstrip(";"))
        elif not ((built and built[1] in dropped) or re.match(r"ALTER TABLE \w+ VALIDATE CONSTRAINT ", statement)):
            faults.append(statement)
    return faults


def test_migrations_without_a_transaction_can_be_run_again() -> None:
    for _, name, text in load_migrations("postgres"):
        assert is_transactional(text) or outside_faults(text) == [], name
    assert all(is_transactional(text) for _, _, text in load_migrations("sqlite"))


def test_statements_that_cannot_be_run_again_are_caught() -> None:
    good = "DROP INDEX CONCURRENTLY IF EXISTS i;\nCREATE INDEX CONCURRENTLY i ON t (a);\n"
    assert outside_faults(good + "ALTER TABLE t VALIDATE CONSTRAINT c;\n") == []
    assert len(outside_faults("CREATE INDEX CONCURRENTLY i ON t (a);\nALTER TABLE t ADD b int;\n")) == 2
