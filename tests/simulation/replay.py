"""`python -m tests.simulation.replay SEED…` plays seeds again: everything that happened, and what the checks found.

With `--postgres` on PostgreSQL. With `--digest` it prints a number for each history instead, to compare runs.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import ExitStack, closing

from holdfast.torture.history import HistoryEvent
from tests.servers import PostgresServer
from tests.simulation.postgres_stage import PostgresStage
from tests.simulation.simulation import Outcome, simulate
from tests.simulation.sqlite_stage import SqliteStage
from tests.simulation.stage import START, Stage


def told(outcome: Outcome, stage: Stage) -> str:
    """What was wrong with a seed, and how to see it again."""
    findings = "\n".join(f"  {finding.check}: {finding.what}" for finding in outcome.verdict.findings)
    where = " --postgres" if stage.url.startswith("postgres") else ""
    return f"seed {outcome.seed} (python -m tests.simulation.replay{where} {outcome.seed}):\n{findings}"


def line(event: HistoryEvent) -> str:
    items = "; ".join(
        f"{one.id[-4:]} {one.channel} {one.value} {one.key or ''} attempt {one.attempt} token {one.token}"
        for one in event.items
    )
    return f"{(event.at - START) / 1e6:12.6f} {event.who:12} {event.op:10} {event.phase:6} {items} {event.note}"


def main(arguments: list[str]) -> None:
    with ExitStack() as stack:
        stage: Stage
        if "--postgres" in arguments:
            stage = PostgresStage(stack.enter_context(PostgresServer()).address.url())
        else:
            stage = SqliteStage()
        stack.enter_context(closing(stage))
        for seed in [int(one) for one in arguments if one.isdecimal()]:
            outcome = simulate(stage, seed)
            if "--digest" in arguments:
                print(seed, hashlib.sha256(outcome.history).hexdigest())
            else:
                print(*map(line, outcome.events), told(outcome, stage), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
