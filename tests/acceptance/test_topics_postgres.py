"""P1, P2, P3 on PostgreSQL: whatever order transactions commit in, every group gets each message once, and soon."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from zlib import crc32

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.long import size
from tests.waiting import eventually, spend

WRITERS, TRANSACTIONS, GROUPS, MEMBERS = 6, 25, 4, 2
IDLE = size(3.0, 6.0, "HOLDFAST_IDLE_SECONDS")
PATTERNS = [None, "t.*", ["t.even"], ["t.odd", "t.never"]]


class Undone(Exception):
    """Raised to roll back."""


def write(url: str, writer: int) -> list[tuple[str, str]]:
    """Transactions that take their time, some of which come to nothing; what was committed."""
    chance, committed = random.Random(writer), []
    with Holdfast(url) as hf, psycopg.connect(url) as conn:
        for number in range(TRANSACTIONS):
            wishes = [
                (f"t.{chance.choice(['even', 'odd'])}", f"{writer}-{number}-{n}") for n in range(chance.randint(1, 4))
            ]
            try:
                with conn.transaction():
                    for name, body in wishes:
                        hf.publish(name, body, priority=chance.choice(["normal", "low"]), conn=conn)
                        spend(chance.random() * 0.02)
                    if chance.random() < 0.3:
                        raise Undone
            except Undone:
                continue
            committed += wishes
    return committed


def read(url: str, group: str, is_over: threading.Event) -> list[str]:
    """A member that claims, acks most, and lets some come back."""
    found = []
    with Holdfast(url) as hf:
        finished = []
        while True:
            last_look = is_over.is_set()
            claims = hf.claim("t", group=group, n=5, wait=0.2, ack=finished)
            failed = [claim for claim in claims if claim.attempt == 1 and crc32(claim.message.body.encode()) % 11 == 0]
            hf.nack(failed, "again", delay=0)
            finished = [claim for claim in claims if claim not in failed]
            found += [claim.message.body for claim in finished]
            if last_look and not claims and not hf.stats(f"t/{group}").waiting:
                return found


@pytest.fixture
def groups(postgres_url: str) -> list[str]:
    with Holdfast(postgres_url) as hf:
        hf.topic("t", min_retention=0)
        for number, patterns in enumerate(PATTERNS):
            hf.subscribe("t", f"g{number}", patterns=patterns, max_attempts=9)
    return [f"g{number}" for number in range(GROUPS)]


def test_every_group_gets_every_committed_message_once(postgres_url: str, groups: list[str]) -> None:
    """P1, P2: no gap and no double, though transactions commit in another order than they began."""
    is_over = threading.Event()
    with ThreadPoolExecutor(WRITERS + GROUPS * MEMBERS) as pool:
        members = {group: [pool.submit(read, postgres_url, group, is_over) for _ in range(MEMBERS)] for group in groups}
        writers = [pool.submit(write, postgres_url, writer) for writer in range(WRITERS)]
        committed = [one for writer in writers for one in writer.result(timeout=120)]
        is_over.set()
        seen = {group: Counter(body for one in found for body in one.result(120)) for group, found in members.items()}
    assert len(committed) > 100
    names = {"g0": {"t.even", "t.odd"}, "g1": {"t.even", "t.odd"}, "g2": {"t.even"}, "g3": {"t.odd"}}
    for group in groups:
        assert seen[group] == Counter(body for name, body in committed if name in names[group])


def test_a_transaction_that_stays_open_delays_nobody(postgres_url: str, groups: list[str]) -> None:
    """P3: neither one that only looks on, nor one that has published and does not end."""
    with ExitStack() as stack:
        hf = stack.enter_context(Holdfast(postgres_url))
        idle, late = (stack.enter_context(psycopg.connect(postgres_url)) for _ in range(2))
        idle.execute("SELECT pg_current_xact_id()")
        hf.publish("t.even", "late", conn=late)
        for turn in range(20):
            hf.publish("t.even", turn)
            for group in groups[:3]:  # Whoever waits for an open transaction waits in vain: none ends meanwhile.
                [claim] = hf.claim("t", group=group, wait=30)
                assert claim.message.body == turn
                claim.ack()
        hf.subscribe("t", "fresh")
        late.commit()
        for group in [*groups[:3], "fresh"]:
            assert [claim.message.body for claim in hf.claim("t", group=group, n=5)] == ["late"]
            assert hf.claim("t", group=group) == []


def test_a_transaction_that_is_idle_for_a_minute_delays_nothing(postgres_url: str, groups: list[str]) -> None:
    """P3: a publish, a claim, a new group and retention do not wait for it, nor lose anything.

    A reader that waits for it would wait from its first second on, so seconds show the same as a minute;
    HOLDFAST_IDLE_SECONDS=60 takes its time.
    """
    with ExitStack() as stack:
        hf = stack.enter_context(Holdfast(postgres_url))
        hf.subscribe("t", "ordered", ordering="per_key")
        hf.subscribe("t", "late", start="earliest", catch_up_rate="1000/s")
        [written, looking] = [stack.enter_context(psycopg.connect(postgres_url)) for _ in range(2)]
        written.execute("CREATE TEMPORARY TABLE mine (n int)")
        looking.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        looking.execute("SELECT count(*) FROM holdfast_message")
        began, turn = time.monotonic(), 0
        while time.monotonic() - began < IDLE:
            hf.subscribe("t", f"new-{turn}")
            hf.publish("t.even", turn, key="k")
            for group in [*groups[:3], "ordered", "late", f"new-{turn}"]:
                [claim] = hf.claim("t", group=group, wait=30)
                assert claim.message.body == turn
                claim.ack()
            hf.groups.remove("t", f"new-{turn}")
            assert hf.claim("t", group="g3") == []
            assert internals(hf).store.retention.retain(internals(hf).catalog.topic("t"), 100).gone == 1
            turn += 1
            spend(0.05)
        assert {other.info.transaction_status.name for other in (written, looking)} == {"INTRANS"}
        assert hf.stats("t/g0").pending == 0


def test_a_claim_that_waited_for_the_end_of_its_group_gets_nothing(postgres_url: str, groups: list[str]) -> None:
    with Holdfast(postgres_url) as hf, psycopg.connect(postgres_url) as other, ThreadPoolExecutor(1) as pool:
        hf.publish("t.even", 1)
        other.execute("SELECT 1 FROM holdfast_lane FOR UPDATE")
        claim = pool.submit(hf.claim, "t/g0")
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        eventually(lambda: other.execute(waiting).fetchone(), "the claim waits")
        other.execute("DELETE FROM holdfast_cursor")
        other.commit()
        assert claim.result(timeout=120) == []


def test_whoever_subscribes_while_others_publish_misses_nothing_from_then_on(postgres_url: str) -> None:
    """Latest is exact: all that is published after the call has returned, nothing that was before it was made."""
    stop = threading.Event()
    with Holdfast(postgres_url) as hf, ThreadPoolExecutor(4) as pool:
        hf.topic("t")

        def publish(writer: int) -> int:
            count = 0
            while not stop.is_set():
                hf.publish("t", [writer, count])
                count += 1
            return count

        writers = [pool.submit(publish, writer) for writer in range(3)]
        for number in range(5):
            spend(0.05)
            first = hf.publish("t", ["mark", number, "before"]).id
            hf.subscribe("t", f"g{number}")
            after = hf.publish("t", ["mark", number, "after"]).id
            assert first < after
        stop.set()
        counts = [writer.result() for writer in writers]
        for number in range(5):
            found = [claim.message.body for claim in hf.claim("t", group=f"g{number}", n=100_000)]
            assert ["mark", number, "before"] not in found
            assert ["mark", number, "after"] in found
            for writer, count in enumerate(counts):
                numbers = [body[1] for body in found if body[0] == writer]
                assert numbers == list(range(numbers[0] if numbers else count, count))
