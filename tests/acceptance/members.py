"""A member of a group, as a process."""

from holdfast import Claim, Holdfast
from tests.acceptance.history import Log
from tests.acceptance.working import Orders, settle, take


def member(log: Log, url: str, group: str, n: int) -> None:
    """Works until there are no more orders and nothing is left for the group, waiting or in someone's hands."""
    orders = Orders()
    with Holdfast(url, sweep_every=0.1) as hf:
        held: list[Claim] = []
        while held or not orders.over or hf.queues.peek(group) or hf.stats(group).processing:
            held = take(log, hf, group, n, [])
            settle(log, "ack", held, hf.ack)
