"""`hf.status` of a published message: how each group stands to it."""

import pytest

from holdfast import Holdfast, State
from tests.clock import FakeClock
from tests.stores import TOPICS
from tests.topics.publishing import done, retain, subscribed

pytestmark = pytest.mark.not_through_sqs(TOPICS)


def groups(hf: Holdfast, message_id: str) -> dict[str, str]:
    found = hf.status(message_id)
    assert found is not None
    return {group: state.value for group, state in found.groups.items()}


def test_each_group_has_a_state_of_its_own(hf: Holdfast) -> None:
    subscribed(hf, "a", "b", "c", "d", "e")
    hf.subscribe("t", "f", patterns="t.other")
    first, sent, last = (hf.publish("t.x", n).id for n in range(3))
    done(hf, "b")
    hf.claim("t/c", n=3)
    hf.ack(hf.claim("t/d", n=1))
    [claim] = hf.claim("t/d")
    claim.dead_letter("no")
    claims = hf.claim("t/e", n=3)
    claims[1].nack("no", delay=60)
    assert groups(hf, sent) == {"a": "pending", "b": "succeeded", "c": "processing", "d": "dead", "e": "pending"}
    assert groups(hf, first)["e"] == "processing"
    claims[0].ack()
    claims[2].ack()
    assert [groups(hf, one)["e"] for one in (first, last)] == ["succeeded", "succeeded"]
    assert [groups(hf, one)["d"] for one in (first, last)] == ["succeeded", "pending"]
    status = hf.status(sent)
    assert status is not None
    assert (status.queue, status.state) == ("t", State.PENDING)
    assert hf.groups.cancel("t", "c")
    hf.groups.remove("t", "b")
    assert list(groups(hf, sent)) == ["a", "d", "e"]


@pytest.mark.parametrize("ordering", ["per_key", "fifo"])
def test_of_groups_with_an_order(hf: Holdfast, ordering: str) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", ordering=ordering)
    first, second = (hf.publish("t", n, key="k").id for n in range(2))
    [claim] = hf.claim("t/a", n=2)
    assert (groups(hf, first), groups(hf, second)) == ({"a": "processing"}, {"a": "pending"})
    claim.ack()
    assert (groups(hf, first), groups(hf, second)) == ({"a": "succeeded"}, {"a": "pending"})


def test_of_parts_of_a_run(hf: Holdfast) -> None:
    """What a group does not want stands in its runs as settled, and is none of its business."""
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", patterns="t.a")
    ids = [hf.publish(name, 0).id for name in ("t.a", "t.b", "t.a", "t.a")]
    claims = hf.claim("t/a", n=9)
    claims[1].ack()
    states = [groups(hf, one) for one in ids]
    assert states == [{"a": "processing"}, {}, {"a": "succeeded"}, {"a": "processing"}]


def test_what_is_to_be_skipped(hf: Holdfast) -> None:
    subscribed(hf, "a", "b")
    sent = hf.publish("t", 1).id
    hf.groups.skip("t", "a", sent)
    assert groups(hf, sent) == {"a": "canceled", "b": "pending"}


def test_who_comes_later_is_owed_nothing(hf: Holdfast) -> None:
    subscribed(hf, "a")
    sent = hf.publish("t", 1).id
    hf.subscribe("t", "late")
    assert groups(hf, sent) == {"a": "pending", "late": "succeeded"}


def test_of_what_retention_has_removed_the_copies_are_known(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=60, min_retention=0)
    for group in "abc":
        hf.subscribe("t", group)
    sent = hf.publish("t", 1).id
    hf.claim("t/a")[0].nack("no", delay=600)
    hf.claim("t/b")[0].dead_letter("no")
    hf.ack(hf.claim("t/c"))
    clock.advance(61)
    assert retain(hf) == 1
    assert groups(hf, sent) == {"a": "pending", "b": "dead"}


def test_a_queue_has_no_groups(hf: Holdfast) -> None:
    hf.topic("jobs", mode="queue")
    assert groups(hf, hf.publish("jobs.x", 1).id) == groups(hf, hf.enqueue("q", 1).id) == {}
