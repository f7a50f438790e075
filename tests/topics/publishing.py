"""Short words for tests of topics."""

from collections.abc import Iterable
from typing import Any

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.api import Topic
from holdfast.worker.maintenance.duties import liveness, retention
from tests.clock import FakeClock


def subscribed(hf: Holdfast, *groups: str, **settings: Any) -> None:
    """The topic t with these groups. What they are done with goes at once, unless told otherwise."""
    hf.topic("t", **{"min_retention": 0, **settings})
    for group in groups:
        hf.subscribe("t", group)


def retain(hf: Holdfast) -> int:
    """Does what maintenance does, until there is nothing left to do; how much there was."""
    gone = 0
    while found := retention.turn(hf):
        gone += found
    return gone


def retain_once(hf: Holdfast) -> int:
    """One step, for the topic t."""
    topic = internals(hf).catalog.destination("t")
    assert isinstance(topic, Topic)
    return internals(hf).store.retention.retain(topic, 100).gone


def done(hf: Holdfast, *groups: str) -> None:
    """These groups get all there is and end it."""
    for group in groups:
        while claims := hf.claim("t", group=group, n=100):
            hf.ack(claims)


def kept(hf: Holdfast, topic: str = "t") -> list[Any]:
    """The bodies of all that a topic has, as one who comes now and wants everything gets them."""
    hf.subscribe(topic, "onlooker", start="earliest")
    found = hf.queues.peek(f"{topic}/onlooker", 1_000)
    hf.groups.remove(topic, "onlooker")
    return [message.body for message in found]


def watch(hf: Holdfast) -> int:
    """One look at all groups; how many have died."""
    return liveness.turn(hf)


def die(hf: Holdfast, clock: FakeClock, *, beating: Iterable[str] = ()) -> None:
    """So much time passes that every group with a timeout of a minute dies, but for those that beat."""
    for wait in (60, 12, 12):
        clock.advance(wait)
        for group in beating:
            hf.groups.heartbeat("t", group)
        watch(hf)


def troubles(hf: Holdfast, kind: str) -> list[str]:
    """What the notices of a kind say."""
    return [notice.error for notice in hf.notices.list() if notice.kind == kind]
