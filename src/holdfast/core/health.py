"""What a look at a database may find, and when that is worth a word of advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Grade = Literal["ok", "advice", "problem"]

MOST_COUNTED = 1_000
"""Things are counted up to here: a look must be quick however much there is."""

MOST_LISTED = 20
"""How many queues a check names before it only says how many more there are."""

LONG_WAIT = 15 * 60_000_000
NOTICEABLE_SKEW = 2_000_000
SERIOUS_SKEW = 60_000_000


class HealthFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found, how good that is, and what to do if it is not good."""

    check: str
    state: Grade
    found: str
    advice: str | None = None


class QueueHealth(msgspec.Struct, frozen=True):
    """What a look at one queue sees. `lapsed` leases ran out a while ago, and nobody took them back."""

    tenant: str
    name: str
    paused: bool
    open: int
    lapsed: int
    waiting_since: int | None
    blocked: int
    dead: int

    @property
    def label(self) -> str:
        """The queue as an operator calls it; the tenant in front unless it is the usual one."""
        return label(self.tenant, self.name)

    @property
    def argument(self) -> str:
        """The queue as the argument of a command, and its tenant as an option."""
        tenant = "" if self.tenant == "default" else f" --tenant {shlex.quote(self.tenant)}"
        return f"{shlex.quote(self.name)}{tenant}"


def label(tenant: str, name: str) -> str:
    """A queue as an operator calls it; the tenant in front unless it is the usual one."""
    return name if tenant == "default" else f"{tenant}/{name}"


def ok(check: str, found: str) -> HealthFinding:
    """Nothing to do."""
    return HealthFinding(check, "ok", found)


def advise(check: str, found: str, advice: str) -> HealthFinding:
    """It works, but someone should know."""
    return HealthFinding(check, "advice", found, advice)


def problem(check: str, found: str, advice: str) -> HealthFinding:
    """It does not work, or puts messages at risk."""
    return HealthFinding(check, "problem", found, advice)


def schema_finding(version: int, newest: int) -> HealthFinding:
    """The structure of the database against what this code knows."""
    if version > newest:
        found = f"{version}, this Holdfast knows {newest}"
        return problem("schema", found, "A newer Holdfast has migrated the database: upgrade this installation.")
    if version == 0:
        return advise(
            "schema",
            "there is nothing of Holdfast in this database",
            "If it is the right one, and we may see its tables: run `holdfast migrate`, or let the first client do it.",
        )
    if version < newest:
        found = f"{version}, the newest is {newest}"
        return advise(
            "schema", found, "Run `holdfast migrate`; a client with migrate=False refuses to work until then."
        )
    return ok("schema", f"{version}, the newest")


def newest_finding(newest: int | None, now: int) -> HealthFinding:
    """The latest time that anything in the database carries against its clock: a clock that went back shows."""
    ahead = (newest or 0) - now
    if ahead <= NOTICEABLE_SKEW:
        return ok("clock", "nothing in the database is from the future")
    found = f"the newest entry is from {span(ahead)} in the future: the database's clock went back"
    advice = "Until the clock has caught up, delays and leases last that much longer. Correct the clock; use NTP."
    return problem("clock", found, advice) if ahead > SERIOUS_SKEW else advise("clock", found, advice)


def skew_finding(ahead: int) -> HealthFinding:
    """The server's clock against this machine's."""
    if abs(ahead) <= NOTICEABLE_SKEW:
        return ok("clock", "the server's and this machine's agree")
    return advise(
        "clock",
        f"the server's is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this machine's",
        "Delays and leases go by the server's clock, so nothing breaks; but correct the one that is wrong: use NTP.",
    )


def queue_findings(queues: Sequence[QueueHealth], now: int, is_cut: bool) -> list[HealthFinding]:
    """Everything about queues, the ones that need someone first."""
    if not queues:
        return [ok("queues", "there are none yet")]
    leases = [_leases(queue) for queue in queues if queue.open]
    waiting = [_waiting(q, now - q.waiting_since) for q in queues if not q.paused and q.waiting_since is not None]
    return [
        _how_many(queues, is_cut),
        *_listed("paused", [_paused(queue) for queue in queues if queue.paused], "no queue is"),
        *_listed("leases", leases, "none are open"),
        *_listed(
            "waiting", [one for one in waiting if one.state != "ok"], f"nothing for longer than {span(LONG_WAIT)}"
        ),
        *_listed("blocked keys", [_blocked(queue) for queue in queues if queue.blocked], "none"),
        *_listed("dead letters", [_dead(queue) for queue in queues if queue.dead], "none that were not replayed"),
    ]


def saga_findings(stuck: Sequence[tuple[str, int]]) -> list[HealthFinding]:
    """Sagas of which an undo has failed, by tenant: each waits for someone."""
    found = [_stuck_sagas(tenant, number) for tenant, number in stuck if number]
    return _listed("sagas", found, "none waits for someone to undo it")


def _stuck_sagas(tenant: str, number: int) -> HealthFinding:
    option = "" if tenant == "default" else f" --tenant {shlex.quote(tenant)}"
    return advise(
        "sagas",
        f"{count(number)} could not be undone{option and f' ({tenant})'}",
        f"See `holdfast sagas list --status compensation_failed{option}`; retry, skip or mark done the step of each.",
    )


def _how_many(queues: Sequence[QueueHealth], is_cut: bool) -> HealthFinding:
    if is_cut:
        return advise("queues", f"more than {len(queues):,}", f"Only the first {len(queues):,} were looked at.")
    return ok("queues", f"{len(queues):,}")


def _listed(check: str, findings: Iterable[HealthFinding], otherwise: str) -> list[HealthFinding]:
    """Those that need someone first, and not too many."""
    found = sorted(findings, key=lambda one: one.state == "ok")
    if len(found) > MOST_LISTED:
        rest = found[MOST_LISTED:]
        state: Grade = "ok" if rest[0].state == "ok" else "advice"
        return [*found[:MOST_LISTED], HealthFinding(check, state, f"and {len(rest):,} queues more", rest[0].advice)]
    return found or [ok(check, otherwise)]


def _paused(queue: QueueHealth) -> HealthFinding:
    return advise("paused", queue.label, f"Nothing is handed out until `holdfast queues resume {queue.argument}`.")


def _leases(queue: QueueHealth) -> HealthFinding:
    if not queue.lapsed:
        return ok("leases", f"{queue.label}: {count(queue.open)} open")
    return advise(
        "leases",
        f"{queue.label}: {count(queue.open)} open, of which {count(queue.lapsed)} ran out and were not taken back",
        "Any client that claims from the queue takes them back: none does. Start a consumer.",
    )


def _waiting(queue: QueueHealth, age: int) -> HealthFinding:
    if age <= LONG_WAIT:
        return ok("waiting", queue.label)
    advice = (
        "Someone works on the queue, but does not keep up: start more consumers, or look for one that hangs."
        if queue.open > queue.lapsed
        else "Nobody claims from the queue: start a consumer."
    )
    return advise("waiting", f"{queue.label}: the oldest message for {span(age)}", advice)


def _blocked(queue: QueueHealth) -> HealthFinding:
    return advise(
        "blocked keys",
        f"{queue.label}: {count(queue.blocked)}",
        f"See `holdfast queues blocked {queue.argument}`; replay the dead letter of each, or unblock it.",
    )


def _dead(queue: QueueHealth) -> HealthFinding:
    return advise(
        "dead letters",
        f"{queue.label}: {count(queue.dead)} not replayed",
        f"See `holdfast dead-letters list --queue {queue.argument}`; replay or delete them.",
    )


def count(number: int) -> str:
    """A number that was counted up to a limit."""
    return f"{number:,}" if number < MOST_COUNTED else f"{MOST_COUNTED:,} or more"


def span(micros: int) -> str:
    """A length of time in the one unit that suits it."""
    seconds = micros / 1_000_000
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def size(count: int) -> str:
    """A number of bytes in the one unit that suits it."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:,.1f} {unit}" if count < 10 * length else f"{count / length:,.0f} {unit}"
    return f"{count} bytes"
