"""What has ended is kept for a while, and not too much of it. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from holdfast.budgets.steps import reports
from holdfast.commitments import steps as commitments
from holdfast.core.message import encode_json
from holdfast.store.api import Channel
from holdfast.store.engine import channels, counters, idempotency, limits
from holdfast.store.engine.settle import drop
from holdfast.store.transaction import Row, Transaction

MOST_MESSAGES = 2_000
"""So many messages of finished runs are removed in one transaction: a few milliseconds of SQLite's only write lock."""


def prune(tx: Transaction, channel: Channel, limit: int) -> int:
    """Removes what was kept long enough, up to `limit` of each kind; how much."""
    # Before the rows, which tell when messages ended, and before the results, which last as long as the keys.
    gone = idempotency.prune(tx, channel.entry, limit)
    gone += _outdated(tx, channel, limit) + _surplus(tx, channel, limit)
    gone += tx.run("results.outdated", group=channel.group, limit=limit)
    gone += reports.prune(tx, channel, limit)
    gone += commitments.prune(tx, channel.group, limit)
    if (retention := dead_retention(tx, channel)) is not None:
        dead = tx.run("dead.outdated", channel=channel.id, retention=retention, limit=limit)
        tx.run("notices.outdated", channel=channel.id, retention=retention, limit=limit)
        counters.add(tx, channel.group, dead=-dead)
        gone += dead
    gone += limits.prune(tx, channel, limit)
    counters.fold(tx, channel.group)
    tx.run("consumers.outdated", group=channel.group, limit=limit)
    return gone


def dead_retention(tx: Transaction, channel: Channel) -> int | None:
    """How long dead letters are kept, in microseconds: as the queue says, or as long as the queue of their copies."""
    spec = channel.spec
    if spec.dead_retention is None and spec.dead_letter is not None:
        copies = channels.find(tx, channel.tenant, spec.dead_letter)
        return None if copies is None else _micros(copies.spec.max_age)
    return _micros(spec.dead_retention)


def _outdated(tx: Transaction, channel: Channel, limit: int) -> int:
    """Longer ago than the queue's history."""
    runs = _few(tx.all("runs.outdated", group=channel.group, limit=limit))
    gone: int = tx.run("rows.outdated", group=channel.group, limit=limit) + _drop(tx, [one[:2] for one in runs])
    counters.add(tx, channel.group, kept=-gone)
    return gone


def _surplus(tx: Transaction, channel: Channel, limit: int) -> int:
    """More than the queue keeps: the oldest go, runs and rows as they ended."""
    kept = tx.one("tally.kept", group=channel.group)
    assert kept is not None, "a sum is always one row"
    excess = kept[0] - channel.spec.history_limit
    if excess <= 0:
        return 0
    runs = _few(tx.all("runs.oldest_finished", group=channel.group, limit=limit))
    rows = tx.all("rows.oldest_finished", group=channel.group, limit=limit)
    oldest = [(at, size, "run", token) for token, size, at in runs] + [(at, 1, "row", one) for one, at in rows]
    gone = []
    for one in sorted(oldest, key=itemgetter(0)):
        if excess <= 0:
            break
        gone.append(one)
        excess -= one[1]
    count = _drop(tx, [(token, size) for _, size, kind, token in gone if kind == "run"])
    singles = [{"group": channel.group, "id": one} for _, _, kind, one in gone if kind == "row"]
    tx.each("rows.remove", singles)
    count += len(singles)
    counters.add(tx, channel.group, kept=-count)
    return count


def _drop(tx: Transaction, runs: Sequence[tuple[int, int]]) -> int:
    """Removes runs, of one that is too long the front; how many messages."""
    drop(tx, *(token for token, size in runs if size <= MOST_MESSAGES))
    for token in (token for token, size in runs if size > MOST_MESSAGES):
        tx.run("runs.shorten_messages", token=token, limit=MOST_MESSAGES)
        tx.run("runs.shorten", token=token, limit=MOST_MESSAGES)
    return sum(min(size, MOST_MESSAGES) for _, size in runs)


def _few(runs: list[Row]) -> list[Row]:
    """As many of them as one transaction should remove, while others wait for the lock; one at least."""
    few: list[Row] = []
    messages = 0
    for one in runs:
        if few and messages + one[1] > MOST_MESSAGES:
            break
        few.append(one)
        messages += one[1]
    return few


def is_due(tx: Transaction, channel: Channel) -> bool:
    """Whether a sweep would find anything to do: one look instead of a dozen."""
    return bool(due(tx, [channel]))


def due(tx: Transaction, readers: Sequence[Channel]) -> list[Channel]:
    """Those that a sweep would find anything to do for: one look for all, there may be a thousand."""
    if not readers:
        return []
    asked = encode_json([_asked(tx, channel) for channel in readers]).decode()
    found = {group for (group,) in tx.all("channels.due", channels=asked)}
    return [one for one in readers if one.group in found or one.spec.max_age is not None]


def _asked(tx: Transaction, channel: Channel) -> dict[str, int | None]:
    spec = channel.spec
    return {
        "group": channel.group,
        "channel": channel.id,
        "entry": channel.entry,
        "max_age": _micros(spec.max_age),
        "history": _micros(spec.history),
        "history_limit": spec.history_limit,
        "retention": dead_retention(tx, channel),
        "window": limits.window(spec),
    }


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
