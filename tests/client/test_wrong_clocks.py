"""Producers whose clocks are wrong by hours: ids go back and forth, and only the order of a search follows them."""

from itertools import cycle
from uuid import UUID

import pytest

from holdfast import Holdfast, State
from holdfast.store import ids
from tests.steps import bodies

pytestmark = pytest.mark.of_queues

HOUR = 3_600_000 << 80
"""In the bits of a UUIDv7 that are its time."""

NAMES = [f"m{number}" for number in range(9)]


@pytest.fixture(autouse=True)
def wrong_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id comes from a process with another clock."""
    true, shifts = vars(ids)["uuid7"], cycle([2 * HOUR, -2 * HOUR, 0])
    monkeypatch.setitem(vars(ids), "uuid7", lambda: UUID(int=true().int + next(shifts)))


def test_what_is_sent_first_is_claimed_first(hf: Holdfast) -> None:
    hf.queue("q", ordering="per_key")
    sent = [hf.enqueue("q", name, key="k" if name < "m5" else None).id for name in NAMES]
    assert sent != sorted(sent)
    got = []
    while claims := hf.claim("q", n=2):
        got += bodies(claims)
        hf.ack(claims)
    assert [name for name in got if name < "m5"] == NAMES[:5]
    assert [name for name in got if name >= "m5"] == NAMES[5:]


def test_every_group_gets_everything_in_its_order(hf: Holdfast) -> None:
    hf.topic("t")
    for group in ("a", "b"):
        hf.subscribe("t", group)
    for name in NAMES[:4]:
        hf.publish("t", name)
    first = hf.claim("t", group="a", n=10)
    for name in NAMES[4:]:
        hf.publish("t", name)
    assert bodies(first) + bodies(hf.claim("t", group="a", n=10)) == NAMES
    assert bodies(hf.claim("t", group="b", n=10)) == NAMES


def test_retries_keys_and_dead_letters_know_their_message(hf: Holdfast) -> None:
    hf.queue("q", history="1d", backoff=None, max_attempts=3)
    sent = [hf.enqueue("q", name, idempotency_key=name) for name in NAMES]
    assert [hf.enqueue("q", name, idempotency_key=name).id for name in NAMES] == [one.id for one in sent]
    hf.nack(hf.claim("q", n=20), "no", delay=0)
    claims = hf.claim("q", n=20)
    assert bodies(claims) == NAMES
    hf.dead_letter(claims[:3], "no")
    hf.ack(claims[3:])
    states = [status.state for one in sent if (status := hf.status(one.id))]
    assert states == [State.DEAD] * 3 + [State.SUCCEEDED] * 6
    assert {letter.message.id for letter in hf.dead_letters.list()} == {one.id for one in sent[:3]}


def test_pages_of_a_search_have_everything_once(hf: Holdfast) -> None:
    sent = [hf.enqueue("q", name, key="k").id for name in NAMES]
    found: list[str] = []
    while page := hf.messages.search("q", key="k", n=2, after=found[-1] if found else None):
        found += [status.id for status in page]
    assert found == sorted(sent)
