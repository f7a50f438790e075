"""Holdfast, the client: the rules of `core` around one call of the store each."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from holdfast import endings, limits
from holdfast.bells import Bells
from holdfast.channels import ChannelBook
from holdfast.claims import Claim, Claims, as_list
from holdfast.commitments import Committing
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, seconds
from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.queue import queue_spec
from holdfast.core.retry import Backoff
from holdfast.core.settlement import Settlement
from holdfast.drafting import Key, Options, draft, listed
from holdfast.errors import InvalidInput
from holdfast.gather import Gather
from holdfast.joining import driver_connection
from holdfast.limits import checked_count, checked_term
from holdfast.message_types import MessageTypes
from holdfast.operating import Operating
from holdfast.presence import Presence
from holdfast.receipts import Receipt, one_for_each, receipts
from holdfast.settings import Settings
from holdfast.store.api import Channel, ClaimRequest, Store
from holdfast.store.opening import open_store

LONGEST_NAP = 5.0
"""A waiting claim looks at least this often, whether or not it was woken."""

SHORTEST_NAP = 0.002

ALONE_EVERY = 4
"""One claim in so many begins with a message whose last holder went silent, whatever else is more urgent."""

LONGEST_SWEEP = 0.05
"""Seconds that a client spends on a sweep, turn by turn, when there is much to do."""


class Holdfast(Operating, Committing):
    """Reliable queues in the database you already have.

    >>> hf = Holdfast("sqlite:///work.db")
    >>> receipt = hf.enqueue("emails", {"to": "a@b.c"})
    >>> for claim in hf.claim("emails", n=10):
    ...     claim.ack()
    >>> hf.close()

    Safe to share between threads, and across a fork. `AsyncHoldfast` has the same names for asyncio.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        strict: bool = False,
        worker: str | None = None,
        migrate: bool = True,
        patience: float = 60.0,
        sweep_every: float = 1.0,
        clock: Callable[[], int] | None = None,
        actor: str | None = None,
    ) -> None:
        super().__init__()
        self.settings = Settings(url, tenant, strict, worker, migrate, patience, sweep_every, clock, actor)
        self.store: Store = open_store(self.settings)
        self._book = ChannelBook(self.store, self.settings)
        self._inserts: Gather[NewMessage, Duplicate | None] = Gather(self.store.messages.insert)
        self._settlements: Gather[Settlement, bool] = Gather(self.store.messages.settle)
        self._bells = Bells(self.store.wakeup)
        self._swept: dict[int, float] = {}
        self._presence = Presence()
        self._worker: tuple[int, str] = (0, "")
        self._claims = itertools.count(1)
        self._types = MessageTypes()

    # --- queues -------------------------------------------------------------------------------------------------------

    def queue(
        self,
        name: str,
        *,
        lease: Duration = 30,
        max_attempts: int = 5,
        backoff: Backoff | str | Duration | Sequence[Duration] | None = "1s..60s",
        ordering: str = "unordered",
        on_dead: str = "continue",
        dead_letter: str | None = None,
        history: Duration = "1h",
        history_limit: int = 100_000,
        max_age: Duration | None = None,
        max_size: int = 1_048_576,
        max_depth: int | None = None,
        idempotency_window: Duration = "24h",
        dead_retention: Duration | None = None,
        owner: str | None = None,
        message_type: Any = None,
    ) -> None:
        """Declares a queue, or changes the settings of one; its messages stay.

        `backoff` is the wait after a failure: doubling ("1s..60s"), fixed (30), a list ([60, 300, 1800]) or None.
        `ordering` is "unordered", "fifo" or "per_key"; with `on_dead="block"` a death stops its key until someone
        replays the dead letter or calls `unblock`. `dead_letter` names a queue that is told of every death.
        `history` is how long finished messages can be looked up, `history_limit` how many. `max_age` is how long a
        message may wait; after that it expires. `max_size` is how many bytes of JSON it may have, headers included;
        `max_depth` how many messages may wait, after which an enqueue raises `QueueFull`. `idempotency_window` is how
        long an idempotency key is remembered, `dead_retention` how long a dead letter is kept (None: for ever), `owner`
        who is told of it and has to answer.
        With `message_type` (a dataclass, TypedDict, msgspec or plain type) this client refuses bodies that do not fit,
        and claims have bodies of that type.
        """
        reader = self._types.reader(message_type)
        self._book.declare(
            name,
            queue_spec(
                {
                    "lease": lease,
                    "max_attempts": max_attempts,
                    "backoff": backoff,
                    "ordering": ordering,
                    "on_dead": on_dead,
                    "dead_letter": dead_letter,
                    "history": history,
                    "history_limit": history_limit,
                    "max_age": max_age,
                    "max_size": max_size,
                    "max_depth": max_depth,
                    "idempotency_window": idempotency_window,
                    "dead_retention": dead_retention,
                    "owner": owner,
                }
            ),
        )
        self._types.set(name, reader)

    def queues(self) -> list[str]:
        """The names of all declared queues of this tenant."""
        self._book.open()
        return self.store.channels.names(self.settings.tenant)

    # --- in -----------------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message; when this returns, it survives a crash.

        With `ttl` it expires if nobody has claimed it by then, counted from now. With an `idempotency_key` that this
        queue has seen before, nothing is stored and the receipt is that of the first message. With `conn`, a
        connection or session of yours to the same database, it is part of your transaction and happens when you commit.
        """
        options = (priority, key, delay, headers, correlation_id, reply_to, ttl, idempotency_key)
        return self._put(queue, [body], options, conn)[0]

    def enqueue_many(
        self,
        queue: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Stores many messages in one transaction (yours, with `conn`): all of them or none.

        `key` may be a function of the body, and `idempotency_key` has to be one.
        """
        options = (priority, key, delay, headers, correlation_id, reply_to, ttl, one_for_each(idempotency_key))
        return self._put(queue, bodies, options, conn)

    # --- out ----------------------------------------------------------------------------------------------------------

    def claim(
        self, *queues: str, n: int = 1, lease: Duration | None = None, wait: Duration = 0, ack: Claims = ()
    ) -> list[Claim]:
        """Takes up to `n` messages, looking at the queues in the order given. Waits up to `wait` for the first one.

        `ack` settles earlier claims on the same trip to the database, which saves a commit per round; if one of them
        was lost, `LeaseLost` is raised and what was claimed is handed back.
        """
        if not queues:
            raise InvalidInput('claim() needs the name of a queue: hf.claim("emails", n=10)')
        checked_count(n)
        patience = seconds(wait, "wait")
        term = None if lease is None else checked_term(lease, "lease")
        finished = as_list(ack)
        channels = self._book.channels(queues)
        request = ClaimRequest(channels, n, self.worker, term, endings.acked(finished), self._is_turn_of_the_alone())
        self._sweep_now_and_then(channels)
        self._escalate_now_and_then()
        claims = self._claim_once(request, finished)
        request.ack = ()
        if not claims and self._take_back_what_is_due(channels):
            claims = self._claim_once(request)
        if claims or not patience:
            return claims
        return self._claim_patiently(request, patience)

    def ack(self, claims: Claims, result: Any = None, *, conn: Any = None) -> None:
        """Ends claims: the work is done. A `result` is kept for `status` and for whoever enqueues the same again.

        With `conn` the ack is part of your transaction: what the work has written there and its ack happen together.
        """
        held = as_list(claims)
        settlements = endings.acked(held, result)
        if conn is None:
            self._settle(held, settlements)
        elif held:
            applied = self.store.join(driver_connection(conn)).settle(settlements)
            endings.refuse([claim for claim, ended in zip(held, applied, strict=True) if not ended])

    def nack(
        self,
        claims: Claims,
        error: str | BaseException = "",
        *,
        delay: Duration | None = None,
        permanent: bool = False,
    ) -> None:
        """Ends claims: the work failed. They come back after the backoff, or die when the attempts are used up."""
        held = as_list(claims)
        self._settle(held, endings.nacked(held, error, delay, permanent))

    def release(self, claims: Claims) -> None:
        """Ends claims as if they had never been: claimable at once, no attempt spent."""
        held = as_list(claims)
        self._settle(held, endings.released(held))

    def snooze(self, claims: Claims, delay: Duration) -> None:
        """Ends claims for now: claimable again after `delay`, no attempt spent."""
        held = as_list(claims)
        self._settle(held, endings.snoozed(held, delay))

    def dead_letter(self, claims: Claims, error: str | BaseException) -> None:
        """Ends claims for good: dead letters, whatever attempts were left."""
        self.nack(claims, error, permanent=True)

    def extend(self, claims: Claims, duration: Duration | None = None) -> None:
        """Renews leases for `duration` from now; a run of messages shares one lease, so all of it is renewed."""
        held = as_list(claims)
        if held:
            term = max(claim.channel.spec.lease for claim in held) if duration is None else duration
            ends = self.store.messages.extend(endings.acked(held), checked_term(term, "duration"))
            endings.refuse(endings.renew(held, ends))

    # --- operating ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes every connection. The client may be used again; it then reopens them."""
        self._bells.close()
        self.store.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def worker(self) -> str:
        """Who claims: the name given, or host, process and a random part, new after every start and fork."""
        if self.settings.worker:
            return self.settings.worker
        if self._worker[0] != os.getpid():
            self._worker = (os.getpid(), f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}")
        return self._worker[1]

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _put(self, queue: str, bodies: Iterable[Any], options: Options, conn: Any) -> list[Receipt]:
        bodies = listed(bodies) if not self._book.knows(queue) else bodies
        trial = partial(self._draft, bodies=bodies, options=options)
        if conn is None:
            new = trial(self._book.channel(queue, trial))
            return receipts(new, self._inserts.call(new)) if new else []
        joined = self.store.join(driver_connection(conn))
        new = trial(self._book.channel_within(joined, queue, trial))
        return receipts(new, joined.insert(new)) if new else []

    def _draft(self, channel: Channel, bodies: Iterable[Any], options: Options) -> list[NewMessage]:
        new = draft(channel, bodies, *options)
        self._types.check(channel.name, new)
        return new

    def _claim_once(self, request: ClaimRequest, finished: Sequence[Claim] = ()) -> list[Claim]:
        """One look; what comes back is still wanted. Messages that outlived their time end here, and do not count."""
        while True:
            claims = self._grasp(request, finished)
            over = [claim for claim in claims if _is_over(claim, request)]
            if not over:
                return claims
            self._settlements.call(endings.expired(over))
            if len(over) < len(claims):
                return [claim for claim in claims if not _is_over(claim, request)]
            request.ack, finished = (), ()
            self._sweep(request.channels)

    def _grasp(self, request: ClaimRequest, finished: Sequence[Claim]) -> list[Claim]:
        claimed = self.store.messages.claim(request)
        by_group = {channel.group: channel for channel in request.channels}
        claims = [
            Claim(grant.message, grant.attempt, grant.lease, grant.member, by_group[grant.lease.group], self)
            for grant in claimed.grants
        ]
        self._types.dress(claims)
        lost = endings.note(finished, request.ack, claimed.acked)
        if lost and claims:
            self.release(claims)
        endings.refuse(lost)
        return claims

    def _claim_patiently(self, request: ClaimRequest, patience: float) -> list[Claim]:
        """Sleeps until something is due, someone rings, or the time is over."""
        deadline = time.monotonic() + patience
        numbers = [channel.id for channel in request.channels]
        with self._bells.borrowed() as bell:
            while True:
                claims = self._claim_once(request)
                self._sweep([one for one in request.channels if self._presence.is_due(one.id)])
                left = deadline - time.monotonic()
                if claims or left <= 0:
                    return claims
                due = self.store.reads.next_due(request.channels)
                if due is not None and due <= 0:
                    self._sweep(request.channels)
                bell.wait(numbers, min(left, LONGEST_NAP, LONGEST_NAP if due is None else max(due, SHORTEST_NAP)))

    def _is_turn_of_the_alone(self) -> bool:
        return next(self._claims) % ALONE_EVERY == 0

    def _take_back_what_is_due(self, channels: Sequence[Channel]) -> bool:
        """Nothing to claim, but a lease may have just run out: whether it is worth another look."""
        due = self.store.reads.next_due(channels)
        if due is None or due > 0:
            return False
        self._sweep(channels)
        return True

    def _sweep_now_and_then(self, channels: Sequence[Channel]) -> None:
        moment = time.monotonic()
        due = [channel for channel in channels if moment >= self._swept.get(channel.id, 0.0)]
        if due:
            self._sweep(due)

    def _sweep(self, channels: Sequence[Channel]) -> None:
        for channel in channels:
            self._swept[channel.id] = time.monotonic() + self.settings.sweep_every
            worker, deadline = self._presence.note(channel.id, self.worker), time.monotonic() + LONGEST_SWEEP
            while self.store.messages.sweep(channel, limits.SWEEP_LIMIT, worker) >= limits.SWEEP_LIMIT:
                worker = None
                if time.monotonic() > deadline:
                    break

    def _settle(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        if settlements:
            endings.refuse(endings.note(claims, settlements, self._settlements.call(settlements)))


def _is_over(claim: Claim, request: ClaimRequest) -> bool:
    """Whether a message's time was over when it was claimed."""
    max_age = claim.channel.spec.max_age
    if max_age is None and claim.message.expires_at is None:
        return False
    return claim.message.outlived(max_age, claim.lease.until - request.term(claim.channel))
