"""The text of a migration is frozen: databases know it by its SHA-256, and refuse another one."""

from pathlib import Path

from holdfast.store.migrate import digest_of
from holdfast.store.sqlfile import load_migrations

FROZEN = Path(__file__).with_name("migrations.txt")


def test_migrations_keep_their_texts() -> None:
    """A change of the tables is a new file, and a new line at the end of each store's list."""
    found = [
        f"{digest_of(text)} {store}/{name}"
        for store in ("sqlite", "postgres")
        for _, name, text in load_migrations(f"holdfast.store.{store}")
    ]
    assert found == FROZEN.read_text().splitlines()
