"""So much for a duty to do."""

from typing import Any

from holdfast import Claim, CommitmentResult, Holdfast, Step
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.consumers.rules import Beat
from holdfast.events import DeadTaskEvent
from holdfast.replies.rules import REPLIES, REPLY_SPEC
from holdfast.sagas.rules.declaration import MOST_STEPS
from tests.clock import FakeClock


def lapsed_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", backoff=None)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(1)
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def lapsed_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.enqueue_many("q", range(count))
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def outlived(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count))
    clock.advance(61)


def outlived_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(61)


def past(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history=60)
    hf.enqueue_many("q", range(count))
    while claims := hf.claim("q", n=1000):
        hf.ack(claims)
    clock.advance(61)


def half_acked_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history=60)
    claims = _claim_at_once(hf, count)
    for place in range(0, count - 300, 1000):
        hf.ack(claims[place : min(place + 1000, count - 300)])
    clock.advance(61)


def dying_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """Each with a notice, an envelope and a key whose next message goes on."""
    hf.queue("q", owner="mia", dead_letter="graves", max_attempts=1, ordering="per_key")
    hf.enqueue_many("q", [*range(count), *range(count)], key=str)
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def dying_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _claim_at_once(hf, count, lease=1)
    hf.queue("q", owner="mia", dead_letter="graves", max_attempts=1)
    clock.advance(2)


def dying_steps(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """Each turns a saga round."""
    hf.queue("q", max_attempts=1)
    _start_sagas(hf, count, Step("pay", "q"))
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def outlived_everywhere(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60, history=60)
    for level in range(4):
        hf.enqueue_many("q", range(count), priority=level)
    hf.enqueue_many("q", range(count), delay=1)
    hf.enqueue_many("q", range(count), ttl=30)
    clock.advance(61)


def long_past_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history=60)
    claims = _claim_at_once(hf, count)
    for place in range(0, count, 1000):
        hf.ack(claims[place : place + 1000])
    clock.advance(61)


def too_much_past(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history_limit=0)
    hf.enqueue_many("q", range(count))
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(1)
    while claims := hf.claim("q", n=100):
        hf.ack(claims)


def results_of_old(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """With keys, promises kept and effort, all of it over."""
    hf.queue("q", history=60, key_rate=f"{count}/s")
    hf.enqueue_many("q", range(count), key=str, idempotency_key=str)
    while claims := hf.claim("q", n=1000):
        for claim, settlement in zip(claims, settlements.acked(claims), strict=True):
            internals(hf).store.commitments.keep(settlement, [CommitmentResult("built", True, 0, "good")] * 3)
            spend_reports.spend(internals(hf), claim, 1)
        hf.ack(claims, result="done")
    clock.advance(30 * 86_400)


def dead_for_long(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", owner="mia", dead_retention=60)
    hf.enqueue_many("q", range(count))
    while claims := hf.claim("q", n=1000):
        hf.dead_letter(claims, "it is broken")
    clock.advance(61)


def busy_seconds(hf: Holdfast, clock: FakeClock, count: int) -> None:
    for _ in range(count):
        hf.enqueue("q", 1, delay=1)
        clock.advance(1)
    clock.advance(120)


def gone_askers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    channel = internals(hf).catalog.channel("q")
    for number in range(count):
        internals(hf).store.messages.sweep(channel, 1, f"worker {number}")
    clock.advance(3601)


def silent_askers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    for number in range(count):
        internals(hf).store.replies.open("default", f"{REPLIES}{number}", REPLY_SPEC)
    clock.advance(3600)


def forgotten_askers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    silent_askers(hf, clock, count)
    while internals(hf).store.replies.forget("default", 100):
        pass
    clock.advance(3600)


def unheard_answers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    queue = internals(hf).store.replies.open("default", f"{REPLIES}mine", REPLY_SPEC)
    for delay in (0, 1):
        hf.enqueue_many(queue.name, range(count), delay=delay)
    clock.advance(3600)
    internals(hf).store.replies.forget("default", 100)
    clock.advance(3600)


def read_by_all(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _publish(hf, ["one"], count)
    hf.topic("t", min_retention=0)
    while claims := hf.claim("t", group="one", n=1000):
        hf.ack(claims)
    clock.advance(1)


def too_old_for_one(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _publish(hf, ["one"], count)
    clock.advance(60)


def too_old_for_many(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _publish(hf, [f"group{number}" for number in range(count)], 5000)
    clock.advance(60)


def lost_pointers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _hand_over(hf, clock, count, "enqueued")


def silent_senders(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _hand_over(hf, clock, count, "sending")


def untold_deaths(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", dead_events="callback")
    hf.enqueue_many("q", range(count))
    while claims := hf.claim("q", n=1000):
        hf.dead_letter(claims, "it is broken")
    hf.on(DeadTaskEvent, lambda event: None)


def silent_groups(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.topic("t")
    for number in range(count):
        hf.subscribe("t", f"group{number}", timeout=60, misses=1)
    clock.advance(61)


def missed_slots(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.schedule("tick", queue="q", every=1, missed="all")
    clock.advance(count)


def many_schedules(hf: Holdfast, clock: FakeClock, count: int) -> None:
    for number in range(count):
        hf.schedule(f"tick{number}", queue="q", every=1)
    clock.advance(1000)


def late_steps(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _start_sagas(hf, count, Step("pay", "q", undo="pay.back", timeout=60))
    clock.advance(61)


def wide_sagas(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """Each with as many steps as there may be, all of which are late at once."""
    _start_sagas(hf, count, [Step(f"step{number}", "q", timeout=60) for number in range(MOST_STEPS)])
    clock.advance(61)


def ended_sagas(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """Of which there is much to tell."""
    _start_sagas(hf, count, [Step(f"step{number}", "q") for number in range(50)], keep=60)
    while claims := hf.claim("q", n=1000):
        hf.ack(claims)
    clock.advance(61)


def gone_consumers(hf: Holdfast, clock: FakeClock, count: int) -> None:
    for number in range(count):
        beat = Beat(id=str(number), consumer="c", host="h", pid=1, queues=["q"], state="idle", valid_for=1)
        internals(hf).store.crew.beat("default", beat)
    clock.advance(3700)


def old_receipts(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.command("Thing.Do")(lambda: None)
    for number in range(count):
        hf.commands.run("Thing.Do", {}, idempotency_key=str(number))
    clock.advance(400 * 86_400)


def due_everywhere(hf: Holdfast, clock: FakeClock, count: int) -> None:
    for number in range(count):
        hf.enqueue(f"q{number}", 1, delay=1)
    clock.advance(1)


def late_notices(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.owner("mia", owner="boss", escalate_after=60)
    _report(hf, ["mia"] * count)
    clock.advance(61)


def digest_of_one(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _declare_readers_of_digests(hf, ["mia"])
    _report(hf, ["mia"] * count)
    clock.advance(61)


def digests_of_many(hf: Holdfast, clock: FakeClock, count: int) -> None:
    owners = [f"mia{number}" for number in range(count)]
    _declare_readers_of_digests(hf, owners)
    _report(hf, owners)
    clock.advance(61)


def news_for_one(hf: Holdfast, clock: FakeClock, count: int) -> None:
    """Among much that is for others, who have no callback; or wait for their digest."""
    _declare_readers_of_digests(hf, ["tom"])
    _report(hf, [*(["mia", "tom"] * count), *(["zoe"] * 200)])
    hf.on_notice(lambda notices: None, owner="zoe")


def news_for_all(hf: Holdfast, clock: FakeClock, count: int) -> None:
    _declare_readers_of_digests(hf, ["tom"])
    _report(hf, [*(["tom"] * count), *(["zoe"] * 200)])
    hf.on_notice(lambda notices: None)


def _claim_at_once(hf: Holdfast, count: int, lease: int = 60) -> list[Claim]:
    hf.enqueue_many("q", range(count))
    return hf.claim("q", n=count, lease=lease)


def _publish(hf: Holdfast, groups: list[str], count: int) -> None:
    hf.topic("t", retention=60)
    for group in groups:
        hf.subscribe("t", group)
    for level in range(4):
        hf.publish_many("t", range(count), priority=level)


def _hand_over(hf: Holdfast, clock: FakeClock, count: int, state: str) -> None:
    """As if to SQS, long ago."""
    hf.enqueue_many("q", range(count), delay=1)
    with internals(hf).store.lend() as conn:
        conn.execute(f"UPDATE holdfast_row SET state = '{state}', until = {clock()}, handed_at = {clock()}")
    clock.advance(3600)


def _start_sagas(hf: Holdfast, count: int, *steps: Step | list[Step], **settings: Any) -> None:
    hf.saga("trip", steps=steps, **settings)
    for number in range(count):
        hf.start_saga("trip", {}, id=f"trip {number}")


def _declare_readers_of_digests(hf: Holdfast, owners: list[str]) -> None:
    for owner in owners:
        hf.owner(owner, notify="digest", digest_every=60, escalate_after=None)


def _report(hf: Holdfast, owners: list[str]) -> None:
    for number, owner in enumerate(owners):
        hf.notices.report("trouble", f"thing{number}", "it is broken", owner=owner)
