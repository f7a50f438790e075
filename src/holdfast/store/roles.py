"""The verbs of a store that are the same on every database, grouped by what they are about.

Most are one step in one transaction. Those with a body need several transactions, or look first whether there is
anything to write: looking holds up nobody.
"""

from __future__ import annotations

from functools import partial

from holdfast.core.retention import Retained
from holdfast.errors import HoldfastError, StoreError
from holdfast.store import (
    acts,
    channels,
    commands,
    commitments,
    crew,
    delivering,
    efforts,
    escalation,
    expiry,
    feeding,
    group_list,
    history,
    leaders,
    letters,
    liveness,
    reading,
    removals,
    replies,
    retention,
    sagas,
    scheduling,
    seats,
    seeking,
    topics,
)
from holdfast.store.api import Channel, Topic
from holdfast.store.delivery_api import HandOver
from holdfast.store.transaction import Row
from holdfast.store.verbs import Verbs, accepts, glances, reads, writes, writes_at_length, writes_once

SLOTS_AT_ONCE = 100
"""How many missed slots of one schedule are sent in one transaction."""


class Channels(Verbs):
    """Queues by name."""

    declare = writes(channels.declare)
    find = glances(channels.find)
    pause = writes(acts.pause)
    is_paused = glances(channels.is_paused)
    paused = glances(channels.paused)
    names = reads(channels.names)
    readers = reads(channels.readers)


class Topics(Verbs):
    """Topics by name, and the groups that read them."""

    declare = writes(topics.declare)
    find = reads(topics.find)
    declare_queue = writes(topics.declare_queue)
    names = reads(topics.names)
    subscribe = writes(topics.subscribe)
    unsubscribe = writes(topics.unsubscribe)
    is_canceled = glances(topics.is_canceled)
    groups = reads(group_list.groups)


class Places(Verbs):
    """Where groups are in their topics: an operator moves them, or ends them."""

    seek = writes(seeking.seek)
    skip = writes(seeking.skip)
    cancel = writes(topics.cancel)
    reached = reads(feeding.reached_by)


class Retention(Verbs):
    """How long a topic keeps its messages, and for which groups: those that are alive."""

    removes = reads(removals.removes)
    beat = writes(liveness.beat)
    is_dead = glances(liveness.is_dead)
    late = glances(liveness.late)
    watch = writes(liveness.watch)
    accept_loss = writes(liveness.accept_loss)
    _is_due = reads(retention.is_due)
    _retain = writes(retention.retain)

    def retain(self, topic: Topic, limit: int) -> Retained:
        """Remove messages that are kept long enough."""
        return self._retain(topic, limit) if self._is_due(topic) else Retained()


class Upkeep(Verbs):
    """What becomes due in queues as time passes: which of them are `due` in one look; how much each duty did."""

    due = glances(history.due)
    take_back = writes(expiry.take_back)
    expire = writes(expiry.expire)
    prune = writes(history.prune)


class Acts(Verbs):
    """What an operator does to messages."""

    cancel = writes(acts.cancel)
    unblock = writes(acts.unblock)
    purge = writes_at_length(acts.purge)


class Reads(Verbs):
    """Messages and queues, without changing them."""

    status = reads(reading.status)
    search = reads(reading.search)
    peek = reads(reading.peek)
    stats = reads(reading.stats)
    load = reads(reading.load)
    blocked = reads(reading.blocked)
    next_due = glances(reading.next_due)
    due = glances(reading.due)
    known = reads(reading.known)


class Letters(Verbs):
    """Dead letters, and the record of what was done to them."""

    find = reads(letters.find)
    matching = reads(letters.matching)
    page = reads(letters.page)
    replay = writes(letters.replay)
    begin = writes(letters.begin)
    act_on = writes(letters.act_on)
    delete = writes(letters.delete_one)
    audit = reads(letters.audit)


class Owners(Verbs):
    """Who answers for failures."""

    declare = writes(escalation.declare)
    all = glances(escalation.owners)


class Notices(Verbs):
    """What waits for an owner's answer."""

    post = writes(escalation.report)
    is_due = glances(escalation.is_due)
    escalate = writes(escalation.escalate)
    find = glances(escalation.find)
    acknowledge = writes(acts.acknowledge)
    take_untold = writes(escalation.take_untold)
    note_told = writes(escalation.note_told)


class Commitments(Verbs):
    """Results of the checks of commitments. Those of a lost claim are not kept: `keep` returns False."""

    keep = writes(commitments.keep)
    of = glances(commitments.of)


class Efforts(Verbs):
    """What messages and their queues have spent so far. A report about a lost claim changes nothing, and gets None."""

    spend = writes_once(efforts.spend)
    act = writes_once(efforts.act)
    begin = writes(efforts.begin)
    remember = writes(efforts.remember)
    session = glances(efforts.session)
    spent = glances(efforts.spent)
    reset = writes(efforts.reset)


class Seats(Verbs):
    """A bound on how many consumers of a pool run at a time. A seat is a lease: it expires unless it is kept."""

    take = writes_once(seats.take)
    keep = writes(seats.keep)
    leave = writes(seats.leave)
    taken = glances(seats.taken)


class Leaders(Verbs):
    """One worker at a time for each duty. `worker` is another text for every start of a process."""

    step_down = writes(leaders.step_down)
    _is_settled = glances(leaders.is_settled)
    _lead = writes(leaders.lead)

    def lead(self, tenant: str, duty: str, worker: str, term_micros: int) -> bool:
        """Return whether this worker leads now. Most calls only look."""
        settled = self._is_settled(tenant, duty, worker, term_micros)
        return self._lead(tenant, duty, worker, term_micros) if settled is None else settled


class Crew(Verbs):
    """Running consumers, and what was changed about the queues they take from. A change rings `store.crew.CREW`."""

    beat = writes(crew.beat)
    leave = writes(crew.leave)
    workers = glances(crew.workers)
    forget = writes(crew.forget)
    attach = writes(crew.attach)
    detach = writes(crew.detach)
    attachments = glances(crew.attachments)


class Replies(Verbs):
    """Queues for answers: opened by the process that asks, removed when nobody has opened them for long."""

    open = writes(replies.open_queue)
    _is_due = glances(replies.is_due)
    _forget = writes(replies.forget)

    def forget(self, tenant: str, limit: int) -> int:
        """Remove reply queues that are no longer used; returns how many."""
        return self._forget(tenant, limit) if self._is_due(tenant) else 0


class Commands(Verbs):
    """What commands have done: the key by which a run is known, and what it returned."""

    find = glances(commands.find)
    keep = writes(commands.conclude)
    forget = writes(commands.forget)


class Deliveries(Verbs):
    """Messages on their way through SQS. Times are microseconds."""

    confirm = writes(delivering.confirm)
    claim = writes(delivering.claim)
    are_over = reads(delivering.are_over)
    overdue = glances(delivering.overdue)
    wait_longer = writes(delivering.wait_longer)
    send_again = writes(delivering.send_again)
    fall_back = writes(delivering.fall_back)
    _is_due = glances(delivering.is_due)
    _nothing_due = glances(delivering.nothing_due)
    _hand_over = writes(delivering.hand_over)

    def hand_over(self, channel: Channel, limit: int, hold: int) -> HandOver:
        """Return the messages that are to be sent to SQS now. Most calls find none."""
        return self._hand_over(channel, limit, hold) if self._is_due(channel) else self._nothing_due(channel)


class Deaths(Verbs):
    """Dead letters that someone outside has to be told of."""

    unsent = glances(delivering.unsent)
    sent = writes(delivering.sent)


class SagaDefinitions(Verbs):
    """What new sagas consist of."""

    find = glances(sagas.definition)
    names = glances(sagas.names)


class Sagas(Verbs):
    """Several steps that all happen, or are undone."""

    declare = writes(sagas.declare)
    start = accepts(sagas.start)
    signal = writes_once(sagas.signal)
    cancel = writes_once(sagas.cancel)
    decide = writes_once(sagas.decide)
    is_due = glances(sagas.is_due)
    next_due = glances(sagas.next_due)
    find = reads(sagas.find)
    count = glances(sagas.count)
    status = reads(sagas.status)
    _due = glances(sagas.due)
    _tick = writes(expiry.tick_saga)
    _is_over = glances(sagas.is_over)
    _forget = writes(sagas.forget)

    def advance(self, tenant: str, limit: int) -> int:
        """Do what time has to do with sagas, each in a transaction of its own; returns how much that was."""
        due = self._due(tenant, limit)
        moved, left = sum(map(self._tick, due)), limit - len(due)
        return moved + (self._forget(tenant, left) if left > 0 and self._is_over(tenant) else 0)


class Schedules(Verbs):
    """Messages that are sent by the clock."""

    declare = writes(scheduling.declare)
    find = glances(scheduling.find)
    remove = writes(scheduling.remove)
    all = glances(scheduling.every)
    pause = writes(scheduling.pause)
    run = accepts(scheduling.run)
    next_due = glances(scheduling.next_due)
    _ahead = glances(scheduling.ahead)
    _due = glances(scheduling.due)
    _resume = writes(scheduling.resume)
    _note = writes(scheduling.note)
    _fire = accepts(scheduling.fire)
    _postpone = writes(scheduling.postpone)

    def fire(self, tenant: str, limit: int) -> int:
        """Send what is due; returns how many messages. A schedule that fails does not keep the others from firing."""
        for name in self._ahead(tenant, limit):
            self._resume_one(tenant, name)
        return sum(map(partial(self._fire_one, tenant), self._due(tenant, limit)))

    def _resume_one(self, tenant: str, name: str) -> None:
        try:
            self._resume(tenant, name)
        except StoreError:
            raise
        except HoldfastError as problem:
            self._note(tenant, name, str(problem))

    def _fire_one(self, tenant: str, due: Row) -> int:
        refusal = ""
        for most in (SLOTS_AT_ONCE, 1):  # A queue may have room for one where it has none for a hundred.
            try:
                return self._fire(tenant, scheduling.prepare(due, most))
            except StoreError:
                raise
            except HoldfastError as problem:
                refusal = str(problem)
        self._postpone(tenant, due[0], refusal)
        return 0
