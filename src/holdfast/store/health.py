"""What could be wrong with a database: the checks that both stores share, over named queries."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import version

import msgspec

from holdfast.core import health
from holdfast.core.health import HealthFinding, QueueHealth, problem
from holdfast.core.queue import QueueSpec
from holdfast.errors import StoreError
from holdfast.store.engine import channels, read
from holdfast.store.migrate import REMEDY, KnownMigrations, applied, schema_version
from holdfast.store.transaction import Transaction

_spec = msgspec.json.Decoder(QueueSpec)

MOST_QUEUES = 1_000

GRACE = 10_000_000
"""Microseconds: a lease that ran out a moment ago is about to be taken back, and no reason to worry anyone."""


def software(*others: str) -> str:
    """The versions of everything that is involved."""
    return ", ".join([f"Holdfast {version('holdfast')}", f"Python {platform.python_version()}", *others])


def attempted(check: str, step: Callable[[], list[HealthFinding]], advice: str) -> list[HealthFinding]:
    """The findings of a step; that it failed is a finding too."""
    try:
        return step()
    except StoreError as error:
        return [health.problem(check, " ".join(str(error).split()), advice)]


def through_sqs(tx: Transaction, newest: int) -> list[tuple[str, str]]:
    """The queues that SQS delivers, as an operator calls them, and where; none in a schema that is not ours."""
    if schema_version(tx) != newest:
        return []
    found = tx.all("health.through_sqs", queues=MOST_QUEUES)
    queues = [(tenant, name, _spec.decode(spec).sqs_queue) for tenant, name, spec in found]
    return [(health.label(tenant, name), place) for tenant, name, place in queues if place is not None]


def _by_time(tx: Transaction, queue: QueueHealth) -> QueueHealth:
    """The first message of a queue may have expired. Only a wait that would be reported is worth a closer look."""
    if queue.paused or queue.waiting_since is None or tx.clock() - queue.waiting_since <= health.LONG_WAIT:
        return queue
    channel = channels.find(tx, queue.tenant, queue.name)
    since = None if channel is None else read.claimable_since(tx, channel)
    return msgspec.structs.replace(queue, waiting_since=since)


def contents(tx: Transaction, known: KnownMigrations) -> list[HealthFinding]:
    """The schema and, if it is the one that our queries are written for, the queues in it."""
    if (difference := known.difference(applied(tx))) is not None:
        return [problem("schema", difference, f"{REMEDY}.")]
    schema = schema_version(tx)
    findings = [health.schema_finding(schema, known.newest)]
    if schema != known.newest:
        return findings
    latest = tx.one("health.newest")
    found = tx.all("health.queues", most=health.MOST_COUNTED, grace=GRACE, queues=MOST_QUEUES + 1)
    queues = [_by_time(tx, QueueHealth(*row)) for row in found[:MOST_QUEUES]]
    findings.append(health.newest_finding(latest[0] if latest else None, tx.clock()))
    findings += health.queue_findings(queues, tx.clock(), len(found) > MOST_QUEUES)
    stuck = [(tenant, number) for tenant, number in tx.all("health.sagas", most=health.MOST_COUNTED)]
    return findings + health.saga_findings(stuck)
