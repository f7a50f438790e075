"""A look at a PostgreSQL server, as far as our role may see it."""

from __future__ import annotations

import time

import psycopg

from holdfast.core.health import HealthFinding, advise, ok, problem, size, skew_finding, span
from holdfast.store.health import attempted, contents, software, through_sqs
from holdfast.store.migrate import KnownMigrations, schema_version
from holdfast.store.postgres.connection import MOST_CONNECTIONS, PostgresDatabase, PostgresTransaction

OLDEST = 130_000
"""The first server that has pg_snapshot and xid8."""

LONG_TRANSACTION = 5 * 60_000_000
MUCH_LOG = 1_000_000_000
MOST_SLOTS = 20
CROWDED = 0.8


class PostgresHealth:
    """What could be wrong with the server and our tables."""

    def __init__(self, database: PostgresDatabase, known: KnownMigrations) -> None:
        self._database = database
        self._known = known

    def look(self) -> list[HealthFinding]:
        """Everything that can be seen without changing anything; nothing more if the server cannot be reached."""
        advice = "Check that the server runs, and the URL: host, port, database, user, password."
        findings = attempted("server", lambda: self._database.read(_server), advice)
        if findings[0].check == "server":
            return findings
        advice = "Our role must be allowed to use the schema and to read all tables of Holdfast."
        return findings + attempted("tables", lambda: self._database.read(self._tables), advice)

    def through_sqs(self) -> list[tuple[str, str]]:
        """The queues that SQS delivers, and where."""
        return self._database.read(lambda tx: through_sqs(tx, self._known.newest))

    def _tables(self, tx: PostgresTransaction) -> list[HealthFinding]:
        if schema_version(tx) == self._known.newest and tx.one("schema.is_ahead") is not None:
            found = "restored from a dump of another server, whose transaction numbers this one has not reached"
            return [problem("schema", found, "Stop everything that uses the database and run `holdfast rebase` once.")]
        return contents(tx, self._known)


def _server(tx: PostgresTransaction) -> list[HealthFinding]:
    findings = []
    for query, judge in (
        ("health.server", server_findings),
        ("health.durability", durability_findings),
        ("health.connections", connections_findings),
    ):
        found = tx.one(query)
        assert found is not None, "a server always has an answer to this"
        findings += judge(*found)
    oldest = tx.one("health.transactions")
    return [*findings, _clock(tx), transaction_finding(oldest), *slot_findings(tx)]


def _clock(tx: PostgresTransaction) -> HealthFinding:
    """The server was asked in the middle between our looks at our own clock."""
    tx.one("health.clock")
    before = time.time_ns()
    server = tx.one("health.clock")
    after = time.time_ns()
    assert server is not None, "a clock always shows a time"
    return skew_finding(server[0] - (before + after) // 2_000)


def server_findings(number: int, name: str, length: int) -> list[HealthFinding]:
    """Versions, and the size of the database: how full the disk is no server tells."""
    libpq = psycopg.pq.version()
    found = software(
        f"psycopg {psycopg.__version__}", f"libpq {libpq // 10_000}.{libpq % 10_000}", f"PostgreSQL {name}"
    )
    versions = ok("versions", found)
    if number < OLDEST:
        versions = problem("versions", found, f"Holdfast needs PostgreSQL {OLDEST // 10_000} or newer.")
    return [versions, ok("disk", f"the database has {size(length)}; what is left of the disk cannot be seen from here")]


def durability_findings(fsync: str, commit: str, pages: str, is_standby: bool) -> list[HealthFinding]:
    """What a commit of our session survives."""
    found = f"fsync = {fsync}, synchronous_commit = {commit}, full_page_writes = {pages}"
    if is_standby:
        return [problem("durability", "the server is a standby", "It takes no writes: give the URL of the primary.")]
    if fsync == "off":
        return [problem("durability", found, "A power cut can destroy the whole database: set fsync = on.")]
    if pages == "off":
        advice = (
            "A power cut can leave half a page behind: set full_page_writes = on, unless the file system prevents it."
        )
        return [advise("durability", found, advice)]
    if commit == "off":
        advice = "A crash of the server loses what was enqueued in the last moments: set synchronous_commit = on."
        return [advise("durability", found, advice)]
    return [ok("durability", f"{found}: a commit survives a power cut")]


def connections_findings(used: int, allowed: int, hidden: int) -> list[HealthFinding]:
    """How many more clients fit in."""
    found = f"{used:,} of {allowed:,} in use"
    if used > CROWDED * allowed:
        each = f"each client takes up to {MOST_CONNECTIONS}, and one to listen"
        advice = f"Raise max_connections, or run fewer processes: {each}."
        findings = [advise("connections", found, advice)]
    else:
        findings = [ok("connections", found)]
    if hidden:
        advice = "GRANT pg_read_all_stats to our role, and long transactions of others can be seen."
        findings.append(advise("connections", f"{hidden:,} of other roles hide what they do", advice))
    return findings


def transaction_finding(oldest: tuple[str, int] | None) -> HealthFinding:
    """A transaction that stays open keeps everything that was deleted since in the tables, and readers pass over it."""
    if oldest is None:
        return ok("transactions", "no other is open")
    who, age = oldest
    found = f"the oldest is open for {span(age)}: {who}"
    if age <= LONG_TRANSACTION:
        return ok("transactions", found)
    advice = "Nothing that was deleted since can be cleared away, and claims get slower: end it."
    return advise("transactions", found, advice)


def slot_findings(tx: PostgresTransaction) -> list[HealthFinding]:
    """Replication slots that make the server keep its log for ever."""
    slots = tx.all("health.slots", limit=MOST_SLOTS)
    advice = "The server keeps its log for it until the disk is full: bring its reader back, or drop the slot."
    findings = [
        advise("WAL", f"slot {name} {'is behind by' if active else 'has no reader and holds'} {size(held)}", advice)
        for name, active, held in slots
        if held > MUCH_LOG or not active
    ]
    return findings or [
        ok("WAL", f"{len(slots)} replication slots, none far behind" if slots else "no replication slots")
    ]
