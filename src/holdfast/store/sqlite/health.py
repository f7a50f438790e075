"""A look at a SQLite file and at the disk it is on. Sizes are asked of the file system: opening the file beside SQLite
would drop its locks.
"""

from __future__ import annotations

import os
import shutil
import sqlite3

import apsw

from holdfast.core.health import HealthFinding, advise, ok, problem, size
from holdfast.errors import InvalidInput
from holdfast.store.health import attempted, contents, software, through_sqs
from holdfast.store.migrate import KnownMigrations
from holdfast.store.sqlite.connection import SqliteDatabase, SqliteTransaction
from holdfast.store.sqlite.engines import ENGINES
from holdfast.store.sqlite.filesystem import NETWORK, kind_of

OLDEST = (3, 35, 0)
"""The first SQLite that knows RETURNING."""

SOUND = (((3, 44, 6), (3, 45, 0)), ((3, 50, 7), (3, 51, 0)), ((3, 51, 3), (4, 0, 0)))
"""From and up to which versions a log that is started anew cannot damage the file."""

LONG_LOG = 100_000_000
LITTLE_ROOM = 1_000_000_000
NO_ROOM = 100_000_000

SURE_LEVELS = {2: "FULL", 3: "EXTRA"}


class SqliteHealth:
    """What could be wrong with the file."""

    def __init__(self, database: SqliteDatabase, known: KnownMigrations) -> None:
        self._database = database
        self._known = known

    def look(self) -> list[HealthFinding]:
        """Everything that can be seen without changing anything; a file that must not be opened is not."""
        path, engine = self._database.path, self._database.engine
        if engine not in ENGINES:
            raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        place = place_finding(kind_of(path))
        findings = [version_finding(engine), place, file_finding(path)]
        if any(finding.state == "problem" for finding in findings[1:]):
            return findings
        findings += [log_finding(path), room_finding(path)]
        advice = (
            "Look at the file and who may read it. If it is damaged, restore a backup; keep the -wal file beside it."
        )
        return findings + attempted("database", lambda: self._database.inspect(self._inside), advice)

    def through_sqs(self) -> list[tuple[str, str]]:
        """The queues that SQS delivers, and where."""
        return self._database.inspect(lambda tx: through_sqs(tx, self._known.newest))

    def _inside(self, tx: SqliteTransaction) -> list[HealthFinding]:
        found = tx.one("health.durability")
        assert found is not None, "there is always a mode and a level"
        return [durability_finding(*found), *contents(tx, self._known)]


def version_finding(engine: str) -> HealthFinding:
    """Of the library that the URL asks for."""
    library = apsw.sqlite_lib_version() if engine == "apsw" else sqlite3.sqlite_version
    binding = f"apsw {apsw.apsw_version()}" if engine == "apsw" else "sqlite3"
    found = software(binding, f"SQLite {library}")
    version = tuple(map(int, library.split(".")))
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return problem("versions", found, f"This SQLite is older than {oldest}: use engine=apsw, which brings its own.")
    if not any(first <= version < after for first, after in SOUND):
        return problem(
            "versions",
            found,
            "This SQLite can damage a database when two processes write and tidy up its log at the same moment "
            "(mended in 3.51.3, 3.50.7 and 3.44.6): use engine=apsw, which brings its own, or a newer Python build.",
        )
    return ok("versions", found)


def place_finding(kind: str | None) -> HealthFinding:
    """Whether SQLite's log works where the file is."""
    if kind in NETWORK:
        advice = "SQLite's log does not work there. Put the file on a local disk, or use PostgreSQL between machines."
        return problem("file system", f"{kind}, a network file system", advice)
    return ok("file system", kind or "unknown: this system does not tell")


def file_finding(path: str) -> HealthFinding:
    """Whether there is a file at all."""
    try:
        length = os.stat(path).st_size
    except OSError as error:
        advice = (
            "Check the path: sqlite:///relative.db, sqlite:////absolute.db. A client or `holdfast migrate` creates it."
        )
        return problem("file", f"{path} cannot be found: {error.strerror}", advice)
    return ok("file", f"{path}, {size(length)}")


def log_finding(path: str) -> HealthFinding:
    """The write-ahead log, which only grows while someone reads on and on."""
    try:
        length = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return ok("WAL", "none: nobody has the file open")
    found = f"{path}-wal, {size(length)}"
    if length <= LONG_LOG:
        return ok("WAL", found)
    return advise(
        "WAL",
        found,
        "A program that keeps a read open stops SQLite from reusing its log: look for a forgotten shell or cursor. "
        "The log is emptied when the last program closes the file. Never delete it.",
    )


def room_finding(path: str) -> HealthFinding:
    """What the disk has left."""
    free = shutil.disk_usage(os.path.dirname(os.path.realpath(path))).free
    found = f"{size(free)} free"
    advice = "Free some space: when the disk is full no message can be enqueued, and claims and acks live on a reserve."
    if free < NO_ROOM:
        return problem("disk", found, advice)
    return advise("disk", found, advice) if free < LITTLE_ROOM else ok("disk", found)


def durability_finding(mode: str, level: int) -> HealthFinding:
    """What a commit survives."""
    if level not in SURE_LEVELS:
        return problem(
            "durability", f"synchronous = {level}", "A power cut can lose what was stored: this SQLite does not flush."
        )
    found = f"journal_mode = {mode}, synchronous = {SURE_LEVELS[level]}"
    if mode != "wal":
        return advise("durability", found, "The next Holdfast client to open the file switches it to WAL.")
    return ok("durability", f"{found}: a commit survives a power cut")
