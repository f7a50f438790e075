"""A real store behind the model's words: the same verbs, names instead of ids, numbers instead of claims.

What must hold whatever the model says is asserted here, by its id in reference/reliability.md, section 3.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast import Holdfast
from holdfast.client.claim import Claim
from holdfast.client.client import internals
from holdfast.core.dead_letter import DeadLetterRecord
from holdfast.core.duration import micros
from holdfast.core.lifecycle import WAITING, State
from holdfast.core.message import Message, MessageStatus, encode_json, id_text
from holdfast.errors import HoldfastError, LeaseLost
from tests.clock import FakeClock
from tests.model.databases import Database, Tables
from tests.model.mistakes import Bad
from tests.model.things import WORKER, Buried, Granted, Seen
from tests.steps import Counts, counts

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MANY = 1_000
LONGEST_TEXT = 500


class Subject:
    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database = database
        self.clock = clock
        self.claims: list[Claim] = []
        self.names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._dead_ids: dict[str, str] = {}
        self._created = 0
        self._tokens: set[int] = set()
        self._abandoned: list[Holdfast] = []
        self.client = self._open()

    # --- the model's verbs --------------------------------------------------------------------------------------------

    def declare(self, queue: str, settings: dict[str, Any]) -> None:
        with no_process_clock():
            self.client.queue(queue, **settings)

    def enqueue(self, queue: str, bodies: Sequence[Any], **options: Any) -> list[str]:
        with no_process_clock():
            if len(bodies) == 1:
                receipts = [self.client.enqueue(queue, bodies[0], **options)]
            else:
                receipts = self.client.enqueue_many(queue, bodies, **options)
        return [self._new_name(receipt.id) for receipt in receipts]

    def enqueue_once(self, queue: str, body: Any, key: str, fate: str) -> tuple[str | None, bool]:
        """I17: what is rolled back leaves no trace."""
        before = self.database.tables()
        with no_process_clock(), contextlib.ExitStack() as closing:
            conn = None if fate == "alone" else closing.enter_context(self.database.transaction(fate == "commit"))
            receipt = self.client.enqueue(queue, body, idempotency_key=key, conn=conn)
        if fate == "roll back":
            self._assert_unchanged(before, "I17: a rolled back transaction left something")
        if receipt.duplicate:
            return self.names[receipt.id], True
        return (None if fate == "roll back" else self._new_name(receipt.id)), False

    def claim(
        self, queues: Sequence[str], n: int, lease: float | None = None, ack: Sequence[int] = ()
    ) -> list[Granted]:
        with no_process_clock():
            claims = self.client.claim(*queues, n=n, lease=lease, ack=[self.claims[number] for number in ack])
        granted = [self._granted(claim) for claim in claims]
        assert len(claims) <= n, "I8: more than was asked for"
        assert len({claim.message.id for claim in claims}) == len(claims), "I8: the same message twice"
        assert all(claim.lease.until_us > self.clock() for claim in claims), "I3: a lease that was born expired"
        assert self._tokens.isdisjoint(claim.lease.token for claim in claims), "I4: a token was given out twice"
        self._tokens |= {claim.lease.token for claim in claims}
        self.claims += claims
        return granted

    def settle(self, verb: str, claims: Sequence[int], **options: Any) -> None:
        with self._nothing_changes_if_lost(claims):
            getattr(self.client, verb)([self.claims[number] for number in claims], **options)

    def extend(self, claims: Sequence[int], duration: float | None = None) -> None:
        held = [self.claims[number] for number in claims]
        with self._nothing_changes_if_lost(claims):
            self.client.extend(held, duration)
        term = max(claim.channel.spec.lease for claim in held) if duration is None else duration
        assert {claim.lease.until_us for claim in held} == {self.clock() + micros(term)}

    def cancel(self, name: str) -> bool:
        with no_process_clock():
            return self.client.cancel(self._ids[name])

    def replay(self, name: str) -> str:
        # A message that never died has no dead letter: its own id is as wrong as any.
        dead_id = self._dead_ids.get(name, self._ids[name])
        with no_process_clock():
            receipt = self.client.dead_letters.replay(dead_id)
        return self._new_name(receipt.id)

    def unblock(self, queue: str, key: str | None) -> bool:
        with no_process_clock():
            return self.client.queues.unblock(queue, key)

    def blocked(self, queue: str) -> list[tuple[str | None, str, int, int]]:
        found = self.client.queues.blocked(queue)
        self.dead_letters(None)  # All of them have names after this.
        names = {dead_id: name for name, dead_id in self._dead_ids.items()}
        return [(one.key, names[one.dead_id], one.blocked_at_us, one.waiting) for one in found]

    def purge(self, queue: str) -> int:
        with no_process_clock():
            return self.client.queues.purge(queue)

    def sweep(self, queue: str) -> None:
        """I15: a second sweep finds nothing to do and does nothing."""
        with no_process_clock():
            self.client.queues.sweep(queue)
            before = self.database.tables()
            assert self.client.queues.sweep(queue) == 0, "I15: a second sweep found something"
        self._assert_unchanged(before, "I15: a second sweep changed something")

    def reopen(self, how: str) -> None:
        """I18: whether it closes, crashes or goes on after a close, everything committed is there again."""
        if how == "crash":
            self._abandoned.append(self.client)
            self.database.crash()
            self.client = self._open()
        else:
            self.client.close()
            if how == "close":
                self.client = self._open()

    def queues(self) -> list[str]:
        return self.client.queues.list()

    def status(self, name: str) -> MessageStatus | None:
        with no_process_clock():
            found = self.client.status(self._ids[name])
        return found and MessageStatus(
            self.names[found.id],
            found.queue,
            found.state,
            found.attempts,
            found.enqueued_at_us,
            found.due_at_us,
            claimed_at_us=found.claimed_at_us if found.state in (*WAITING, State.PROCESSING) else None,
        )

    def stats(self, queue: str) -> Counts:
        with no_process_clock():
            return counts(self.client, queue)

    def peek(self, queue: str, n: int) -> list[Seen]:
        with no_process_clock():
            return [self._seen(message) for message in self.client.queues.peek(queue, n)]

    def dead_letters(self, queue: str | None) -> list[Buried]:
        with no_process_clock():
            found = self.client.dead_letters.list(queue, n=MANY)
        return [self._buried(dead) for dead in found]

    # --- what the model has no word for -------------------------------------------------------------------------------

    def refuses(self, bad: Bad, given: Any = None) -> str:
        """I23: bad input gets an error of ours that helps, and changes nothing; the kind of error."""
        before = self.database.tables()
        try:
            with no_process_clock():
                answer = bad.call(self.client if given is None else given)
        except HoldfastError as error:
            self._assert_unchanged(before, f"I23: refused ({error}), and yet something changed")
            assert_helps(error, bad)
            return type(error).__name__
        raise AssertionError(f"I23: bad input was accepted: {answer!r}")

    def pages(self, queue: str, n: int) -> None:
        """I22: looking changes nothing, and page after page shows each once."""
        before = self.database.tables()
        everything, page = [], self.client.dead_letters.list(queue, n=n)
        while page:
            everything += page
            page = self.client.dead_letters.list(queue, n=n, after=page[-1].id)
        assert [dead.id for dead in everything] == [dead.id for dead in self.client.dead_letters.list(queue, n=MANY)]
        self.client.queues.peek(queue, n)
        self.client.stats(queue)
        self._assert_unchanged(before, "I22: looking changed something")

    def kept(self, queue: str) -> int:
        """How many finished messages the store thinks it keeps."""
        group = internals(self.client).catalog.channel(queue).group
        found = internals(self.client).store.database.read(lambda tx: tx.one("tally.kept", group=group))  # type: ignore[attr-defined]
        return int(found[0])

    def close(self) -> None:
        for client in [*self._abandoned, self.client]:
            client.close()
        self.database.close()

    # --- below --------------------------------------------------------------------------------------------------------

    def _open(self) -> Holdfast:
        return Holdfast(self.database.url, worker=WORKER, clock=self.clock, sweep_every=0)

    @contextmanager
    def _nothing_changes_if_lost(self, claims: Sequence[int]) -> Iterator[None]:
        """I5: a stale token changes no row. (Of several claims some may hold, so those are left to the model.)"""
        before = self.database.tables() if len(claims) == 1 else None
        try:
            with no_process_clock():
                yield
        except LeaseLost:
            if before is not None:
                self._assert_unchanged(before, "I5: a lost lease changed something")
            raise

    def _assert_unchanged(self, before: Tables, complaint: str) -> None:
        after = self.database.tables()
        changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
        assert not changed, f"{complaint}: {changed}"

    def _new_name(self, message_id: str) -> str:
        assert not self._ids or message_id > max(self.names), "I12: an id that is not above all before it"
        self._created += 1
        return self._know(message_id, f"m{self._created}")

    def _know(self, message_id: str, name: str) -> str:
        self.names[message_id] = name
        self._ids[name] = message_id
        return name

    def _name(self, message: Message) -> str:
        """Only the envelopes of dead letters are messages that nobody told us of; they name the one they are about."""
        if message.id not in self.names:
            about = self.names[message.body["original_message"]["id"]]
            self._know(message.id, f"envelope({about})")
        return self.names[message.id]

    def _seen(self, message: Message) -> Seen:
        raw = message.raw_body
        assert encode_json(message.body) == raw, "I19: a body does not come back as it was"
        assert message.id == id_text(message.raw_id)
        body = ID.sub(lambda found: self.names.get(found[0], found[0]), raw.decode())
        headers = encode_json(message.headers).decode()
        return Seen(
            self._name(message),
            message.priority,
            body,
            headers,
            message.key,
            message.correlation_id,
            message.reply_to,
            message.expires_at_us,
            message.enqueued_at_us,
        )

    def _granted(self, claim: Claim) -> Granted:
        return Granted(claim.queue, self._seen(claim.message), claim.attempt, claim.lease.until_us, claim.lease.size)

    def _buried(self, dead: DeadLetterRecord) -> Buried:
        message = self._seen(dead.message)
        self._dead_ids[message.name] = dead.id
        replayed_as = dead.replayed_as and self.names[dead.replayed_as]
        return Buried(
            dead.queue,
            message,
            dead.error,
            dead.attempts,
            dead.failed_at_us,
            dead.history,
            replayed_as,
            dead.replay_state,
        )


def assert_helps(error: HoldfastError, bad: Bad) -> None:
    """I23: the right kind of error, whose text says what is wrong or allowed, at a length that someone reads."""
    assert type(error) is bad.error, f"I23: the wrong kind of error: {error!r}"
    assert re.search(bad.says, str(error)), f"I23: {str(error)!r} does not say {bad.says!r}"
    assert len(str(error)) < LONGEST_TEXT, f"I23: nobody reads {len(str(error))} letters"


@contextmanager
def no_process_clock() -> Iterator[None]:
    """I24: nothing may ask the computer what time it is. (Monotonic time is for waiting, and allowed.)"""
    real = time.time

    def forbidden() -> float:
        raise AssertionError("I24: the process clock was read")

    time.time = forbidden
    try:
        yield
    finally:
        time.time = real
