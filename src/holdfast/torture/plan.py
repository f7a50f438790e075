"""What a torture run consists of: its queues, topics and sagas, and who does what to them."""

from __future__ import annotations

import msgspec

from holdfast.client.client import Holdfast, assembled
from holdfast.sagas.rules.declaration import Step
from holdfast.settings import Settings
from holdfast.store.open import open_store
from holdfast.torture.ending import GROUP, QUEUE, STEP, TOPIC, ChannelEnd

PLAIN, ORDERED, URGENT = "plain", "ordered", "urgent"
NEWS, TICKS = "news", "ticks"
ORDERED_GROUPS = (f"{NEWS}/mail", f"{NEWS}/ship")
GROUPS = (f"{TICKS}/mail", f"{TICKS}/ship")
SAGA = "trip"
STEPS = ("flight", "hotel", "car", "card")
STEP_QUEUES = (*STEPS, *(f"undo-{step}" for step in STEPS))
WORK_QUEUES = (PLAIN, ORDERED, URGENT)
TOPICS = (NEWS, TICKS)

KEYS = 50
MAX_ATTEMPTS = 50
FEW_ATTEMPTS = 4
"""Of one queue: there, kills and lost leases use attempts up, and messages die of it."""


SWEEP, LONGEST_BACKOFF = 0.2, 1.0
SLACK = 120.0
"""Seconds: machines are busy, and SQS hides for half a minute what a killed process had received."""

LONG_MEMORY, SHORT_MEMORY = 86_400.0, 10.0
"""Seconds for which what is done can be looked up."""


class TorturePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run was told. `rate` is how many messages all producers together send in a second."""

    url: str
    tenant: str
    seed: int
    seconds: float = 60.0
    workers: int = 4
    lease: float = 1.0
    rate: float = 200.0
    faults: tuple[str, ...] = ()
    restart_command: str | None = None
    delivery: str = "database"
    """Or "sqs", wherever the environment says that it is."""
    keeps: bool = True
    """Whether what is done can be looked up in the end; a long run cannot afford it."""
    spares: bool = False
    """Whether one process of each kind is never killed, so that its memory says something about time."""

    @property
    def patience(self) -> float:
        """Seconds from the heal until everything has to have ended. What a storm leaves may take as long as it took."""
        return self.seconds + self.lease + SWEEP + LONGEST_BACKOFF + SLACK


class TortureJob(msgspec.Struct, frozen=True):
    """One process: its role, its name, where its history goes, and the way to the database."""

    role: str
    name: str
    log: str
    url: str
    plan: TorturePlan
    number: int = 0


def settings(plan: TorturePlan, url: str, worker: str, patience: float = 60.0) -> Settings:
    """Those of a client that takes part."""
    return Settings(url, plan.tenant, worker=worker, patience=patience, delivery=plan.delivery, sqs_create=True)


def client(plan: TorturePlan, worker: str = "nemesis") -> Holdfast:
    """One that only looks after others."""
    wanted = settings(plan, plan.url, worker)
    return assembled(wanted, open_store(wanted))


def channels(plan: TorturePlan) -> list[ChannelEnd]:
    """All that messages can be sent to or claimed from."""
    return [
        ChannelEnd(PLAIN, QUEUE, max_attempts=MAX_ATTEMPTS, keeps=plan.keeps),
        ChannelEnd(ORDERED, QUEUE, ordered=True, max_attempts=MAX_ATTEMPTS, keeps=plan.keeps),
        ChannelEnd(URGENT, QUEUE, max_attempts=FEW_ATTEMPTS, keeps=plan.keeps),
        *(ChannelEnd(name, TOPIC, keeps=plan.keeps) for name in TOPICS),
        *(ChannelEnd(name, GROUP, NEWS, True, MAX_ATTEMPTS, plan.keeps) for name in ORDERED_GROUPS),
        *(ChannelEnd(name, GROUP, TICKS, False, MAX_ATTEMPTS, plan.keeps) for name in GROUPS),
        *(ChannelEnd(name, STEP, max_attempts=MAX_ATTEMPTS, keeps=plan.keeps) for name in STEP_QUEUES),
    ]


def declare(hf: Holdfast, plan: TorturePlan, *, forget: bool = False) -> None:
    """The same again changes nothing; with `forget`, what is done goes at once."""
    history = 0 if forget else LONG_MEMORY if plan.keeps else SHORT_MEMORY
    window = max(history, 60.0)
    for end in channels(plan):
        topic, _, group = end.name.partition("/")
        ordering = "per_key" if end.ordered else "unordered"
        claims = {
            "lease": plan.lease,
            "max_attempts": end.max_attempts,
            "backoff": f"50ms..{LONGEST_BACKOFF:g}s",
            "ordering": ordering,
        }
        if end.kind == TOPIC:
            hf.topic(end.name, min_retention=history, idempotency_window=window)
        elif end.kind == GROUP:
            hf.subscribe(topic, group, start="earliest", **claims)  # type: ignore[arg-type]
        else:
            hf.queue(end.name, history=history, idempotency_window=window, **claims)  # type: ignore[arg-type]
    flight, hotel, car, card = (Step(step, step, undo=f"undo-{step}") for step in STEPS)
    hf.saga(SAGA, steps=[flight, [hotel, car], card], keep=history)
