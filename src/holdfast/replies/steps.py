"""Reply queues: opened by who asks, told of deaths, removed when nobody has asked for long. Shared by both stores.

A reply queue is opened again every few minutes while its process asks. One that was not for an hour gets another name,
so that no answer can find it; what was on its way to it by then has another hour to arrive, and goes with it.
"""

from __future__ import annotations

from holdfast.core.dead_letter import shortened
from holdfast.core.message import encode_json
from holdfast.core.queue import QueueSpec
from holdfast.notices.rules import ERROR_SHOWN
from holdfast.replies.rules import DIED, GONE, REPLIES, is_reply_queue
from holdfast.store.api import Channel
from holdfast.store.engine import channels
from holdfast.store.engine.internal_messages import compose
from holdfast.store.engine.rows import Content
from holdfast.store.ids import new_id
from holdfast.store.transaction import Transaction

MOST_MESSAGES = 2_000
"""So many answers are removed in one transaction, before their queues are: some milliseconds of SQLite's write lock."""

_OF_THE_GROUP = (
    "replies.forget_runs",
    "replies.forget_cursors",
    "replies.forget_tallies",
    "replies.forget_consumers",
    "replies.forget_results",
    "replies.forget_efforts",
    "replies.forget_checks",
)
_OF_THE_CHANNEL = (
    "replies.forget_lanes",
    "replies.forget_rings",
    "replies.forget_keys",
    "replies.forget_notices",
    "replies.forget_dead",
    "replies.forget_group",
    "replies.forget_channel",
)


def open_queue(tx: Transaction, tenant: str, name: str, spec: QueueSpec) -> Channel:
    """The queue of this name, which is not forgotten for another hour."""
    channel = channels.declare(tx, tenant, name, lambda _: spec)
    tx.run("replies.touch", channel=channel.id)
    return channel


def is_due(tx: Transaction, tenant: str) -> bool:
    """Whether there may be reply queues to forget."""
    return tx.one("replies.is_due", tenant=tenant, prefix=REPLIES) is not None


def forget(tx: Transaction, tenant: str, limit: int) -> int:
    """Takes the names of some that nobody has opened for an hour, and removes some that lost theirs an hour ago."""
    over = tx.all("replies.over", tenant=tenant, gone=GONE, limit=limit)
    room = MOST_MESSAGES
    for channel, group in over:
        room -= tx.run("replies.forget_messages", channel=channel, limit=room)
        room -= tx.run("replies.forget_rows", group=group, limit=room)
        if room <= 0:
            return limit  # There may be more.
        for query in _OF_THE_GROUP:
            tx.run(query, group=group)
        for query in _OF_THE_CHANNEL:
            tx.run(query, channel=channel)
    return len(over) + tx.run("replies.retire", tenant=tenant, prefix=REPLIES, gone=GONE, limit=limit)


def tell_of_death(tx: Transaction, tenant: str, content: Content, error: str) -> None:
    """In the transaction of the death: whoever waits for an answer need not wait any longer."""
    if content.reply_to is None or not is_reply_queue(content.reply_to):
        return
    target = channels.find(tx, tenant, content.reply_to)
    if target is not None:
        news = compose(target, new_id(), encode_json(shortened(error, ERROR_SHOWN)), headers=encode_json({DIED: True}))
        news.correlation_id = content.correlation_id
        tx.insert([news])
