"""What Holdfast should do, in plain Python: some dicts, one clock, no SQL.

Three ideas carry it:

- A message waits in a *lane* (`plain`: unordered, due at once) or as a *row* (all others, and once in trouble). Rows go
  first, by time and place; the lane follows in order of arrival.
- A *lease* covers the members of a run together, or one row. A claim holds while its message's lease is its own.
- A message is *forgotten* when its history is over or it is purged. A dead letter is when the `max_age` of the queue of
  its copies is over, but not before its replay has ended. An idempotency key is when its window has passed since the
  end of its message, as far as anyone looked.

Every rule that `holdfast.core` states is called from there: a store that agrees with the model agrees with core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, product
from typing import Any

import msgspec

from holdfast.client.claim_loop import ALONE_EVERY
from holdfast.core.dead_letter import HISTORY_LIMIT
from holdfast.core.duration import micros
from holdfast.core.lifecycle import (
    FINAL,
    GIVES_ATTEMPT_BACK,
    FailureVerdict,
    LifecycleEvent,
    State,
    after_failure,
    after_lapse,
    attempts_after,
    must_be_alone,
    next_state,
)
from holdfast.core.message import Failure, MessageStatus
from holdfast.core.priority import ALL as PRIORITIES
from holdfast.core.priority import NORMAL
from holdfast.core.queue import QueueSpec, blocked_order_key, queue_spec, user_key
from holdfast.errors import AlreadyReplayed, IdempotencyConflict, InvalidInput, LeaseLost, NotFound, QueueFull
from holdfast.store.engine.idempotency import SOONEST_LOOK
from tests.clock import FakeClock
from tests.model.things import (
    SILENCE,
    WORKER,
    Buried,
    Claim,
    Granted,
    Key,
    Lease,
    Message,
    Seen,
    envelope,
    json_text,
)
from tests.steps import Counts


class Model:
    """`windows`: the store reads a lane by snapshots, as PostgreSQL does; each shows what was there at its moment."""

    def __init__(self, clock: FakeClock, windows: bool = False) -> None:
        self.clock = clock
        self.windows = windows
        self.specs: dict[str, QueueSpec] = {}
        self.messages: dict[str, Message] = {}
        self.dead: dict[str, Buried] = {}
        self.blocked_by: dict[tuple[str, str], tuple[int, str]] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        self.claims: list[Claim] = []
        self._created = count(1)
        self._last_place = 0
        self._leases = count(1)
        self._claims_of_client = 0
        self._window_ends: dict[tuple[str, int], int] = {}

    # --- in -----------------------------------------------------------------------------------------------------------

    def declare(self, queue: str, settings: dict[str, Any]) -> None:
        self.specs[queue] = queue_spec(settings, self.specs.get(queue))

    def enqueue(
        self,
        queue: str,
        bodies: Sequence[Any],
        priority: int = NORMAL,
        key: str | None = None,
        delay: float = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: float | None = None,
        joined: bool = False,
    ) -> list[str]:
        spec, now = self.specs[queue], self.clock()
        if ttl is not None and ttl <= delay:
            raise InvalidInput
        if spec.max_depth is not None and bodies:
            if len(self._live(queue)) + len(bodies) > spec.max_depth:
                raise QueueFull
            if len(self._pending(queue)) + len(bodies) > spec.max_depth and not joined:
                over = self._expire(queue)  # These come in the place of others, which end.
                if spec.history == 0:
                    self._forget(over)
        names = [f"m{next(self._created)}" for _ in bodies]
        end = None if ttl is None else now + micros(ttl)
        for name, body in zip(names, bodies, strict=True):
            raw, raw_headers = json_text(body), json_text(headers or {})
            seen = Seen(name, priority, raw, raw_headers, key, correlation_id, reply_to, end, now)
            self._add(queue, seen, delay == 0 and ttl is None and not spec.ordered, spec.order_key(key), micros(delay))
        return names

    def enqueue_once(self, queue: str, body: Any, key: str, fate: str) -> tuple[str | None, bool]:
        """The message's name and whether it was there before; no name if its transaction is rolled back."""
        found = self._looked_at(self.keys[queue, key]) if (queue, key) in self.keys else None
        if found is not None and not found.is_over(self.clock()):
            if found.body != json_text(body):
                raise IdempotencyConflict
            if fate != "roll back":
                self.keys[queue, key] = found
            return found.name, True
        before = dict(self.messages)
        (name,) = self.enqueue(queue, [body], joined=fate != "alone")
        if fate == "roll back":
            self.messages, self._created = before, count(int(name[1:]))
            return None, False
        lasts = micros(self.specs[queue].idempotency_window)
        self.keys[queue, key] = Key(name, json_text(body), self.clock() + lasts // 4, lasts)
        return name, False

    def _looked_at(self, key: Key) -> Key:
        """What is known of a key when it is time to look whether its message has ended.

        Of an ack in a lane, and of what is forgotten, nobody knows when it was: the window starts with the look.
        """
        now, message = self.clock(), self.messages.get(key.name)
        if key.ended or key.expires_at > now:
            return key
        if message is not None and message.state not in FINAL:
            wait = max(key.lasts // 4, (now - message.seen.enqueued_at) // 4, SOONEST_LOOK)
            return key._replace(expires_at=now + wait)
        ended_at = now
        if message is not None and message.state is State.DEAD:
            ended_at = self.dead[key.name].failed_at
        elif message is not None and not (message.plain and message.state is State.SUCCEEDED):
            ended_at = message.finished_at or now
        return key._replace(ended=True, expires_at=ended_at + key.lasts)

    def _add(self, queue: str, seen: Seen, plain: bool, order_key: str, wait: int = 0) -> Message:
        new = Message(queue, seen, plain, self._next_place(), self.clock() + wait, order_key)
        new.alone = not plain and must_be_alone(self.specs[queue], 0)
        self.messages[seen.name] = new
        return new

    def _next_place(self) -> int:
        self._last_place += 1
        return self._last_place

    # --- out ----------------------------------------------------------------------------------------------------------

    def claim(
        self, queues: Sequence[str], n: int, lease: float | None = None, ack: Sequence[int] = ()
    ) -> list[Granted]:
        for queue in queues:
            self.sweep(queue)
        self._claims_of_client += 1
        lost = self._end_all(ack, LifecycleEvent.ACKED)
        claims = self._take_alone(queues, lease) if self._claims_of_client % ALONE_EVERY == 0 else []
        claims = claims or self._take(queues, n, lease)
        if lost:
            for claim in claims:
                self._end(claim, FailureVerdict(LifecycleEvent.RELEASED))
            raise LeaseLost
        self.claims += claims
        return [claim.granted for claim in claims]

    def _take(self, queues: Sequence[str], n: int, lease: float | None) -> list[Claim]:
        """Queue by queue, priority by priority: due rows, then the lane.

        A row that must be alone is taken only as the first, and then alone; otherwise it is passed by.
        """
        claims: list[Claim] = []
        for queue, priority in product(queues, PRIORITIES):
            until = self._until(queue, lease)
            rows = self._next_rows(queue, priority, n - len(claims), is_first=not claims)
            if rows and rows[0].alone and not claims:
                return self._lease(rows[:1], until)
            for row in [row for row in rows if not row.alone][: n - len(claims)]:
                claims += self._lease([row], until)
            if len(claims) < n:
                for run in self._runs(queue, priority, self.specs[queue].run_limit(n - len(claims))):
                    claims += self._lease(run, until)
        return claims

    def _take_alone(self, queues: Sequence[str], lease: float | None) -> list[Claim]:
        """Every so often a claim begins with those, so that they are not passed by for ever."""
        for queue in queues:
            rows = [row for priority in PRIORITIES for row in self._due_rows(queue, priority) if row.alone]
            if rows:
                return self._lease([min(rows, key=lambda row: row.turn)], self._until(queue, lease))
        return []

    def _until(self, queue: str, lease: float | None) -> int:
        return self.clock() + micros(self.specs[queue].lease if lease is None else lease)

    def _runs(self, queue: str, priority: int, room: int) -> list[list[Message]]:
        """The lane's next messages: one run, or with `windows` two, because a run cannot reach over a window's end."""
        run = self._lane(queue, priority)[:room]
        if not self.windows or not run:
            return [run]
        end = self._window_ends.get((queue, priority), 0)
        if run[-1].place > end:
            self._window_ends[queue, priority] = self._last_place
        return [[m for m in run if m.place <= end], [m for m in run if m.place > end]]

    def _lease(self, members: list[Message], until: int) -> list[Claim]:
        lease = Lease(next(self._leases), self.clock(), until, members, is_run=bool(members) and members[0].plain)
        for message in members:
            message.state = next_state(message.state, LifecycleEvent.CLAIMED)
            message.attempts += 1
            message.lease = lease
        return [Claim(message, lease, message.attempts, self.specs[message.queue]) for message in members]

    def _next_rows(self, queue: str, priority: int, room: int, is_first: bool) -> list[Message]:
        return self._due_rows(queue, priority)

    def _due_rows(self, queue: str, priority: int) -> list[Message]:
        rows = (m for m in self._live(queue) if not m.plain and m.seen.priority == priority)
        return sorted((m for m in rows if m.due_at <= self.clock() and self._is_head(m)), key=lambda m: m.turn)

    def _lane(self, queue: str, priority: int) -> list[Message]:
        lane = (m for m in self._live(queue) if m.plain and m.seen.priority == priority)
        return sorted(lane, key=lambda m: m.place)

    def _pending(self, queue: str) -> list[Message]:
        return [m for m in self.messages.values() if m.queue == queue and m.state is State.PENDING]

    def _live(self, queue: str) -> list[Message]:
        """Whose time is not over: the others have expired for whoever looks, though no sweep has come by."""
        spec, now = self.specs[queue], self.clock()
        return [m for m in self._pending(queue) if not m.is_over(spec, now)]

    def _is_head(self, message: Message) -> bool:
        """Whether nobody of the same order key, unfinished, is in front, and no death blocks it."""
        if not message.order_key or message.first:
            return True
        if (message.queue, message.order_key) in self.blocked_by:
            return False
        return not any(m.first or m.place < message.place for m in self._unfinished(message.queue, message.order_key))

    def _unfinished(self, queue: str, order_key: str) -> list[Message]:
        mine = [m for m in self.messages.values() if (m.queue, m.order_key) == (queue, order_key)]
        return [m for m in mine if m.state not in FINAL and not m.plain and not self._has_expired(m)]

    # --- the end of a claim -------------------------------------------------------------------------------------------

    def settle(
        self, verb: str, claims: Sequence[int], error: str = "", delay: float | None = None, permanent: bool = False
    ) -> None:
        event = {"ack": LifecycleEvent.ACKED, "release": LifecycleEvent.RELEASED, "snooze": LifecycleEvent.SNOOZED}.get(
            verb, LifecycleEvent.FAILED
        )
        if self._end_all(claims, event, error, delay, permanent or verb == "dead_letter"):
            raise LeaseLost

    def extend(self, claims: Sequence[int], duration: float | None = None) -> None:
        asked = [self.claims[number] for number in claims]
        term = max(claim.spec.lease for claim in asked) if duration is None else duration
        held = [claim for claim in asked if claim.message.lease is claim.lease]
        for claim in held:
            claim.lease.until = self.clock() + micros(term)
        if len(held) < len(asked):
            raise LeaseLost

    def _end_all(
        self,
        numbers: Sequence[int],
        event: LifecycleEvent,
        error: str = "",
        delay: float | None = None,
        permanent: bool = False,
    ) -> bool:
        """Ends claims, those of runs first; whether one of them was lost. Acking again what was acked is no loss."""
        claims = [self.claims[number] for number in numbers]
        claims.sort(key=lambda claim: (not claim.lease.is_run, claim.lease.number if claim.lease.is_run else 0))
        lost = False
        for claim in claims:
            if claim.message.lease is not claim.lease:
                lost = lost or not (claim.ended is event is LifecycleEvent.ACKED)
            elif event is LifecycleEvent.FAILED:
                verdict = after_failure(claim.spec, claim.attempt, chance=0.5, delay=delay, permanent=permanent)
                self._end(claim, verdict, error or "failed without a reason")
            else:
                self._end(claim, FailureVerdict(event, delay or 0))
        return lost

    def _end(self, claim: Claim, verdict: FailureVerdict, error: str = "") -> None:
        claim.ended = verdict.event
        last_try = must_be_alone(claim.spec, attempts_after(claim.attempt, verdict.event))
        self._move(claim.message, verdict.event, micros(verdict.wait), error, last_try)

    def _move(
        self, message: Message, event: LifecycleEvent, wait: int = 0, error: str = "", last_try: bool = False
    ) -> None:
        """What happens to a message that is being worked on, whoever says so."""
        lease, message.lease = message.lease, None
        since = lease.since if lease else None
        failure = Failure(message.attempts, WORKER, error, claimed_at_us=since, at_us=self.clock())
        message.state = next_state(message.state, event)
        message.attempts = attempts_after(message.attempts, event)
        if error:
            message.errors = [*message.errors, failure][-HISTORY_LIMIT:]
        if message.state is State.PENDING:
            kept = message.alone and event in GIVES_ATTEMPT_BACK
            self._put_back(message, wait, alone=event is LifecycleEvent.LAPSED or kept or last_try)
        elif message.state is State.DEAD:
            self._bury(message, error)
        elif message.state is State.CANCELED:
            message.finished_at = self.clock()
        self._end_replay(message)
        if lease is not None and lease.is_over:
            self._close(lease)

    def _put_back(self, message: Message, wait: int, alone: bool) -> None:
        """As a row: what comes back from a lane never goes there again."""
        if message.plain:
            message.plain = False
            message.place = self._next_place()
        message.due_at = self.clock() + wait
        message.alone = alone

    def _close(self, lease: Lease) -> None:
        """What was acked in a run is history from the moment when the whole run is over."""
        for message in lease.members:
            if message.state is State.SUCCEEDED and message.finished_at is None:
                message.finished_at = self.clock()
                if self.specs[message.queue].history == 0:
                    self._forget([message])

    def _forget(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.messages.pop(message.seen.name, None)

    # --- dead letters -------------------------------------------------------------------------------------------------

    def _bury(self, message: Message, error: str) -> None:
        name, now, attempts = message.seen.name, self.clock(), message.attempts
        kept = message.seen._replace(expires_at=None)
        self.dead[name] = Buried(message.queue, kept, error, attempts, now, message.errors, None, None)
        if message.order_key and self.specs[message.queue].on_dead == "block":
            self.blocked_by[message.queue, message.order_key] = (now, name)
        target = self.specs[message.queue].dead_letter
        if target:
            body = envelope(message, error, now)
            seen = Seen(f"envelope({name})", NORMAL, body, "{}", None, None, None, None, now)
            order_key = self.specs[target].order_key(None)
            self._add(target, seen, not order_key, order_key)

    def replay(self, name: str) -> str:
        if name not in self.dead:
            raise NotFound
        dead = self.dead[name]
        if dead.replayed_as:
            raise AlreadyReplayed
        new_name = f"m{next(self._created)}"
        self.dead[name] = dead._replace(replayed_as=new_name, replay_state=State.PENDING.value)
        seen = dead.message._replace(name=new_name, enqueued_at=self.clock())
        order_key = self.specs[dead.queue].order_key(seen.key)
        life = self._add(dead.queue, seen, False, order_key)
        life.replay_of = name
        if self.blocked_by.get((dead.queue, order_key), (0, ""))[1] == name:
            del self.blocked_by[dead.queue, order_key]
            life.first = True
        self._withdraw(f"envelope({name})")
        for place, key in self.keys.items():
            if key.name == name:
                self.keys[place] = Key(new_name, key.body, self.clock() + key.lasts // 4, key.lasts)
        return new_name

    def _withdraw(self, copy: str) -> None:
        """The copy in the queue that `dead_letter` names goes, unless a consumer holds it or it has ended."""
        if copy in self.messages and self.messages[copy].state is State.PENDING:
            del self.messages[copy]

    def _end_replay(self, message: Message) -> None:
        if message.replay_of and message.state in FINAL:
            dead = self.dead[message.replay_of]
            self.dead[message.replay_of] = dead._replace(replay_state=message.state.value)

    # --- operating ----------------------------------------------------------------------------------------------------

    def cancel(self, name: str) -> bool:
        message = self.messages.get(name)
        if message is None or message.state in FINAL or self._has_expired(message):
            return False
        self._move(message, LifecycleEvent.CANCELED)
        return True

    def unblock(self, queue: str, key: str | None) -> bool:
        return self.blocked_by.pop((queue, blocked_order_key(key)), None) is not None

    def purge(self, queue: str) -> int:
        pending = self._pending(queue)
        for message in pending:
            message.state = next_state(message.state, LifecycleEvent.CANCELED)
            self._end_replay(message)
        self._forget(pending)
        return len(pending)

    def sweep(self, queue: str) -> None:
        """Silent leases end, runs first; then messages past their time; history that is over is forgotten."""
        spec, now = self.specs[queue], self.clock()
        leases = {m.lease for m in self.messages.values() if m.queue == queue and m.lease and m.lease.until <= now}
        for lease in sorted(leases, key=lambda each: each.turn):
            for message in lease.members:
                if message.lease is lease:
                    self._move(message, after_lapse(spec, message.attempts).event, error=SILENCE)
        self._expire(queue)
        for place in [place for place in self.keys if place[0] == queue]:
            self.keys[place] = self._looked_at(self.keys[place])
            if self.keys[place].is_over(now):
                del self.keys[place]
        copies = spec.dead_letter and self.specs[spec.dead_letter].max_age
        for name, dead in list(self.dead.items()) if copies else ():
            if dead.queue == queue and dead.is_over(now - micros(copies)):
                del self.dead[name], self.messages[name]
        finished = [m for m in self.messages.values() if m.queue == queue and m.finished_at is not None]
        self._forget(m for m in finished if (m.finished_at or 0) <= now - micros(spec.history))

    def _expire(self, queue: str) -> list[Message]:
        over = [m for m in self._pending(queue) if m.is_over(self.specs[queue], self.clock())]
        for message in over:
            message.state = next_state(message.state, LifecycleEvent.EXPIRED)
            message.finished_at = self.clock()
            self._end_replay(message)
        return over

    def reopen(self, how: str) -> None:
        """Neither a close nor a crash changes anything that was committed; a new client counts its claims anew."""
        if how != "go on":
            self._claims_of_client = 0

    # --- looking ------------------------------------------------------------------------------------------------------

    def queues(self) -> list[str]:
        return sorted(self.specs)

    def status(self, name: str) -> MessageStatus | None:
        message = self.messages.get(name)
        if message is not None and self._has_expired(message):
            return msgspec.structs.replace(message.status, state=State.EXPIRED, due_at_us=None)
        return message and message.status

    def _has_expired(self, message: Message) -> bool:
        return message.state is State.PENDING and message.is_over(self.specs[message.queue], self.clock())

    def stats(self, queue: str) -> Counts:
        pending = self._live(queue)
        due = [m for m in pending if m.due_at <= self.clock() or m.plain]
        working = [m for m in self.messages.values() if m.queue == queue and m.state is State.PROCESSING]
        dead = [d for d in self.dead.values() if d.queue == queue]
        return Counts(len(due), len(pending) - len(due), len(working), len(dead))

    def peek(self, queue: str, n: int) -> list[Seen]:
        order = [m for level in PRIORITIES for m in [*self._due_rows(queue, level), *self._lane(queue, level)]]
        return [m.seen for m in order[:n]]

    def blocked(self, queue: str) -> list[tuple[str | None, str, int, int]]:
        found = sorted((at, order_key, dead) for (of, order_key), (at, dead) in self.blocked_by.items() if of == queue)
        return [(user_key(one), dead, at, len(self._unfinished(queue, one))) for at, one, dead in found]

    def dead_letters(self, queue: str | None) -> list[Buried]:
        return [dead for dead in self.dead.values() if queue in (None, dead.queue)]
