"""Who did what to which message. The verdict is by ids, never by counts alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.cli.demo.worker import DemoClaimed, Enqueued, Report, Settled


class Tally(msgspec.Struct):
    """What one process has reported."""

    enqueued: int = 0
    claimed: int = 0
    done: int = 0
    failed: int = 0
    claimed_at: float = 0.0
    held: set[str] = msgspec.field(default_factory=set)


class DemoVerdict(msgspec.Struct, frozen=True):
    """The account at the end."""

    enqueued: int
    done: int
    dead: int
    unreported: int
    missing: list[str]
    doubtful: list[str]

    @property
    def nothing_lost(self) -> bool:
        """Every message has exactly one end."""
        return not self.missing and not self.doubtful and self.enqueued == self.done + self.dead


class DemoAccount:
    """Fed with the reports of all processes."""

    def __init__(self) -> None:
        self.enqueued: set[str] = set()
        self.done: set[str] = set()
        self.acked_twice: set[str] = set()
        self.orphans: set[str] = set()
        self.taken_over: set[str] = set()
        self.failures = 0

    def note(self, tally: Tally, what: Report) -> None:
        """One report of one process."""
        if isinstance(what, Enqueued):
            tally.enqueued += len(what.ids)
            self.enqueued.update(what.ids)
        elif isinstance(what, DemoClaimed):
            tally.claimed += len(what.ids)
            tally.claimed_at = what.at
            tally.held = set(what.ids)
            self.taken_over |= self.orphans & tally.held
        else:
            self._note_settled(tally, what)

    def orphan(self, tally: Tally) -> None:
        """This process was killed: what it held must be done by someone else."""
        self.orphans |= tally.held

    def verdict(self, dead: set[str], succeeded: Callable[[str], bool]) -> DemoVerdict:
        """Every enqueued message must be done or dead, and nothing may be both, or twice, or from nowhere.

        A consumer that was killed between a commit and its report cannot tell of it: then the database is asked.
        """
        unaccounted = sorted(self.enqueued - self.done - dead)
        unreported = [message_id for message_id in unaccounted if succeeded(message_id)]
        return DemoVerdict(
            enqueued=len(self.enqueued),
            done=len(self.done) + len(unreported),
            dead=len(dead),
            unreported=len(unreported),
            missing=sorted(set(unaccounted) - set(unreported)),
            doubtful=sorted((self.done & dead) | ((self.done | dead) - self.enqueued) | self.acked_twice),
        )

    def _note_settled(self, tally: Tally, what: Settled) -> None:
        done = set(what.done)
        tally.done += len(what.done)
        tally.failed += len(what.failed)
        tally.held = set()
        self.acked_twice |= done & self.done
        self.done |= done
        self.failures += len(what.failed)
