"""A process that takes seats of a pool, keeps some, leaves some and forgets some; and what its log says about it."""

import os
import random
import time
from dataclasses import dataclass
from typing import Any

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.history import CLOCK_STEP, Log
from tests.acceptance.working import Orders

TENANT = "acme"


def sitter(log: Log, url: str, pool: str, most: int, term: int, seed: int) -> None:
    """Sits down again and again until it is told to stop."""
    orders, chance = Orders(), random.Random(seed)
    with Holdfast(url) as hf:
        hf.queues.list()
        while not orders.over:
            sit(log, hf, orders, chance, pool, most, term)
            orders.wait(chance.random() * 0.02)


def sit(log: Log, hf: Holdfast, orders: Orders, chance: random.Random, pool: str, most: int, term: int) -> None:
    seats = internals(hf).store.seats
    seat = seats.take(TENANT, pool, f"w{os.getpid()}", most, term)
    if seat is None:
        return
    token = seat.token.hex()
    log.write("take", "ok", token=token, number=seat.number, until=seat.until)
    while chance.random() < 0.6:
        orders.wait(chance.random() * term / 1_500_000)
        begun = time.time_ns() // 1000
        if not seats.keep(TENANT, pool, seat, term):
            log.write("keep", "fail", token=token)
            return
        log.write("keep", "ok", token=token, until=begun + term)
    if chance.random() < 0.9:
        log.write("leave", "invoke", token=token)
        log.write("leave", "ok" if seats.leave(TENANT, pool, seat) else "fail", token=token)


@dataclass
class Sitting:
    """One seat, as its holder saw it: surely held from `since` to `to`."""

    number: int
    who: str
    since: int
    to: int
    left: bool = False


def sittings(events: list[dict[str, Any]]) -> list[Sitting]:
    """In the order of their beginning."""
    found: dict[str, Sitting] = {}
    for event in events:
        op, phase = event["op"], event["phase"]
        if op == "take":
            found[event["token"]] = Sitting(event["number"], event["who"], event["at"], event["until"])
        elif op == "keep" and phase == "ok":
            found[event["token"]].to = event["until"]
        elif op == "leave" and phase == "invoke":
            sitting = found[event["token"]]
            sitting.to, sitting.left = min(sitting.to, event["at"]), True
    return list(found.values())


def crowds(found: list[Sitting], most: int) -> list[str]:
    """Moments with too many, or with two on one seat, in words."""
    faults = []
    for sitting in found:
        moment = sitting.since + CLOCK_STEP
        beside = [other for other in found if other.since <= sitting.since and moment < other.to]
        if len(beside) > most:
            faults.append(f"{len(beside)} at once: {beside}")
        if len({other.number for other in beside}) < len(beside):
            faults.append(f"two on one seat: {beside}")
    return faults[:5]
