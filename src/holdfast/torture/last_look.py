"""What the database holds in the end, read id by id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from holdfast.client.client import Holdfast, internals
from holdfast.core.message import MessageStatus, id_bytes
from holdfast.store.engine import read
from holdfast.torture.address import is_server
from holdfast.torture.ending import TOPIC, ChannelEnd, FinalState, SagaEnd
from holdfast.torture.history import ACK, CLAIM, INVOKE, OK, SEND, START_SAGA, HistoryEvent
from holdfast.torture.plan import GROUPS, TorturePlan, channels

PAGE = 500
"""So many messages are looked at in one transaction."""

SAGAS_AT_ONCE = 1000


def last_look(hf: Holdfast, plan: TorturePlan, events: Iterable[HistoryEvent]) -> FinalState:
    """The states of all messages and sagas that anybody has ever heard of."""
    ends = {end.name: end for end in channels(plan)}
    ids, sagas = _heard_of(events, plan.keeps)
    for page in _pages(sorted(ids)):
        for found in _statuses(hf, page):
            _note(ends, found)
    for end in ends.values():
        if end.kind != TOPIC:
            stats = hf.stats(end.name)
            end.counts = {name: getattr(stats, name) for name in ("pending", "waiting", "processing", "dead")}
    return FinalState(
        [*ends.values()], [*_sagas(hf, sagas)], not plan.keeps, is_server(plan.url), patience=plan.patience
    )


def is_quiet(hf: Holdfast, plan: TorturePlan) -> bool:
    """Nothing waits and nothing is held."""
    for end in channels(plan):
        if end.kind != TOPIC:
            stats = hf.stats(end.name)
            if stats.pending or stats.waiting or stats.processing:
                return False
    return not any(hf.sagas.list(status, n=1) for status in ("in_progress", "compensating", "pending"))


def _heard_of(events: Iterable[HistoryEvent], keeps: bool) -> tuple[set[str], set[str]]:
    """Ids that were sent or claimed. If what is done is soon forgotten, without what all who get it have done."""
    ids: set[str] = set()
    sagas: set[str] = set()
    done: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.op == START_SAGA:
            sagas.update(item.id for item in event.items)
        elif (event.op == SEND and event.phase in (INVOKE, OK)) or (event.op == CLAIM and event.phase == OK):
            ids.update(item.id for item in event.items)
        elif event.op == ACK and event.phase == OK and not keeps:
            for item in event.items:
                done[item.id].add(item.channel)
    ids.difference_update(id for id, by in done.items() if len(by) == _readers(next(iter(by))))
    return ids, sagas


def _readers(channel: str) -> int:
    """How many get what one of them gets."""
    return len(GROUPS) if "/" in channel else 1


def _statuses(hf: Holdfast, page: Sequence[str]) -> list[MessageStatus]:
    """All of a page in one transaction: one each would take longer than the run."""
    tenant = hf.settings.tenant
    found = internals(hf).store.database.read(lambda tx: [read.status(tx, tenant, id_bytes(id)) for id in page])
    return [status for status in found if status is not None]


def _note(ends: dict[str, ChannelEnd], found: MessageStatus) -> None:
    """Of what a topic has removed, a group that still has a copy speaks for itself."""
    topic = found.queue.partition("/")[0]
    for group, state in found.groups.items():
        ends[f"{topic}/{group}"].messages[found.id] = str(state)
    if found.queue in ends:
        ends[found.queue].messages[found.id] = str(found.state)


def _sagas(hf: Holdfast, known: set[str]) -> Iterator[SagaEnd]:
    after: str | None = None
    found: set[str] = set()
    while page := hf.sagas.list(n=SAGAS_AT_ONCE, after=after):
        after = page[-1].id
        found.update(saga.id for saga in page)
    for id in sorted(found | known):
        saga = hf.sagas.get(id)
        if saga is not None:
            steps = [(step.name, step.status, step.undo is not None) for step in saga.steps]
            lines = [(line.what, line.step or "") for line in saga.timeline]
            yield SagaEnd(saga.id, saga.status, steps, lines)


def _pages(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while page := list(islice(rest, PAGE)):
        yield page
