"""The roles that are the same on every database that runs transactions: each verb is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from holdfast.core.commitments import CommitmentResult
from holdfast.core.crew import Attachment, Beat, ConsumerStatus
from holdfast.core.deadletter import BlockedKey, Trouble
from holdfast.core.effort import Effort, Standing
from holdfast.core.given import Settle
from holdfast.core.message import Duplicate, Message, MessageId, MessageStatus
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.queue import QueueSpec
from holdfast.core.replies import REPLIES
from holdfast.core.scaling import Load
from holdfast.core.schedule import GRACE, Schedule, ScheduleSpec
from holdfast.core.search import Wanted
from holdfast.core.settlement import Settlement
from holdfast.core.stats import Stats
from holdfast.errors import HoldfastError, StoreError
from holdfast.store import (
    acts,
    channels,
    commitments,
    crew,
    efforts,
    escalation,
    expiry,
    history,
    idempotency,
    leaders,
    letters,
    reading,
    scheduling,
    seats,
)
from holdfast.store.api import Channel, Seat
from holdfast.store.ids import new_id
from holdfast.store.transaction import Row

Result = TypeVar("Result")
SLOTS_AT_ONCE = 100
"""How many missed slots of one schedule are sent in one transaction."""


class Database(Protocol):
    """Runs work in a transaction."""

    def write(self, work: Callable[[Any], Result]) -> Result: ...
    def write_at_length(self, work: Callable[[Any], Result]) -> Result: ...
    def accept(self, work: Callable[[Any], Result]) -> Result: ...
    def read(self, work: Callable[[Any], Result]) -> Result: ...
    def glance(self, work: Callable[[Any], Result]) -> Result: ...


class ChannelsRole:
    """Queues by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel:
        return self._database.write(lambda tx: channels.declare(tx, tenant, name, settle))

    def find(self, tenant: str, name: str) -> Channel | None:
        return self._database.glance(lambda tx: channels.find(tx, tenant, name))

    def pause(self, channel: Channel, paused: bool, actor: str) -> None:
        self._database.write(lambda tx: acts.pause(tx, channel, paused, actor))

    def is_paused(self, channel: Channel) -> bool:
        return self._database.glance(lambda tx: bool(tx.one("channels.is_paused", group=channel.group)[0]))

    def paused(self, groups: Sequence[int]) -> set[int]:
        return self._database.glance(lambda tx: channels.paused(tx, groups))

    def names(self, tenant: str) -> list[str]:
        found = self._database.read(lambda tx: tx.all("channels.names", tenant=tenant, own=REPLIES))
        return [name for (name,) in found]

    def readers(self, tenant: str) -> list[Channel]:
        return self._database.read(lambda tx: channels.readers(tx, tenant))


class UpkeepRole:
    """What time does to a queue. Nothing need be written where one look finds nothing to do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, all_channels: Sequence[Channel]) -> list[Channel]:
        return self._database.glance(lambda tx: history.due(tx, all_channels))

    def take_back(self, channel: Channel, limit: int) -> int:
        return self._database.write(lambda tx: expiry.take_back(tx, channel, limit))

    def expire(self, channel: Channel, limit: int) -> int:
        return self._database.write(lambda tx: expiry.expire(tx, channel, limit))

    def prune(self, channel: Channel, limit: int) -> int:
        return self._database.write(lambda tx: history.prune(tx, channel, limit))


class ActsRole:
    """What an operator does to messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, tenant: str, message_id: MessageId) -> bool:
        return self._database.write(lambda tx: acts.cancel(tx, tenant, message_id))

    def unblock(self, channel: Channel, order_key: str) -> bool:
        return self._database.write(lambda tx: acts.unblock(tx, channel, order_key))

    def purge(self, channel: Channel, actor: str) -> int:
        return self._database.write_at_length(lambda tx: acts.purge(tx, channel, actor))


class ReadsRole:
    """Looking without touching."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def status(self, tenant: str, message_id: MessageId) -> MessageStatus | None:
        return self._database.read(lambda tx: reading.status(tx, tenant, message_id))

    def search(self, tenant: str, wanted: Wanted, limit: int, after: MessageId | None) -> list[MessageStatus]:
        return self._database.read(lambda tx: reading.search(tx, tenant, wanted, limit, after))

    def peek(self, channel: Channel, limit: int) -> list[Message]:
        return self._database.read(lambda tx: reading.peek(tx, channel, limit))

    def stats(self, channel: Channel) -> Stats:
        return self._database.read(lambda tx: reading.stats(tx, channel))

    def load(self, all_channels: Sequence[Channel]) -> Load:
        return self._database.read(lambda tx: reading.load(tx, all_channels))

    def blocked(self, channel: Channel, limit: int) -> list[BlockedKey]:
        return self._database.read(lambda tx: reading.blocked(tx, channel, limit))

    def next_due(self, all_channels: Sequence[Channel]) -> float | None:
        return self._database.glance(lambda tx: reading.next_due(tx, all_channels))

    def due(self, all_channels: Sequence[Channel]) -> list[Channel]:
        return self._database.glance(lambda tx: reading.due(tx, all_channels))

    def known(self, channel: Channel, key: str) -> Duplicate | None:
        return self._database.read(lambda tx: idempotency.find(tx, channel.id, key))


class OwnersRole:
    """Who answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, spec: OwnerSpec) -> None:
        self._database.write(lambda tx: escalation.declare(tx, tenant, name, spec))

    def all(self, tenant: str) -> dict[str, OwnerSpec]:
        return self._database.glance(lambda tx: escalation.owners(tx, tenant))


class NoticesRole:
    """What waits for an owner's answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def post(
        self, tenant: str, kind: str, about: str, trouble: Trouble, owner: str | None = None, queue: str | None = None
    ) -> MessageId:
        return self._database.write(lambda tx: escalation.report(tx, tenant, kind, about, trouble, owner, queue))

    def is_due(self, tenant: str) -> bool:
        return self._database.glance(lambda tx: tx.one("notices.is_due", tenant=tenant) is not None)

    def escalate(self, tenant: str, limit: int) -> int:
        return self._database.write(lambda tx: escalation.escalate(tx, tenant, limit))

    def find(
        self,
        tenant: str,
        owner: str | None,
        queue: str | None,
        open_only: bool,
        limit: int,
        after: MessageId | None,
    ) -> list[Notice]:
        return self._database.glance(lambda tx: escalation.find(tx, tenant, owner, queue, open_only, limit, after))

    def acknowledge(self, tenant: str, actor: str, ids: Sequence[MessageId], remark: str | None) -> int:
        def work(tx: Any) -> int:
            done = escalation.acknowledge(tx, tenant, actor, ids, remark)
            if done:
                letters.note(tx, tenant, actor, "acknowledge", None, {"remark": remark} if remark else {}, done)
            return done

        return self._database.write(work)

    def take_untold(self, tenant: str, owner: str | None, limit: int) -> list[Notice]:
        return self._database.write(lambda tx: escalation.take_untold(tx, tenant, owner, limit))

    def note_told(self, told: Sequence[tuple[MessageId, int]]) -> None:
        self._database.write(lambda tx: escalation.note_told(tx, told))


class CommitmentsRole:
    """How the checks of commitments went."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, claim: Settlement, results: Sequence[CommitmentResult]) -> bool:
        return self._database.write(lambda tx: commitments.keep(tx, claim, results))

    def of(self, tenant: str, message_id: MessageId) -> list[CommitmentResult]:
        return self._database.glance(lambda tx: commitments.of(tx, tenant, message_id))


class EffortsRole:
    """What messages and their queues have taken so far. A report has an id: if it is tried again, it counts once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def spend(self, claim: Settlement, amount: float) -> Standing | None:
        report = new_id()
        return self._database.write(lambda tx: efforts.spend(tx, claim, amount, report))

    def act(self, claim: Settlement, action: str) -> Standing | None:
        report = new_id()
        return self._database.write(lambda tx: efforts.act(tx, claim, action, report))

    def begin(self, claims: Sequence[Settlement]) -> list[Effort | None]:
        return self._database.write(lambda tx: efforts.begin(tx, claims))

    def remember(self, claim: Settlement, session: str | None) -> bool:
        return self._database.write(lambda tx: efforts.remember(tx, claim, session))

    def session(self, claim: Settlement) -> str | None:
        return self._database.glance(lambda tx: efforts.session(tx, claim))

    def spent(self, channel: Channel) -> float:
        return self._database.glance(lambda tx: efforts.spent(tx, channel))

    def reset(self, channel: Channel, actor: str) -> float:
        return self._database.write(lambda tx: efforts.reset(tx, channel, actor))


class SeatsRole:
    """At most so many consumers of a pool at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, tenant: str, pool: str, worker: str, most: int, term_micros: int) -> Seat | None:
        token = new_id()  # The same for every try: a seat that was taken without our hearing of it is found again.
        return self._database.write(lambda tx: seats.take(tx, tenant, pool, worker, most, term_micros, token))

    def keep(self, tenant: str, pool: str, seat: Seat, term_micros: int) -> bool:
        return self._database.write(lambda tx: seats.keep(tx, tenant, pool, seat, term_micros))

    def leave(self, tenant: str, pool: str, seat: Seat) -> bool:
        return self._database.write(lambda tx: seats.leave(tx, tenant, pool, seat))

    def taken(self, tenant: str, pool: str) -> list[Seat]:
        return self._database.glance(lambda tx: seats.taken(tx, tenant, pool))


class LeadersRole:
    """One worker at a time for each duty."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lead(self, tenant: str, duty: str, worker: str, term_micros: int) -> bool:
        settled = self._database.glance(lambda tx: leaders.is_settled(tx, tenant, duty, worker, term_micros))
        if settled is not None:
            return settled
        return self._database.write(lambda tx: leaders.lead(tx, tenant, duty, worker, term_micros))

    def step_down(self, tenant: str, duty: str, worker: str) -> None:
        self._database.write(lambda tx: leaders.step_down(tx, tenant, duty, worker))


class CrewRole:
    """Running consumers, and what was changed about the queues they take from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, tenant: str, beat: Beat) -> None:
        self._database.write(lambda tx: crew.beat(tx, tenant, beat))

    def leave(self, tenant: str, worker_id: str) -> None:
        self._database.write(lambda tx: tx.run("crew.leave", tenant=tenant, id=worker_id))

    def workers(self, tenant: str) -> list[ConsumerStatus]:
        return self._database.glance(lambda tx: crew.workers(tx, tenant))

    def forget(self, tenant: str, limit: int) -> int:
        return self._database.write(lambda tx: int(tx.run("crew.forget", tenant=tenant, limit=limit)))

    def attach(self, tenant: str, consumer: str, queue: str, weight: float | None, empty: str | None) -> None:
        attachment = Attachment(consumer, queue, True, weight, empty)
        self._database.write(lambda tx: crew.change(tx, tenant, attachment))

    def detach(self, tenant: str, consumer: str, queue: str) -> None:
        self._database.write(lambda tx: crew.change(tx, tenant, Attachment(consumer, queue, False)))

    def attachments(self, tenant: str, consumer: str | None) -> list[Attachment]:
        return self._database.glance(lambda tx: crew.attachments(tx, tenant, consumer))


class SchedulesRole:
    """Messages that are sent by the clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, settle: Settle[ScheduleSpec]) -> None:
        self._database.write(lambda tx: scheduling.declare(tx, tenant, name, settle))

    def find(self, tenant: str, name: str) -> ScheduleSpec | None:
        return self._database.glance(lambda tx: scheduling.find(tx, tenant, name))

    def remove(self, tenant: str, name: str) -> bool:
        return self._database.write(lambda tx: scheduling.remove(tx, tenant, name))

    def all(self, tenant: str) -> list[Schedule]:
        return self._database.glance(lambda tx: scheduling.every(tx, tenant))

    def pause(self, tenant: str, name: str, paused: bool) -> None:
        self._database.write(lambda tx: scheduling.pause(tx, tenant, name, paused))

    def fire(self, tenant: str, limit: int) -> int:
        ahead = self._database.glance(lambda tx: tx.all("schedules.ahead", tenant=tenant, grace=GRACE, limit=limit))
        for (name,) in ahead:
            self._resume(tenant, name)
        due = self._database.glance(lambda tx: tx.all("schedules.due", tenant=tenant, limit=limit))
        return sum(self._fire_one(tenant, row) for row in due)

    def run(self, tenant: str, name: str, fresh: MessageId) -> None:
        self._database.accept(lambda tx: scheduling.run(tx, tenant, name, fresh))

    def next_due(self, tenant: str) -> float | None:
        """Seconds until a schedule is due; 0 or less if one is."""
        found = self._database.glance(lambda tx: tx.one("schedules.next_due", tenant=tenant))
        return None if found is None or found[0] is None else found[0] / 1_000_000

    def _resume(self, tenant: str, name: str) -> None:
        """As below: one schedule that this machine cannot read does not keep the others from going on."""
        try:
            self._database.write(lambda tx: scheduling.resume(tx, tenant, name))
        except StoreError:
            raise
        except HoldfastError as problem:
            refusal = str(problem)
            self._database.write(lambda tx: tx.run("schedules.note", tenant=tenant, name=name, error=refusal))

    def _fire_one(self, tenant: str, due: Row) -> int:
        """Whatever refuses one schedule's messages does not keep the others from firing."""
        refusal = ""
        for most in (SLOTS_AT_ONCE, 1):  # A queue may have room for one where it has none for a hundred.
            try:
                firing = scheduling.prepare(due, most)
                work = partial(scheduling.fire, tenant=tenant, firing=firing)
                return self._database.accept(work)
            except StoreError:
                raise
            except HoldfastError as problem:
                refusal = str(problem)
        self._database.write(lambda tx: scheduling.postpone(tx, tenant, due[0], refusal))
        return 0
