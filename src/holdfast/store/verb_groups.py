"""The verbs of a store that are the same on every database, grouped by what they are about.

Most are one step in one transaction. Those with a body need several transactions, or look first whether there is
anything to write: looking holds up nobody.
"""

from __future__ import annotations

from functools import partial

from holdfast.budgets.steps import reports
from holdfast.commands import steps as commands
from holdfast.commitments import steps as commitments
from holdfast.consumers.steps import consumers, seats
from holdfast.errors import HoldfastError, StoreError
from holdfast.notices import steps as notices
from holdfast.replies import steps as replies
from holdfast.sagas.steps import instances
from holdfast.schedules import steps as schedules
from holdfast.sqs.steps import deliver
from holdfast.sqs.steps.values import HandOver
from holdfast.store.api import Channel, Topic
from holdfast.store.engine import channels, dead_letters, expire_leases, history, leaders, losses, operate, read
from holdfast.store.transaction import Row
from holdfast.store.verbs import Verbs, accepts, glances, reads, writes, writes_at_length, writes_once
from holdfast.topics.rules.retention import Retained
from holdfast.topics.steps import feed, group_list, liveness, retention, topics
from holdfast.topics.steps import seek as seeking

SLOTS_AT_ONCE = 100
"""How many missed slots of one schedule are sent in one transaction."""


class Channels(Verbs):
    """Queues by name."""

    declare = writes(channels.declare)
    find = glances(channels.find)
    pause = writes(operate.pause)
    is_paused = glances(channels.is_paused)
    paused = glances(channels.paused)
    names = reads(channels.names)
    readers = reads(channels.readers)


class TopicVerbs(Verbs):
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
    reached = reads(feed.reached_by)


class Retention(Verbs):
    """How long a topic keeps its messages, and for which groups: those that are alive."""

    removes = reads(losses.removes)
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


class UpkeepVerbs(Verbs):
    """What becomes due in queues as time passes: which of them are `due` in one look; how much each duty did."""

    due = glances(history.due)
    take_back = writes(expire_leases.take_back)
    expire = writes(expire_leases.expire)
    prune = writes(history.prune)


class Acts(Verbs):
    """What an operator does to messages."""

    cancel = writes(operate.cancel)
    unblock = writes(operate.unblock)
    purge = writes_at_length(operate.purge)


class Reads(Verbs):
    """Messages and queues, without changing them."""

    status = reads(read.status)
    search = reads(read.search)
    peek = reads(read.peek)
    stats = reads(read.stats)
    load = reads(read.load)
    blocked = reads(read.blocked)
    next_due = glances(read.next_due)
    due = glances(read.due)
    known = reads(read.known)


class Letters(Verbs):
    """Dead letters, and the record of what was done to them."""

    find = reads(dead_letters.find)
    matching = reads(dead_letters.matching)
    page = reads(dead_letters.page)
    replay = writes(dead_letters.replay)
    begin = writes(dead_letters.begin)
    act_on = writes(dead_letters.act_on)
    delete = writes(dead_letters.delete_one)
    audit = reads(dead_letters.audit)


class Owners(Verbs):
    """Who answers for failures."""

    declare = writes(notices.declare)
    all = glances(notices.owners)


class NoticeVerbs(Verbs):
    """What waits for an owner's answer."""

    post = writes(notices.report)
    is_due = glances(notices.is_due)
    escalate = writes(notices.escalate)
    find = glances(notices.find)
    acknowledge = writes(operate.acknowledge)
    take_untold = writes(notices.take_untold)
    note_told = writes(notices.note_told)


class Commitments(Verbs):
    """Results of the checks of commitments. Those of a lost claim are not kept: `keep` returns False."""

    keep = writes(commitments.keep)
    of = glances(commitments.of)


class Efforts(Verbs):
    """What messages and their queues have spent so far. A report about a lost claim changes nothing, and gets None."""

    spend = writes_once(reports.spend)
    act = writes_once(reports.act)
    begin = writes(reports.begin)
    remember = writes(reports.remember)
    session = glances(reports.session)
    spent = glances(reports.spent)
    reset = writes(reports.reset)


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

    beat = writes(consumers.beat)
    leave = writes(consumers.leave)
    workers = glances(consumers.workers)
    forget = writes(consumers.forget)
    attach = writes(consumers.attach)
    detach = writes(consumers.detach)
    attachments = glances(consumers.attachments)


class Replies(Verbs):
    """Queues for answers: opened by the process that asks, removed when nobody has opened them for long."""

    open = writes(replies.open_queue)
    _is_due = glances(replies.is_due)
    _forget = writes(replies.forget)

    def forget(self, tenant: str, limit: int) -> int:
        """Remove reply queues that are no longer used; returns how many."""
        return self._forget(tenant, limit) if self._is_due(tenant) else 0


class CommandVerbs(Verbs):
    """What commands have done: the key by which a run is known, and what it returned."""

    find = glances(commands.find)
    keep = writes(commands.conclude)
    forget = writes(commands.forget)


class Deliveries(Verbs):
    """Messages on their way through SQS. Times are microseconds."""

    confirm = writes(deliver.confirm)
    claim = writes(deliver.claim)
    are_over = reads(deliver.are_over)
    overdue = glances(deliver.overdue)
    wait_longer = writes(deliver.wait_longer)
    send_again = writes(deliver.send_again)
    fall_back = writes(deliver.fall_back)
    _is_due = glances(deliver.is_due)
    _nothing_due = glances(deliver.nothing_due)
    _hand_over = writes(deliver.hand_over)

    def hand_over(self, channel: Channel, limit: int, hold: int) -> HandOver:
        """Return the messages that are to be sent to SQS now. Most calls find none."""
        return self._hand_over(channel, limit, hold) if self._is_due(channel) else self._nothing_due(channel)


class Deaths(Verbs):
    """Dead letters that someone outside has to be told of."""

    unsent = glances(deliver.unsent)
    sent = writes(deliver.sent)


class SagaDefinitions(Verbs):
    """What new sagas consist of."""

    find = glances(instances.definition)
    names = glances(instances.names)


class SagaVerbs(Verbs):
    """Several steps that all happen, or are undone."""

    declare = writes(instances.declare)
    start = accepts(instances.start)
    signal = writes_once(instances.signal)
    cancel = writes_once(instances.cancel)
    decide = writes_once(instances.decide)
    is_due = glances(instances.is_due)
    next_due = glances(instances.next_due)
    find = reads(instances.find)
    count = glances(instances.count)
    status = reads(instances.status)
    _due = glances(instances.due)
    _tick = writes(expire_leases.tick_saga)
    _is_over = glances(instances.is_over)
    _forget = writes(instances.forget)

    def advance(self, tenant: str, limit: int) -> int:
        """Do what time has to do with sagas, each in a transaction of its own; returns how much that was."""
        due = self._due(tenant, limit)
        moved, left = sum(map(self._tick, due)), limit - len(due)
        return moved + (self._forget(tenant, left) if left > 0 and self._is_over(tenant) else 0)


class ScheduleVerbs(Verbs):
    """Messages that are sent by the clock."""

    declare = writes(schedules.declare)
    find = glances(schedules.find)
    remove = writes(schedules.remove)
    all = glances(schedules.every)
    pause = writes(schedules.pause)
    run = accepts(schedules.run)
    next_due = glances(schedules.next_due)
    _ahead = glances(schedules.ahead)
    _due = glances(schedules.due)
    _resume = writes(schedules.resume)
    _note = writes(schedules.note)
    _fire = accepts(schedules.fire)
    _postpone = writes(schedules.postpone)

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
                return self._fire(tenant, schedules.prepare(due, most))
            except StoreError:
                raise
            except HoldfastError as problem:
                refusal = str(problem)
        self._postpone(tenant, due[0], refusal)
        return 0
