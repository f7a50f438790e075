"""Short words for tests of topics."""

from typing import Any

from holdfast import Holdfast
from tests.steps import bodies

TOPIC = "t"


def told(hf: Holdfast, *names_and_bodies: tuple[str, Any]) -> list[str]:
    """Publishes bodies under names; the ids."""
    return [hf.publish(name, body).id for name, body in names_and_bodies]


def read_all(hf: Holdfast, group: str, n: int = 10, topic: str = TOPIC) -> list[Any]:
    """Claims and acks as a member of a group until nothing is left; the bodies, in order."""
    found = []
    while claims := hf.claim(topic, group=group, n=n):
        found += bodies(claims)
        hf.ack(claims)
    return found


def lag(hf: Holdfast, group: str, topic: str = TOPIC) -> int:
    """How many messages a group has still to claim."""
    return hf.stats(f"{topic}/{group}").pending
