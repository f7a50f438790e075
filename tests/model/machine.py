"""The rules: every step is done by the model and by the stores under test, and all must answer alike.

Hypothesis invents the steps. A *hand* is what one claim returned, as claim numbers; hands are never thrown away, so
old tokens are used all the time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, initialize, invariant, multiple, rule

from holdfast.errors import (
    AlreadyReplayed,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    NotFound,
    QueueFull,
)
from tests.clock import FakeClock
from tests.model.bad_input import BAD_INPUT
from tests.model.databases import Database
from tests.model.model import Model
from tests.model.subject import MANY, Subject
from tests.model.things import Granted
from tests.model.worlds import LONG_AGO, Worlds

PLAIN, FIFO, KEYED, DEAD = QUEUES = ("plain", "fifo", "keyed", "dead")
ORDERINGS = {PLAIN: "unordered", FIFO: "fifo", KEYED: "per_key", DEAD: "unordered"}

BODIES = st.one_of(
    st.integers(0, 9),
    st.sampled_from([None, True, "", "a\0b\n\"'é😀\u2028", 0.1, -0.0, 1e300, 2**64 - 1, {"k": [1, {"": None}]}, [[]]]),
)
KEYS = st.sampled_from([None, "a", "b", "", "é😀 'quoted' %s :key"])
HEADERS = st.sampled_from([None, {}, {"trace": "é\0😀", "n": [1, None]}])
DELAYS = st.sampled_from([0.0, 0.5, 3.0, 20.0])
SPEC = st.fixed_dictionaries(
    {"backoff": st.sampled_from([None, [1, 4], [2]])},
    optional={
        "lease": st.sampled_from([0.5, 5, 10]),
        "max_attempts": st.integers(1, 3),
        "history": st.sampled_from([0, 5, 60]),
        "dead_letter": st.sampled_from([None, DEAD, DEAD, PLAIN, FIFO]),
        "max_age": st.sampled_from([None, None, 4, 30]),
        "on_dead": st.sampled_from(["continue", "block"]),
        "idempotency_window": st.sampled_from([3, 60]),
        "max_depth": st.sampled_from([None, None, None, 1, 3, 6]),
    },
)
TIMES = st.sampled_from([0.000001, 0.5, 1, 3, 5, 11, 61, 4000, -0.5])
PARTS = st.lists(st.integers(0, 4), min_size=1, max_size=4)
SETTLING: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.just(("ack", {})),
    st.just(("release", {})),
    st.tuples(st.just("snooze"), st.fixed_dictionaries({"delay": DELAYS})),
    st.tuples(
        st.just("nack"), st.fixed_dictionaries({"error": st.sampled_from(["", "é😀"])}, optional={"delay": DELAYS})
    ),
    st.tuples(st.just("nack"), st.just({"error": "for good", "permanent": True})),
    st.tuples(st.just("dead_letter"), st.just({"error": "gave up"})),
)

Hand = tuple[int, ...]
How = tuple[str, dict[str, Any]]


class QueueMachine(Worlds):
    hands: Bundle[Hand] = Bundle("hands")
    all_hands: Bundle[Hand] = Bundle("all_hands")
    names: Bundle[str] = Bundle("names")

    def __init__(self, *databases: Database, with_model: bool = True) -> None:
        super().__init__()
        self.clock = FakeClock(LONG_AGO)
        self.subjects = [Subject(database, self.clock) for database in databases]
        self.worlds = [*self.subjects]
        if with_model:
            self.worlds.insert(0, Model(self.clock, databases[0].windows))
        # Where runs end differently, two stores can only be compared when claims leave nothing in a lane.
        self.takes_all = len({database.windows for database in databases}) > 1
        self.granted: list[Granted] = []

    # --- in -----------------------------------------------------------------------------------------------------------

    @initialize(target=names, specs=st.tuples(SPEC, SPEC, SPEC, SPEC), count=st.integers(0, 3))
    def start(self, specs: tuple[dict[str, Any], ...], count: int) -> Any:
        for queue, spec in zip(QUEUES, specs, strict=True):
            self.declare(queue, spec, ORDERINGS[queue])
        return multiple(*(name for queue in QUEUES for name in self.put(queue, [0] * count)))

    @rule(target=names, queue=st.sampled_from(QUEUES), bodies=st.lists(BODIES, min_size=1, max_size=4))
    def enqueue(self, queue: str, bodies: list[Any]) -> Any:
        return multiple(*self.put(queue, bodies))

    @rule(
        target=names,
        queue=st.sampled_from(QUEUES),
        bodies=st.lists(BODIES, max_size=3),
        priority=st.integers(0, 3),
        key=KEYS,
        delay=DELAYS,
        headers=HEADERS,
        correlation_id=KEYS,
        reply_to=KEYS,
        ttl=st.sampled_from([None, None, 1, 4, 25]),
    )
    def enqueue_with_options(self, queue: str, bodies: list[Any], **options: Any) -> Any:
        try:
            return multiple(*self.put(queue, bodies, **options))
        except InvalidInput:
            return multiple()

    @rule(target=names, count=st.integers(2, 3), key=st.sampled_from("ab"))
    def enqueue_same_key(self, count: int, key: str) -> Any:
        return multiple(*self.put(KEYED, [0] * count, key=key))

    @rule(
        target=names,
        queue=st.sampled_from([PLAIN, KEYED]),
        body=st.integers(0, 1),
        key=st.sampled_from("xy"),
        fate=st.sampled_from(["commit", "roll back", "alone"]),
    )
    def enqueue_once(self, queue: str, body: int, key: str, fate: str) -> Any:
        """I16, I17: by itself, or in a transaction of the caller's that may come to nothing."""
        try:
            name, duplicate = self.all_do("enqueue_once", queue, body, key, fate)
        except (IdempotencyConflict, QueueFull):
            return multiple()
        return multiple() if duplicate or name is None else name

    def put(self, queue: str, bodies: Sequence[Any], **options: Any) -> list[str]:
        """The names of new messages; none if the queue is full (I17)."""
        try:
            return self.all_do("enqueue", queue, bodies, **options)  # type: ignore[no-any-return]
        except QueueFull:
            return []

    def declare(self, queue: str, spec: dict[str, Any], ordering: str) -> None:
        spec = {**spec, "ordering": ordering}
        if spec.get("dead_letter") == queue:
            del spec["dead_letter"]
        if self.takes_all:
            spec["max_attempts"] = max(2, spec.get("max_attempts", 2))
        self.all_do("declare", queue, spec)

    # --- out ----------------------------------------------------------------------------------------------------------

    @rule(targets=(hands, all_hands), count=st.integers(1, 4), n=st.integers(1, 5), priority=st.integers(0, 3))
    def enqueue_and_claim(self, count: int, n: int, priority: int) -> Any:
        """What happens most, and the way to a run of several."""
        self.put(PLAIN, [0] * count, priority=priority)
        return self.claim(PLAIN, n)

    @rule(targets=(hands, all_hands), queue=st.sampled_from(QUEUES), n=st.integers(1, 5))
    def claim(self, queue: str, n: int) -> Any:
        return self.take([queue], n)

    @rule(
        targets=(hands, all_hands),
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True),
        n=st.integers(1, 5),
        lease=st.sampled_from([None, 0.000001, 1, 30]),
    )
    def claim_of_several(self, queues: list[str], n: int, lease: float | None) -> Any:
        return self.take(queues, n, lease=lease)

    @rule(
        targets=(hands, all_hands),
        n=st.integers(1, 5),
        done=consumes(hands),
        other=st.sampled_from([None, None, *QUEUES]),
    )
    def claim_and_ack(self, n: int, done: Hand, other: str | None) -> Any:
        """A consumer's turn: what is done goes, and the next come from the same queue."""
        queues = [other] if other else sorted({self.granted[number].queue for number in done})
        try:
            return self.take(queues, n, ack=done)
        except LeaseLost:
            return multiple()

    @rule(target=all_hands, queue=st.sampled_from(QUEUES), n=st.integers(1, 3), how=SETTLING)
    def claim_and_settle(self, queue: str, n: int, how: How) -> Any:
        hand = self.claim(queue, n)
        if isinstance(hand, tuple):
            self.settle(hand, how)
        return hand

    def take(self, queues: Sequence[str], n: int, **options: Any) -> Any:
        """The numbers of new claims, or nothing for the bundle when nothing was there."""
        granted = self.all_do("claim", queues, MANY if self.takes_all else n, **options)
        first = len(self.granted)
        self.granted += granted
        return tuple(range(first, len(self.granted))) if granted else multiple()

    @rule(hand=consumes(hands), how=SETTLING)
    def settle_whole_hand(self, hand: Hand, how: How) -> None:
        self.settle(hand, how)

    @rule(hand=hands, part=PARTS, how=SETTLING)
    def settle_part(self, hand: Hand, part: list[int], how: How) -> None:
        self.settle(sorted({hand[index % len(hand)] for index in part}), how)

    @rule(one=hands, other=all_hands, how=SETTLING)
    def settle_two_hands(self, one: Hand, other: Hand, how: How) -> None:
        self.settle(sorted(one + other), how)

    @rule(hand=all_hands, index=st.integers(0, 4), how=SETTLING)
    def settle_any_of_ever(self, hand: Hand, index: int, how: How) -> None:
        self.settle([hand[index % len(hand)]], how)

    @rule(hand=hands, index=st.integers(0, 4), first=SETTLING, second=st.one_of(st.none(), SETTLING))
    def settle_twice(self, hand: Hand, index: int, first: How, second: How | None) -> None:
        """The first wins, and whatever comes after it has lost."""
        self.settle([hand[index % len(hand)]], first)
        if second is None:
            self.extend(hand, [index], None)
        else:
            self.settle([hand[index % len(hand)]], second)

    def settle(self, claims: Sequence[int], how: How) -> None:
        verb, options = how
        with contextlib.suppress(LeaseLost):
            self.all_do("settle", verb, claims, **options)

    @rule(hand=st.one_of(hands, all_hands), part=PARTS, duration=st.sampled_from([None, 0.000001, 2, 30]))
    def extend(self, hand: Hand, part: list[int], duration: float | None) -> None:
        with contextlib.suppress(LeaseLost):
            self.all_do("extend", sorted({hand[index % len(hand)] for index in part}), duration)

    # --- operating ----------------------------------------------------------------------------------------------------

    @rule(name=names)
    def cancel(self, name: str) -> None:
        self.all_do("cancel", name)

    @rule(queue=st.sampled_from([FIFO, KEYED]), key=KEYS)
    def unblock(self, queue: str, key: str | None) -> None:
        self.all_do("unblock", queue, key)

    @rule(target=names, choice=st.integers(0, 9))
    def replay_a_dead_letter(self, choice: int) -> Any:
        dead = self.all_do("dead_letters", None)
        return self.replay(dead[choice % len(dead)].message.name) if dead else multiple()

    @rule(target=names, name=names)
    def replay(self, name: str) -> Any:
        try:
            return self.all_do("replay", name)
        except (AlreadyReplayed, NotFound):
            return multiple()

    @rule(seconds=TIMES)
    def advance_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(hand=hands)
    def sleep_to_the_end_of_a_lease(self, hand: Hand) -> None:
        self.clock.now = max(self.clock.now, self.granted[hand[-1]].until)

    @rule(queue=st.sampled_from(QUEUES), spec=SPEC, other=st.sampled_from([None, *ORDERINGS.values()]))
    def redeclare(self, queue: str, spec: dict[str, Any], other: str | None) -> None:
        self.declare(queue, spec, other or ORDERINGS[queue])

    @rule(how=st.sampled_from(["close", "crash", "go on"]))
    def reopen(self, how: str) -> None:
        self.all_do("reopen", how)

    @rule(
        what=st.sampled_from(["sweep", "purge", "look", "bad input"]),
        queue=st.sampled_from(QUEUES),
        n=st.integers(1, 3),
        bad=st.sampled_from(sorted(bad for bad in BAD_INPUT if not bad.startswith("publish"))),  # no topic is here
    )
    def operate(self, what: str, queue: str, n: int, bad: str) -> None:
        """One rule for all that should happen now and then only: each rule gets as many turns as any other."""
        if what == "look":
            self.look_at_a_part(queue, n)
        elif what == "bad input":
            self.bad_input(bad)
        else:
            self.all_do(what, queue)

    def look_at_a_part(self, queue: str, n: int) -> None:
        for subject in self.subjects:
            subject.pages(queue, n)
        assert self.all_do("peek", queue, n) == self.all_do("peek", queue, MANY)[:n]
        everything = self.all_do("dead_letters", None)
        assert self.all_do("dead_letters", queue) == [dead for dead in everything if dead.queue == queue]

    def bad_input(self, bad: str) -> None:
        errors = {subject.refuses(BAD_INPUT[bad]) for subject in self.subjects}
        assert len(errors) == 1, f"I25: {bad} is refused with {errors}"

    # --- after every step ---------------------------------------------------------------------------------------------

    @invariant()
    def all_see_the_same(self) -> None:
        for queue in self.all_do("queues"):
            self.all_do("stats", queue)
            self.all_do("peek", queue, MANY)
        self.all_do("dead_letters", None)
        for queue in self.all_do("queues"):
            self.all_do("blocked", queue)
        for name in list(self.subjects[0].names.values()):
            self.all_do("status", name)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None and self.subjects[0].queues():
                self.everything_comes_to_an_end()
        finally:
            for subject in self.subjects:
                subject.close()

    def everything_comes_to_an_end(self) -> None:
        """I1, I9: whatever happened, all that is left can be claimed and acked, and then leaves no trace."""
        for _ in range(MANY):
            self.clock.advance(100)
            for queue in QUEUES:
                for key, *_ in self.all_do("blocked", queue):
                    self.all_do("unblock", queue, key)
            hand = self.take(QUEUES, MANY)
            if isinstance(hand, tuple):
                self.all_do("settle", "ack", hand)
            elif not any(self.all_do("blocked", queue) for queue in QUEUES):  # A lease may have just ended in a death.
                break
        self.all_see_the_same()
        self.clock.advance(4000)
        for queue in QUEUES:
            left = self.all_do("stats", queue)
            assert (left.pending, left.waiting, left.processing) == (0, 0, 0), f"I9: nobody can claim {left}"
            self.all_do("sweep", queue)
        for subject in self.subjects:
            tables = subject.database.tables()
            left = {name: tables[f"holdfast_{name}"] for name in ("message", "run", "row")}
            assert not any(left.values()), f"I15: history is over, and something is still stored: {left}"
            assert [subject.kept(queue) for queue in QUEUES] == [0] * len(QUEUES), "what is kept was miscounted"
