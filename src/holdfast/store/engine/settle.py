"""Ending claims, each under its token. Shared by both stores.

A run that is settled whole is closed without looking at its members. Anything else splits it: members that were
acked only set their bit, all others leave the lane as a row or a dead letter, and the last one closes the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from holdfast.commands import steps as commands
from holdfast.core import run
from holdfast.core.dead_letter import add_to_history
from holdfast.core.lifecycle import FINAL, GIVES_ATTEMPT_BACK, LifecycleEvent, State, attempts_after, next_state
from holdfast.core.message import Lease
from holdfast.core.settlement import Settlement, each_acked
from holdfast.sagas.steps import instances, step_ends
from holdfast.store.engine import counters, depth, insert, rows
from holdfast.store.engine.bury import bury, end_replay
from holdfast.store.engine.limits import MAKES_ROOM
from holdfast.store.engine.rows import Content, HeldRow, NewRow
from holdfast.store.transaction import Transaction

Indexed = tuple[int, Settlement]

ENDINGS = {event: next_state(State.PROCESSING, event) for event in (LifecycleEvent.EXPIRED, LifecycleEvent.CANCELED)}
"""Ends that leave a row to look at, and no dead letter."""


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[bool]:
    """Applies every settlement whose lease still holds; False for those that lost it."""
    applied = [False] * len(settlements)
    runs: dict[int, list[Indexed]] = defaultdict(list)
    singles: list[Indexed] = []
    for index, settlement in enumerate(settlements):
        if settlement.member is None:
            singles.append((index, settlement))
        else:
            runs[settlement.lease.token].append((index, settlement))
    for token in sorted(runs):
        for index in _settle_run(tx, token, runs[token]):
            applied[index] = True
    for index in _settle_rows(tx, singles):
        applied[index] = True
        counters.settled(tx, settlements[index].lease, settlements[index].event)
    held = [settlement for settlement, still in zip(settlements, applied, strict=True) if still]
    _keep_results(tx, [settlement for settlement in held if settlement.result is not None])
    commands.keep(tx, [settlement.receipt for settlement in held if settlement.receipt is not None])
    follow(tx, held)
    return applied


def finish(tx: Transaction, lease: Lease) -> list[int]:
    """Every member of a run is acked; the places of those that were settled before, or of all if the lease is lost."""
    found = tx.one("runs.lock", token=lease.token)
    if found is not None and found[1] is None:
        size, _, _, history, limited, shared = found
        _close_whole(tx, lease, size, history, limited, shared)
        return []
    applied = settle(tx, each_acked([lease]))
    return [member for member, held in enumerate(applied) if not held]


def follow(tx: Transaction, held: Sequence[Settlement]) -> None:
    """What a consumer wanted to happen together with the end of its claim."""
    if new := [message for settlement in held for message in settlement.followed_by]:
        rows.hold_keys(tx, [*tx.ended_keys, *((message.group, message.order_key) for message in new)])
        insert.insert(tx, new)


def _keep_results(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    tx.each(
        "results.keep",
        [{"id": one.message_id, "group": one.lease.group, "result": one.result} for one in settlements],
    )


def split(
    tx: Transaction, token: int, size: int, settled: run.Bits, gone: run.Bits, history: int, shared: bool
) -> None:
    """Notes which members are done; the last one closes the run."""
    if run.is_finished(settled, size):
        close(tx, token, history, shared)
    else:
        tx.run("runs.split", token=token, settled=settled, gone=gone)


def close(tx: Transaction, token: int, history: int, shared: bool) -> None:
    """A run is over: its range goes when the group's history is, and at once if there is none. A topic's stays."""
    if shared:
        tx.run("runs.drop", token=token)
    elif history:
        finished = tx.one("runs.finish", token=token)
        assert finished is not None, "an open run is there until it is closed"
        counters.add(tx, finished[0], kept=finished[1])
    else:
        drop(tx, token)


def drop(tx: Transaction, *tokens: int) -> None:
    """Each run leaves as one range."""
    tx.each("runs.drop_messages", [{"token": token} for token in tokens])
    tx.each("runs.drop", [{"token": token} for token in tokens])


def _settle_run(tx: Transaction, token: int, settlements: list[Indexed]) -> list[int]:
    lease = settlements[0][1].lease
    found = tx.one("runs.lock", token=token)
    if found is None:
        return []
    size, settled, gone, history, limited, shared = found
    if settled is None and _is_whole_ack(settlements, size):
        _close_whole(tx, lease, size, history, limited, shared)
        return [index for index, _ in settlements]
    if limited == MAKES_ROOM:
        _ring(tx, {lease.group})
    held = _first_of_each_member([pair for pair in settlements if not run.is_settled(settled, _member(pair))])
    if not held:
        return []
    leaving = [pair for pair in held if pair[1].event is not LifecycleEvent.ACKED]
    _move_out(tx, [settlement for _, settlement in leaving], shared)
    settled = run.settle(settled, size, map(_member, held))
    if leaving and not shared:
        gone = run.settle(gone, size, map(_member, leaving))
    split(tx, token, size, settled, gone, history, shared)
    for event, count in Counter(settlement.event for _, settlement in held).items():
        counters.settled(tx, lease, event, count)
    return [index for index, _ in held]


def _close_whole(tx: Transaction, lease: Lease, size: int, history: int, limited: int | None, shared: bool) -> None:
    if limited == MAKES_ROOM:
        _ring(tx, {lease.group})
    close(tx, lease.token, history, shared)
    counters.settled(tx, lease, LifecycleEvent.ACKED, size)


def _is_whole_ack(settlements: list[Indexed], size: int) -> bool:
    return (
        len(settlements) == size
        and all(settlement.event is LifecycleEvent.ACKED for _, settlement in settlements)
        and len({settlement.member for _, settlement in settlements}) == size
    )


def _move_out(tx: Transaction, leaving: list[Settlement], shared: bool) -> None:
    """Members in trouble leave the lane: from here on each has a state of its own. A topic keeps them, for others."""
    if not leaving:
        return
    found = tx.each("lanes.member", [{"id": settlement.message_id} for settlement in leaving])
    now = tx.clock()
    new_rows = []
    for settlement, row in zip(leaving, found, strict=True):
        assert row is not None, "a claimed member stays in its lane until the run is closed"
        content, group = Content.of(row), settlement.lease.group
        if settlement.event is LifecycleEvent.DIED:
            assert settlement.failure is not None, "a death has a reason"
            bury(tx, group, content, settlement.attempt, settlement.failure, None)
        else:
            new_rows.append(_row_of(settlement, content, now))
    rows.add(tx, new_rows)
    _grow(tx, [row.group for row in new_rows if row.state is State.PENDING])
    if not shared:
        tx.each("lanes.remove", [{"id": settlement.message_id} for settlement in leaving])
    _ring(tx, {settlement.lease.group for settlement in leaving})


def _row_of(settlement: Settlement, content: Content, now: int) -> NewRow:
    state = next_state(State.PROCESSING, settlement.event)
    return NewRow(
        settlement.lease.group,
        content,
        state=state,
        delay=settlement.delay,
        attempts=attempts_after(settlement.attempt, settlement.event),
        alone=settlement.alone,
        errors=add_to_history(None, settlement.failure, now) if settlement.failure else None,
        claimed_at=settlement.lease.since_us if state in FINAL else None,
    )


def _settle_rows(tx: Transaction, settlements: list[Indexed]) -> list[int]:
    if not settlements:
        return []
    ordered = sorted(settlements, key=lambda pair: (pair[1].lease.group, pair[1].message_id))
    locked = tx.each("rows.lock", [_claim_of(settlement) for _, settlement in ordered])
    found = zip(ordered, locked, strict=True)
    held = _first_of_each_row([(index, one, HeldRow.of(row)) for (index, one), row in found if row])
    if any(one.followed_by or one.event is LifecycleEvent.DIED for _, one, _ in held):
        instances.hold(tx, [row.saga for _, _, row in held if row.saga])
    makes_room = set[int]()
    for event in LifecycleEvent:
        chosen = [(settlement, row) for _, settlement, row in held if settlement.event is event]
        if not chosen:
            continue
        if event is LifecycleEvent.ACKED:
            makes_room = _succeed(tx, chosen)
        elif event is LifecycleEvent.DIED:
            _die(tx, chosen)
        elif event in ENDINGS:
            _end(tx, chosen)
        else:
            _again(tx, chosen)
            continue
        tx.ended_keys.update((settlement.lease.group, row.order_key) for settlement, row in chosen)
    others = {one.lease.group for _, one, row in held if one.event is not LifecycleEvent.ACKED or row.order_key}
    _ring(tx, others | makes_room)
    return [index for index, _, _ in held]


def _succeed(tx: Transaction, chosen: list[tuple[Settlement, HeldRow]]) -> set[int]:
    """The groups that have room now, and had a limit."""
    results = tx.each("rows.succeed", [_claim_of(settlement) for settlement, _ in chosen])
    forgotten, makes_room = [], set()
    for (settlement, row), result in zip(chosen, results, strict=True):
        if row.replay_of:
            end_replay(tx, row.replay_of, State.SUCCEEDED)
        assert result is not None, "the row is locked"
        step_ends.succeeded(
            tx,
            row.saga,
            settlement.message_id,
            settlement.result,
            settlement.lease.worker,
            settlement.attempt,
            settlement.repeated,
        )
        history, limited = result
        if limited == MAKES_ROOM:
            makes_room.add(settlement.lease.group)
        if history == 0:
            forgotten.append({"group": settlement.lease.group, "id": settlement.message_id})
        else:
            counters.add(tx, settlement.lease.group, kept=1)
    tx.each("rows.remove", forgotten)
    return makes_room


def _die(tx: Transaction, chosen: list[tuple[Settlement, HeldRow]]) -> None:
    for settlement, row in chosen:
        assert settlement.failure is not None, "a death has a reason"
        group, content = settlement.lease.group, row.content
        unknown = settlement.unknown
        bury(tx, group, content, settlement.attempt, settlement.failure, row.errors, row, unknown=unknown)
        tx.each("rows.remove", [{"group": group, "id": content.id}])


def _end(tx: Transaction, chosen: list[tuple[Settlement, HeldRow]]) -> None:
    for settlement, row in chosen:
        attempts, state = attempts_after(settlement.attempt, settlement.event), ENDINGS[settlement.event]
        errors = add_to_history(row.errors, settlement.failure, tx.clock()) if settlement.failure else None
        rows.end(tx, settlement.lease.group, row.content.id, state, row.replay_of, attempts, errors)


def _again(tx: Transaction, chosen: list[tuple[Settlement, HeldRow]]) -> None:
    now = tx.clock()
    for settlement, row in chosen:
        if failure := settlement.failure:
            step_ends.attempt_failed(tx, row.saga, failure, settlement.attempt, unknown=settlement.unknown)
        elif row.unwanted:
            step_ends.returned(tx, row.saga)
    tx.each(
        "rows.again",
        [
            {
                "group": settlement.lease.group,
                "id": settlement.message_id,
                "delay": settlement.delay,
                "attempts": attempts_after(settlement.attempt, settlement.event),
                "alone": settlement.alone or (bool(row.alone) and settlement.event in GIVES_ATTEMPT_BACK),
                "errors": add_to_history(row.errors, settlement.failure, now) if settlement.failure else row.errors,
            }
            for settlement, row in chosen
        ],
    )
    _grow(tx, [settlement.lease.group for settlement, _ in chosen])


def _grow(tx: Transaction, groups: list[int]) -> None:
    for group, count in sorted(Counter(groups).items()):
        depth.grow(tx, group, count)


def _first_of_each_member(pairs: list[Indexed]) -> list[Indexed]:
    """Two settlements of one claim in one call: the first wins, the second has lost."""
    seen: dict[int, Indexed] = {}
    for pair in pairs:
        seen.setdefault(_member(pair), pair)
    return list(seen.values())


def _first_of_each_row(held: list[tuple[int, Settlement, HeldRow]]) -> list[tuple[int, Settlement, HeldRow]]:
    seen: dict[tuple[int, bytes], tuple[int, Settlement, HeldRow]] = {}
    for entry in sorted(held, key=lambda entry: entry[0]):
        seen.setdefault((entry[1].lease.group, entry[1].message_id), entry)
    return list(seen.values())


def _member(pair: Indexed) -> int:
    member = pair[1].member
    assert member is not None, "only members of runs come here"
    return member


def _claim_of(settlement: Settlement) -> dict[str, object]:
    return {"group": settlement.lease.group, "id": settlement.message_id, "token": settlement.lease.token}


def _ring(tx: Transaction, groups: set[int]) -> None:
    for group in groups:
        owner = tx.one("channels.owner", group=group)
        if owner:
            tx.rings.add(owner[0])
