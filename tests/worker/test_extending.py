"""`context.extend`: the worker knows of it, keeps what it promised, and never has less than it had."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, Message, State
from holdfast.client.client import internals
from holdfast.events import HandlerStopped
from holdfast.worker.context import Context
from tests.waiting import eventually
from tests.worker import cells
from tests.worker.faults import Cable
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


async def extend_and_wait(message: Message, context: Any) -> None:
    """As `cells.extend_and_wait`."""
    note = Path(message.body["note"])
    await context.extend(message.body["for"])
    cells.add_line(note, context.attempt)
    while not note.with_suffix(".go").exists():
        await asyncio.sleep(0.01)


@pytest.fixture(params=["def", "async def", "process"])
def declare(request: pytest.FixtureRequest, one: Holdfast) -> Any:
    """Makes a consumer of `extend_and_wait`."""
    handler = extend_and_wait if request.param == "async def" else cells.extend_and_wait
    isolation = "process" if request.param == "process" else "thread"
    return lambda **options: one.consumer("q", name="handler", isolation=isolation, **options)(handler)


@pytest.fixture
def note(tmp_path: Path) -> Iterator[Path]:
    """What the handlers write, an attempt a line; they end with the test."""
    yield tmp_path / "note"
    (tmp_path / "note.go").touch()


def begun(note: Path) -> None:
    eventually(lambda: note.exists() and note.read_text(), "the extension")


@pytest.mark.parametrize("duration", [None, 0.2], ids=["default", "short"])
def test_it_never_shortens_what_is_held(one: Holdfast, declare: Any, note: Path, duration: float | None) -> None:
    """The queue's lease is short, the consumer's is not; nobody else gets the message beside the first attempt."""
    one.queue("q", lease=0.2, backoff=0)
    declare(lease=60, concurrency=2)
    sent = one.enqueue("q", {"note": str(note), "for": duration})
    with one.running(), Holdfast(one.settings.url, sweep_every=0.05) as other:
        begun(note)
        assert other.claim("q", wait=0.8) == []
        note.with_suffix(".go").touch()
        assert ended(one, sent.id) is State.SUCCEEDED
    assert note.read_text() == "1\n", "one execution"


def test_a_longer_one_outlives_renewals_and_the_absence_of_the_database(
    one: Holdfast, declare: Any, note: Path
) -> None:
    one.queue("q", lease=20, max_attempts=1)
    declare()
    stops, cable = Calls(), Cable(one, "extend")
    one.on(HandlerStopped, lambda event: stops.note(event.reason))
    sent = one.enqueue("q", {"note": str(note), "for": "1h"})
    with one.running() as runner:
        begun(note)
        [held] = runner.workers[0].ledger.held()
        eventually(lambda: held.lease.until_us > held.lease.since_us + 3_590_000_000, "the extension is known")
        held.renewed = earlier = held.renewed - 10
        eventually(lambda: held.renewed > earlier, "a renewal")
        assert held.lease.until_us > held.lease.since_us + 3_590_000_000, "it was not cut back"
        cable.cut.set()
        held.renewed -= 20  # As if the last renewal had been a lease ago.
        eventually(lambda: cable.tries > 5, "renewals that fail")
        assert stops.seen == []
        cable.cut.clear()
        note.with_suffix(".go").touch()
        assert ended(one, sent.id) is State.SUCCEEDED
    assert note.read_text() == "1\n", "one execution"


def test_a_shorter_one_after_a_longer_one_takes_nothing_back(one: Holdfast) -> None:
    ends = Calls()

    @one.consumer("q")
    def handler(message: Message, context: Context) -> None:
        for duration in ("1h", "1m", None):
            context.extend(duration)
            ends.note(context.claim.lease.until_us - context.claim.lease.since_us)

    one.enqueue("q", 1)
    with one.running():
        assert all(micros > 3_590_000_000 for micros in ends.wait(3))


def test_a_renewal_leaves_alone_what_is_just_being_extended(one: Holdfast) -> None:
    """Otherwise the end that is stored would be that of whoever comes last."""
    asked, meanwhile, rounds, extend = Calls(), Calls(), Calls(), internals(one).transport.messages.extend

    def slow(settlements: Any, micros: int) -> Any:
        asked.note(micros)
        if micros == 3_600_000_000:
            [held] = runner.workers[0].ledger.held()
            held.renewed -= 10  # A renewal is due.
            rounds.wait(len(rounds.seen) + 3)
            meanwhile.note(list(asked.seen))
        return extend(settlements, micros)

    @one.consumer("q", lease=20)
    def handler(message: Message, context: Context) -> None:
        began.wait(1)
        context.extend("1h")

    began = Calls()
    internals(one).transport.messages.extend = slow  # type: ignore[method-assign]
    sent = one.enqueue("q", 1)
    with one.running() as runner:
        make_round = runner._renewal.round
        runner._renewal.round = lambda now: (make_round(now), rounds.note(now))[0]  # type: ignore[method-assign]
        began.note(1)
        assert ended(one, sent.id) is State.SUCCEEDED
    assert meanwhile.seen == [[3_600_000_000]]


@pytest.mark.parametrize("wrong", [0, -1, "soon"])
def test_nonsense_is_refused(one: Holdfast, wrong: Any) -> None:
    said = Calls()

    @one.consumer("q")
    def handler(message: Message, context: Context) -> None:
        with pytest.raises(InvalidInput, match="duration"):
            context.extend(wrong)
        said.note(wrong)

    one.enqueue("q", 1)
    with one.running():
        said.wait(1)
