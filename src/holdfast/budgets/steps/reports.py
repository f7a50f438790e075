"""What messages and their queues have taken so far, each report fenced by its claim. Shared by both stores.

A claim that still holds keeps its run or row locked until the transaction ends: reports about one message take turns.
What a queue has spent is one number, where the reports about all of its messages take turns, last of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.budgets.rules import Effort, SpendLimits, Standing, is_spent, paused_text
from holdfast.budgets.steps import budgets
from holdfast.core.dead_letter import ErrorText
from holdfast.core.message import MessageId
from holdfast.core.queue import QueueSpec
from holdfast.core.settlement import Settlement
from holdfast.notices import steps as notices
from holdfast.store.api import Channel
from holdfast.store.engine import dead_letters
from holdfast.store.engine.extend import held_members
from holdfast.store.transaction import Transaction

_spec = msgspec.json.Decoder(QueueSpec)


class Record(msgspec.Struct):
    """An effort as it is stored, with who did the last action, and the report that changed it last."""

    effort: Effort
    token: int | None
    report: MessageId | None


def spend(tx: Transaction, report: MessageId, claim: Settlement, amount: float) -> Standing | None:
    """Adds to what a message and its queue have spent. The report that uses up the queue's budget pauses the queue with
    it, and its owner has a notice.

    None if the claim is lost. `report` tells a second try of the same report from another one.
    """
    record, group = _open(tx, claim), claim.lease.group
    if record is None:
        return None
    if _is_counted(tx, record, report):
        queue_spent = budgets.spent(tx, group)
    else:
        record.effort = record.effort.spending(amount)
        _write(tx, claim, record, report)
        queue_spent = budgets.spend(tx, group, amount)
    limits, now = _limits(tx, group), tx.clock()
    is_first = is_spent(queue_spent, limits.queue_budget) and _pause(tx, group, report)
    if is_first:
        _tell(tx, group, queue_spent, limits)
    return Standing(record.effort, queue_spent, limits, now, is_first)


def act(tx: Transaction, report: MessageId, claim: Settlement, action: str) -> Standing | None:
    """Notes what a message's holder does. None if the claim is lost."""
    record = _open(tx, claim)
    if record is None:
        return None
    if not _is_counted(tx, record, report):
        record.effort = record.effort.doing(action, record.token == claim.lease.token)
        record.token = claim.lease.token
        _write(tx, claim, record, report)
    # What the queue has spent stops those who spend.
    return Standing(record.effort, 0.0, _limits(tx, claim.lease.group), tx.clock())


def begin(tx: Transaction, claims: Sequence[Settlement]) -> list[Effort | None]:
    """Notes when each message was first claimed, if that is not known yet; None where the claim is lost."""
    held = holding(tx, claims)
    records = dict(zip(held, _begin(tx, [claims[index] for index in held]), strict=True))
    return [records[index].effort if index in records else None for index in range(len(claims))]


def remember(tx: Transaction, claim: Settlement, session: str | None) -> bool:
    """Keeps a text for whoever works on the message next; False if the claim is lost."""
    if _open(tx, claim) is None:
        return False
    tx.run("effort.remember", group=claim.lease.group, id=claim.message_id, session=session)
    return True


def session(tx: Transaction, claim: Settlement) -> str | None:
    """The text that was kept for a message, in this attempt or an earlier one."""
    found = tx.one("effort.session", group=claim.lease.group, id=claim.message_id)
    return found[0] if found else None


def spent(tx: Transaction, channel: Channel) -> float:
    """What the messages of a queue have spent together."""
    return budgets.spent(tx, channel.group)


def reset(tx: Transaction, channel: Channel, actor: str) -> float:
    """Begins anew; what was spent stands in the audit."""
    found = tx.one("budget.forget", group=channel.group)
    before: float = found[0] if found else 0.0
    budgets.mind(tx, channel.id, channel.group, _settings(tx, channel.group), 0.0)
    dead_letters.note(tx, channel.tenant, actor, "reset_budget", channel.name, {"spent": before}, 1)
    return before


def prune(tx: Transaction, channel: Channel, limit: int) -> int:
    """Removes what belonged to messages that are gone; how much. What is still there is looked at again later."""
    tx.run("effort.postpone", group=channel.group, limit=limit)
    return tx.run("effort.outdated", group=channel.group, limit=limit)


def holding(tx: Transaction, claims: Sequence[Settlement]) -> list[int]:
    """The places of those claims that still hold; locked in the order in which a settlement locks them."""
    members = held_members(tx, [claim for claim in claims if claim.member is not None])
    runs = {(claim.lease.token, claim.member) for claim in members}
    singles = sorted({_row(claim) for claim in claims if claim.member is None})
    locked = tx.each("rows.lock", [{"group": group, "id": one, "token": token} for group, one, token in singles])
    rows = {single for single, row in zip(singles, locked, strict=True) if row is not None}
    return [
        index
        for index, claim in enumerate(claims)
        if (_row(claim) in rows if claim.member is None else (claim.lease.token, claim.member) in runs)
    ]


def _row(claim: Settlement) -> tuple[int, MessageId, int]:
    return claim.lease.group, claim.message_id, claim.lease.token


def _open(tx: Transaction, claim: Settlement) -> Record | None:
    return _begin(tx, [claim])[0] if holding(tx, [claim]) else None


def _begin(tx: Transaction, claims: Sequence[Settlement]) -> list[Record]:
    about = [
        {"group": claim.lease.group, "id": claim.message_id, "since": claim.lease.since_us}
        for claim in sorted(claims, key=_row)
    ]
    tx.each("effort.begin", about)
    found = tx.each("effort.find", [{"group": claim.lease.group, "id": claim.message_id} for claim in claims])
    records = []
    for row in found:
        assert row is not None, "what a held claim has begun is there"
        started_at, spent, action, repeats, token, report = row
        records.append(Record(Effort(started_at, spent, action, repeats), token, report))
    return records


def _is_counted(tx: Transaction, record: Record, report: MessageId) -> bool:
    """Whether an earlier try, whose answer was lost, came through after all."""
    return tx.again and record.report == report


def _write(tx: Transaction, claim: Settlement, record: Record, report: MessageId) -> None:
    effort = record.effort
    tx.run(
        "effort.write",
        group=claim.lease.group,
        id=claim.message_id,
        spent=effort.spent,
        action=effort.action,
        repeats=effort.repeats,
        token=record.token,
        report=report,
    )


def _limits(tx: Transaction, group: int) -> SpendLimits:
    """As they are at this moment: a budget that was raised holds for those who work already."""
    return SpendLimits.of(_settings(tx, group))


def _settings(tx: Transaction, group: int) -> QueueSpec:
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    return _spec.decode(owner[3])


def _tell(tx: Transaction, group: int, queue_spent: float, limits: SpendLimits) -> None:
    found = tx.one("channels.owner", group=group)
    assert found is not None, "a group always has a channel"
    _, tenant, queue, _ = found
    notices.report(tx, tenant, "budget", queue, ErrorText(paused_text(queue, queue_spent, limits)), None, queue)


def _pause(tx: Transaction, group: int, report: MessageId) -> bool:
    """Whether it was this report that paused the queue, now or in an earlier try."""
    if tx.one("budget.pause", group=group):
        tx.run("budget.note_pause", group=group, report=report)
        return True
    found = tx.one("budget.find", group=group)
    return tx.again and found is not None and found[1] == report
