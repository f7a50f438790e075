"""Whose turn it is: the order in which a consumer looks at its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

POLICIES = ("round_robin", "weighted", "strict", "random")


class Rotation:
    """Turns over some queues, by a policy. Only `strict` lets a queue starve: it never looks past one that has work.

    Weighted turns are spread evenly: with weights 3 and 1 the first queue leads three times in four, never more than
    three times in a row. Round robin is the same with equal weights, until an attachment brings one of its own.
    """

    def __init__(self, policy: str, weights: Mapping[str, float]) -> None:
        self.policy = policy
        self._weights = dict(weights)
        self._credit = dict.fromkeys(self._weights, 0.0)

    def order(self, chances: Sequence[float] = ()) -> list[str]:
        """The queues, the one whose turn it is first. `random` needs a chance for each."""
        names = list(self._weights)
        if self.policy == "strict" or not names:
            return names
        if self.policy == "random":
            return [name for _, name in sorted(zip(chances, names, strict=True))]
        for name, weight in self._weights.items():
            self._credit[name] += weight
        ordered = sorted(names, key=lambda name: -self._credit[name])
        self._credit[ordered[0]] -= sum(self._weights.values())
        return ordered
