"""The rules for topics: every step is done by the model and by a store, and both must answer alike.

I13: what a group gets is what the model says, and at the end it has got all that it is owed. I14: after every step all
groups are looked at, and in the model none of them knows of the others.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, initialize, invariant, multiple, precondition, rule

from holdfast.errors import AlreadyReplayed, CursorOutOfRange, LeaseLost, NotFound
from tests.clock import FakeClock
from tests.model.databases import Database
from tests.model.group_model import Start
from tests.model.machine import PARTS, SETTLING, Hand, How
from tests.model.subject import MANY
from tests.model.things import Granted
from tests.model.topic_model import TopicModel
from tests.model.topic_subject import TopicSubject
from tests.model.worlds import LONG_AGO, Worlds

ORDERINGS = {"a": "unordered", "b": "unordered", "c": "unordered", "keys": "per_key", "line": "fifo"}
GROUPS = st.sampled_from(sorted(ORDERINGS))
NAMES = st.sampled_from(["t", "t.x", "t.y", "t.x.y", "t.x.y.z"])
PATTERNS = st.sampled_from([("t.**",), ("t.**",), ("t.*",), ("t.x.**",), ("t.*.y", "t.y"), ("t",), ("t.z",)])
KEYS = st.sampled_from([None, "k", "l"])
PRIORITY = st.sampled_from([2, 2, 2, 1])
TIMES = st.sampled_from([0.000001, 0.5, 1, 3, 11, 40])
SPEC = st.fixed_dictionaries(
    {"backoff": st.sampled_from([[1, 4], [2]]), "max_attempts": st.integers(1, 3)},
    optional={"lease": st.sampled_from([0.5, 5.0, 10.0]), "timeout": st.just(60.0), "on_dead": st.just("block")},
)
TOPIC_SPEC = st.fixed_dictionaries(
    {"retention": st.sampled_from([30.0, 100.0, 86_400.0]), "min_retention": st.sampled_from([0.0, 0.0, 5.0, None])}
)

OF_ONE_GROUP = {
    *("claim", "pause", "seek", "skip", "purge", "replay", "unblock", "sweep", "beat", "accept_loss"),
    *("subscribe", "unsubscribe"),
}


class TopicMachine(Worlds):
    hands: Bundle[Hand] = Bundle("hands")
    all_hands: Bundle[Hand] = Bundle("all_hands")
    names: Bundle[str] = Bundle("names")

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.clock = FakeClock(LONG_AGO)
        self.model = TopicModel(self.clock, database.windows)
        self.subject = TopicSubject(database, self.clock)
        self.worlds = [self.model, self.subject]
        self.granted: list[Granted] = []

    def all_do(self, verb: str, *args: Any, **options: Any) -> Any:
        """I14: and what is done to one group changes nothing of another."""
        group = self._whose(verb, *args)
        before = self.subject.others(group) if group else None
        answer = super().all_do(verb, *args, **options)
        if group:
            assert self.subject.others(group) == before, f"I14: {verb}{args} changed another group"
        return answer

    def _whose(self, verb: str, *args: Any) -> str | None:
        if verb in ("settle", "extend"):
            claims = args[-1] if verb == "settle" else args[0]
            return self.granted[claims[0]].queue.partition("/")[2]
        return str(args[0]) if verb in OF_ONE_GROUP else None

    @property
    def live(self) -> list[str]:
        return sorted(self.model.live)

    def one_of_the_live(self, choice: int) -> str | None:
        return self.live[choice % len(self.live)] if self.live else None

    # --- in -----------------------------------------------------------------------------------------------------------

    @initialize(target=names, topic=TOPIC_SPEC, first=st.tuples(SPEC, SPEC, SPEC), patterns=PATTERNS)
    def start(self, topic: dict[str, Any], first: tuple[dict[str, Any], ...], patterns: tuple[str, ...]) -> Any:
        self.all_do("topic", topic)
        before = self.all_do("publish", "t.x", [0, 1], 2, None)
        for group, spec, start in zip(("a", "b", "keys"), first, ("latest", "earliest", "earliest"), strict=True):
            self.put_in(group, patterns if group == "b" else ("t.**",), (start, None), spec)
        return multiple(*before)

    @rule(target=names, topic=NAMES, count=st.integers(1, 4), priority=PRIORITY, key=KEYS)
    def publish(self, topic: str, count: int, priority: int, key: str | None) -> Any:
        return multiple(*self.all_do("publish", topic, list(range(count)), priority, key))

    @rule(target=names, keys=st.lists(KEYS, min_size=2, max_size=4))
    def publish_with_keys(self, keys: list[str | None]) -> Any:
        return multiple(*(name for key in keys for name in self.all_do("publish", "t.x", [key], 2, key)))

    @rule(group=GROUPS, patterns=PATTERNS, kind=st.sampled_from(["latest", "earliest"]), spec=SPEC)
    def subscribe(self, group: str, patterns: tuple[str, ...], kind: str, spec: dict[str, Any]) -> None:
        self.put_in(group, patterns, (kind, None), spec)

    @rule(group=GROUPS, patterns=PATTERNS, spec=SPEC, kind=st.sampled_from(["time", "id"]), name=names)
    def subscribe_elsewhere(
        self, group: str, patterns: tuple[str, ...], spec: dict[str, Any], kind: str, name: str
    ) -> None:
        with contextlib.suppress(NotFound):
            self.put_in(group, patterns, self.place(kind, name), spec)

    def put_in(self, group: str, patterns: tuple[str, ...], start: Start, spec: dict[str, Any]) -> None:
        self.all_do("subscribe", group, patterns, start, {**spec, "ordering": ORDERINGS[group]})

    def place(self, kind: str, name: str) -> Start:
        """At a message, or at the time when it was published (or now, if it is gone)."""
        entry = self.model.log.find(name)
        if kind == "time":
            return kind, entry.seen.enqueued_at if entry else self.clock()
        return kind, name if kind == "id" else None

    @rule(group=GROUPS)
    def unsubscribe(self, group: str) -> None:
        self.all_do("unsubscribe", group)

    # --- out ----------------------------------------------------------------------------------------------------------

    @rule(targets=(hands, all_hands), choice=st.integers(0, 4), n=st.sampled_from([1, 2, 3, 5, 9]))
    def claim(self, choice: int, n: int) -> Any:
        return self.take(self.one_of_the_live(choice), n)

    @rule(targets=(hands, all_hands), topic=NAMES, count=st.integers(1, 3), choice=st.integers(0, 4))
    def publish_and_claim(self, topic: str, count: int, choice: int) -> Any:
        """What happens most."""
        self.all_do("publish", topic, [0] * count, 2, None)
        return self.take(self.one_of_the_live(choice), 5, lease=2)

    @rule(target=all_hands, choice=st.integers(0, 4), n=st.integers(1, 3), how=SETTLING)
    def claim_and_settle(self, choice: int, n: int, how: How) -> Any:
        hand = self.take(self.one_of_the_live(choice), n)
        if isinstance(hand, tuple):
            self.settle(hand, how)
        return hand

    def take(self, group: str | None, n: int, lease: float | None = None) -> Any:
        """The numbers of new claims, or nothing for the bundle when nothing was there."""
        if group is None:
            return multiple()
        try:
            granted = self.all_do("claim", group, n, lease)
        except CursorOutOfRange:
            return multiple()
        first = len(self.granted)
        self.granted += granted
        return tuple(range(first, len(self.granted))) if granted else multiple()

    @rule(hand=consumes(hands), how=SETTLING)
    def settle_whole_hand(self, hand: Hand, how: How) -> None:
        self.settle(hand, how)

    @rule(hand=hands, part=PARTS, how=SETTLING)
    def settle_part(self, hand: Hand, part: list[int], how: How) -> None:
        self.settle(sorted({hand[index % len(hand)] for index in part}), how)

    @rule(hand=all_hands, index=st.integers(0, 4), how=SETTLING)
    def settle_any_of_ever(self, hand: Hand, index: int, how: How) -> None:
        self.settle([hand[index % len(hand)]], how)

    def settle(self, claims: Sequence[int], how: How) -> None:
        verb, options = how
        with contextlib.suppress(LeaseLost):
            self.all_do("settle", verb, claims, **options)

    @rule(hand=st.one_of(hands, all_hands), part=PARTS, duration=st.sampled_from([None, 2, 30]))
    def extend(self, hand: Hand, part: list[int], duration: float | None) -> None:
        with contextlib.suppress(LeaseLost):
            self.all_do("extend", sorted({hand[index % len(hand)] for index in part}), duration)

    # --- operating ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 4), kind=st.sampled_from(["latest", "earliest", "earliest", "time", "id"]), name=names)
    def seek(self, choice: int, kind: str, name: str) -> None:
        with contextlib.suppress(NotFound):
            self.all_do("seek", self.one_of_the_live(choice), self.place(kind, name))

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 4), name=names)
    def skip(self, choice: int, name: str) -> None:
        self.all_do("skip", self.one_of_the_live(choice), name)

    @precondition(lambda self: self.live)
    @rule(target=names, choice=st.integers(0, 4), which=st.integers(0, 9))
    def replay_a_dead_letter(self, choice: int, which: int) -> Any:
        group = self.one_of_the_live(choice)
        dead = self.all_do("dead_letters", group)
        if not dead:
            return multiple()
        try:
            return self.all_do("replay", group, which % len(dead))
        except AlreadyReplayed:
            return multiple()

    @precondition(lambda self: self.live)
    @rule(
        what=st.sampled_from(["pause", "resume", "purge", "sweep", "beat", "accept_loss", "accept_loss", "unblock"]),
        choice=st.integers(0, 4),
        key=KEYS,
    )
    def operate(self, what: str, choice: int, key: str | None) -> None:
        """One rule for all that should happen now and then only: each rule gets as many turns as any other."""
        group = self.one_of_the_live(choice)
        if what in ("pause", "resume"):
            self.all_do("pause", group, what == "pause")
        elif what == "unblock":
            self.all_do("unblock", group, key)
        else:
            with contextlib.suppress(CursorOutOfRange):
                self.all_do(what, group)

    @rule(target=names, count=st.integers(0, 2), beating=st.sets(GROUPS, max_size=3), retains=st.booleans())
    def much_time_passes_in_silence(self, count: int, beating: set[str], retains: bool) -> Any:
        """Whoever has a timeout, and does not beat, dies, and may lose something."""
        names = self.all_do("publish", "t.x", list(range(count)), 2, None)
        for wait in (100, 12, 12):
            self.clock.advance(wait)
            for group in beating.intersection(self.live):
                with contextlib.suppress(CursorOutOfRange):
                    self.all_do("beat", group)
            self.all_do("watch")
        if retains:
            self.retain()
        return multiple(*names)

    @rule()
    def retain(self) -> None:
        self.model.removed(self.subject.retain())

    @rule(targets=(hands, all_hands), choice=st.integers(0, 4), n=st.integers(1, 5), seconds=st.sampled_from([6, 101]))
    def retain_while_someone_works(self, choice: int, n: int, seconds: int) -> Any:
        """What is held must stay, however old it is, and whether or not its lease is over."""
        hand = self.take(self.one_of_the_live(choice), n)
        self.clock.advance(seconds)
        self.retain()
        return hand

    @rule(seconds=TIMES)
    def advance_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(topic=TOPIC_SPEC, how=st.sampled_from(["close", "crash", "redeclare"]))
    def redeclare_or_reopen(self, topic: dict[str, Any], how: str) -> None:
        if how == "redeclare":
            self.all_do("topic", topic)
        else:
            self.all_do("reopen", how)

    # --- after every step ---------------------------------------------------------------------------------------------

    @invariant()
    def all_see_the_same(self) -> None:
        if not self.subject.names:
            return
        self.all_do("groups")
        self.all_do("dead_letters_by_group")
        for group in self.live:
            self.all_do("stats", group)
            self.all_do("peek", group, MANY)
            self.all_do("blocked", group)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None and self.subject.names:
                self.everyone_gets_all_that_is_owed()
        finally:
            self.subject.close()

    def everyone_gets_all_that_is_owed(self) -> None:
        """I13: whatever happened, each group can claim and ack all that is left for it; then nothing is kept."""
        for group in self.live:
            self.all_do("pause", group, False)
            self.all_do("accept_loss", group)
            for _ in range(MANY):
                self.clock.advance(100)
                for key, *_ in self.all_do("blocked", group):
                    self.all_do("unblock", group, key)
                hand = self.take(group, MANY)
                if isinstance(hand, tuple):
                    self.all_do("settle", "ack", hand)
                elif not self.all_do("blocked", group):  # A lease may have just ended in a death.
                    break
            left = self.all_do("stats", group)
            assert (left.pending, left.waiting, left.processing) == (0, 0, 0), f"I13: nobody can claim {left}"
        self.all_see_the_same()
        self.clock.advance(100_000)
        self.retain()
        tables = self.subject.database.tables()
        kept = {name: tables[f"holdfast_{name}"] for name in ("message", "run", "row")}
        assert not any(kept.values()), f"I15: everything is over, and something is still stored: {kept}"
