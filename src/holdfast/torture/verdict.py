"""What a checker says in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

KEPT_PER_CHECK = 20
"""So many violations of a kind are told; the rest is counted."""


class Violation(msgspec.Struct, frozen=True):
    """Something that must not be."""

    check: str
    what: str


class TortureVerdict(msgspec.Struct):
    """Numbers, violations by check, and the first of each kind in words."""

    counts: dict[str, int] = {}
    faults: dict[str, int] = {}
    """How often each was done."""
    silence: dict[str, float] = {}
    """By fault: the longest time, in seconds, until the next message was done."""
    violations: dict[str, int] = {}
    findings: list[Violation] = []

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())

    @property
    def is_empty(self) -> bool:
        """Nothing was violated, because nothing happened."""
        return self.clean and not (self.counts["enqueued"] and self.counts["done"])


def judge(verdict: TortureVerdict, checks: dict[str, Iterable[str]]) -> TortureVerdict:
    """Adds what the checks found."""
    violations: Counter[str] = Counter(dict.fromkeys(checks, 0))
    for name, found in checks.items():
        for what in found:
            violations[name] += 1
            if violations[name] <= KEPT_PER_CHECK:
                verdict.findings.append(Violation(name, what))
    verdict.violations = dict(violations)
    return verdict
