"""A run from the first message to the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.client.client import Holdfast, internals
from holdfast.core.redaction import without_password
from holdfast.errors import DeliveryFailed, StoreError
from holdfast.torture.address import named
from holdfast.torture.checks import check
from holdfast.torture.crew import ProcessFleet
from holdfast.torture.ending import TOPIC, FinalState
from holdfast.torture.history import HEAL, MARK, OK, QUIET, HistoryLog, read_folder
from holdfast.torture.last_look import is_quiet, last_look
from holdfast.torture.nemesis import Nemesis, ProxyProcess
from holdfast.torture.plan import TorturePlan, channels, client, declare
from holdfast.torture.process import KEEPER, PRODUCER
from holdfast.torture.progress import HistoryProgress
from holdfast.torture.soak import Gauge
from holdfast.torture.verdict import TortureVerdict

TICK = 0.05
LOOK = 0.5
PLAN, FINAL, VERDICT = "plan.json", "final.json", "verdict.json"
LONGEST_START = 60.0
LATE_FAULTS = 30.0
"""Seconds for which a storm goes on at most, until each fault was done."""

STUCK = 60.0
"""Seconds for which a drain may make no progress at all, before what is left counts as stuck."""


class TortureAudience(Protocol):
    """Who watches."""

    def show(self, phase: str, progress: HistoryProgress) -> None: ...
    def tell(self, fault: str) -> None: ...


class TortureRun:
    """One run in a folder of its own."""

    def __init__(self, plan: TorturePlan, folder: Path, audience: TortureAudience, gauge: Gauge | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self.progress = HistoryProgress(folder)
        self._audience = audience
        self._gauge = gauge

    def run(self) -> TortureVerdict:
        """Ctrl-C ends the storm early; the rest is done as always."""
        told = msgspec.structs.replace(self.plan, url=without_password(self.plan.url))
        (self.folder / PLAN).write_bytes(msgspec.json.encode(told))
        sink = HistoryLog(self.folder / "nemesis.log")
        with client(self.plan) as hf, self._proxy() as proxy:
            declare(hf, self.plan)
            inner = msgspec.structs.replace(self.plan, url=named(self.plan.url, self.plan.tenant, "direct"))
            proxied = None if proxy is None else named(proxy.url, self.plan.tenant, "proxied")
            with ProcessFleet(inner, self.folder, sink, proxied) as crew:
                nemesis = Nemesis(self.plan, hf, crew, sink, proxy)
                try:
                    self._wait_for_all(crew)
                    nemesis.begin()
                    self._storm(hf, crew, nemesis)
                except KeyboardInterrupt:
                    sink.note(MARK, OK, note="interrupted")
                nemesis.heal()
                sink.note(MARK, OK, note=HEAL)
                self._drain(hf, crew)
                sink.note(MARK, OK, note=QUIET)
                crew.dismiss()
                sink.close()
            final = last_look(hf, self.plan, read_folder(self.folder))
        final.save(self.folder / FINAL)
        return check_folder(self.folder)

    def _wait_for_all(self, crew: ProcessFleet) -> None:
        """Until everybody is there, and a first message is done."""
        deadline = time.monotonic() + LONGEST_START
        while time.monotonic() < deadline:
            here = all((self.folder / f"{member.name}.log").exists() for member in crew.members)
            if here and self.progress.look()["done"]:
                break
            crew.look_after()
            time.sleep(TICK)
        self.progress.begin()

    def _storm(self, hf: Holdfast, crew: ProcessFleet, nemesis: Nemesis) -> None:
        """A little longer if there was no time for all faults."""
        until, looked = time.monotonic() + self.plan.seconds, 0.0
        while time.monotonic() < until + (LATE_FAULTS if nemesis.owes else 0.0):
            fault = nemesis.act()
            if fault:
                self._audience.tell(fault)
            crew.look_after()
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                self.progress.look()
                self._audience.show("storm", self.progress)
                if self._gauge is not None:
                    self._gauge.look(hf, crew, self.progress)
            time.sleep(TICK)

    def _drain(self, hf: Holdfast, crew: ProcessFleet) -> None:
        """Until nothing is left, at two looks in a row, or nothing moves any more, or it moves for ever."""
        deadline = time.monotonic() + self.plan.patience
        crew.dismiss(PRODUCER)
        crew.replace(KEEPER)  # Its transactions that were to stay open end with it.
        moved, done, quiet = time.monotonic(), -1, 0
        while time.monotonic() < min(moved + STUCK, deadline):
            crew.look_after()
            counts = self.progress.look()
            self._audience.show("drain", self.progress)
            if counts["done"] + counts["dead"] != done:
                moved, done = time.monotonic(), counts["done"] + counts["dead"]
            try:
                quiet = quiet + 1 if is_quiet(hf, self.plan) else 0
            except StoreError:
                quiet = 0
            if quiet == 2:
                return
            time.sleep(LOOK)

    @contextmanager
    def _proxy(self) -> Iterator[ProxyProcess | None]:
        if "cut" not in self.plan.faults:
            yield None
            return
        proxy = ProxyProcess(self.plan.url)
        try:
            yield proxy
        finally:
            proxy.close()


def check_folder(folder: Path) -> TortureVerdict:
    """The verdict over a run that is over, from what it left in its folder."""
    verdict = check(read_folder(folder), FinalState.load(folder / FINAL))
    (folder / VERDICT).write_bytes(msgspec.json.format(msgspec.json.encode(verdict)))
    return verdict


def tidy(plan: TorturePlan) -> None:
    """Takes the messages of a run out of a database that is not its own. The names of its queues stay."""
    with client(plan) as hf:
        declare(hf, msgspec.structs.replace(plan, keeps=False), forget=True)
        hf.dead_letters.delete_many()
        for end in channels(plan):
            if end.kind != TOPIC:
                hf.queues.purge(end.name)
        while hf.maintain():
            continue
        if plan.delivery == "sqs":
            for name in hf.queues.list():
                with suppress(DeliveryFailed):
                    internals(hf).transport.through_sqs().queue(internals(hf).catalog.channel(name)).remove()
