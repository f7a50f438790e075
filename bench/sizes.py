"""How much of everything: the full size, and the quick one that only shows that it all runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    enqueue_seconds: float = 2.0
    concurrent: int = 100
    bulk: int = 100_000
    bulk_seconds: float = 3.0
    """A peer that is slower stops here, and its row says how many it was."""
    bulk_calls: tuple[int, ...] = (1_000, 10_000)
    drains: tuple[tuple[int, int], ...] = ((1, 10_000), (10, 100_000), (100, 100_000), (1_000, 100_000))
    """(messages per claim, messages in all): one by one, 100,000 would take a minute and show nothing more."""
    drain_seconds: float = 3.0
    """A peer that has not drained all by then is stopped."""
    processes: tuple[int, ...] = (1, 2)
    workers: tuple[int, ...] = (1, 2, 4)
    """In how many processes consumers run."""
    split: int = 100_000
    latency_messages: int = 400
    latency_rate: float = 50.0
    backlogs: tuple[int, int] = (10_000, 1_000_000)
    backlog_seconds: float = 3.0
    load_seconds: float = 30.0
    """A peer that enqueues slowly has the backlog it got by then."""
    churn_seconds: float = 60.0
    churn_windows: int = 12
    fan_out: int = 20_000
    groups: tuple[int, ...] = (1, 4, 16, 64)
    late_seconds: float = 1.0
    pace_seconds: float = 10.0
    webhooks: int = 20_000
    sagas: int = 1_000
    saga_seconds: float = 4.0
    """A peer starts no more of them after that."""
    faulted: int = 500_000
    faulted_seconds: float = 6.0
    find_back_seconds: float = 6.0
    worked_off_seconds: float = 45.0
    """What killed workers had in their hands comes back message by message."""
    idle_seconds: float = 5.0
    imports: int = 5


FULL = Sizes()
QUICK = Sizes(
    enqueue_seconds=0.2,
    concurrent=20,
    bulk=2_000,
    bulk_seconds=0.5,
    bulk_calls=(1_000,),
    drains=((100, 2_000),),
    drain_seconds=0.5,
    workers=(1, 2),
    split=1_000,
    latency_messages=15,
    backlogs=(500, 2_000),
    backlog_seconds=0.1,
    load_seconds=0.5,
    churn_seconds=0.6,
    churn_windows=3,
    fan_out=2_000,
    groups=(1, 4),
    late_seconds=0.2,
    pace_seconds=0.1,
    webhooks=500,
    sagas=60,
    saga_seconds=0.5,
    faulted=30_000,
    faulted_seconds=0.5,
    find_back_seconds=0.3,
    worked_off_seconds=0.3,
    idle_seconds=0.3,
    imports=1,
)
