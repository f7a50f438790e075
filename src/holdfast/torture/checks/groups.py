"""Groups: each gets everything that was published, and the messages of a key in the same order as the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from holdfast.torture.account import Account, ObservedClaim, ObservedSend
from holdfast.torture.checks.lost import is_gone
from holdfast.torture.ending import TOPIC


def owed_to_groups(found: Account) -> Iterator[str]:
    """All groups have subscribed before the first message. What one of them got was published, whatever its producer
    was told."""
    for sent in found.sends:
        end = found.ends.get(sent.channel)
        id = found.stored(sent) if end is not None and end.kind == TOPIC else None
        if id is None:
            continue
        for group in found.readers(sent.channel):
            if is_gone(found, group, id):
                yield f"{sent.value!r} was published to {sent.channel} as {id}, but {group} never got it"


def orders_that_differ(found: Account) -> Iterator[str]:
    """Of ordered groups: what was published at the same time has no order of its own, but all groups see the same."""
    for topic in found.final.channels:
        if topic.kind == TOPIC:
            groups = [name for name in found.readers(topic.name) if found.ends[name].ordered]
            yield from _differing(found, topic.name, groups)


def _differing(found: Account, topic: str, groups: list[str]) -> Iterator[str]:
    keys = {sent.id: sent.key for sent in found.sends if sent.channel == topic and sent.key is not None}
    ranks: dict[str, int] = {}
    for number, group in enumerate(groups):
        firsts: defaultdict[str, list[ObservedClaim]] = defaultdict(list)
        for (channel, id), grants in found.grants.items():
            if channel == group and id in keys:
                firsts[str(keys[id])].append(grants[0])
        for key, line in firsts.items():
            line.sort(key=lambda grant: (grant.since, grant.at))
            if number == 0:
                ranks.update({grant.id: rank for rank, grant in enumerate(line)})
                continue
            known = [grant for grant in line if grant.id in ranks]
            for earlier, later in pairwise(known):
                if ranks[earlier.id] > ranks[later.id]:
                    yield f"{group} got {earlier.id} before {later.id} (key {key!r}), {groups[0]} the other way round"


def passed_by(found: Account) -> Iterator[str]:
    """A group's cursor goes one way: what was published before is first given to it before, or at the same time. Groups
    that are ordered have a stricter rule. A message that somebody claimed unheard has an attempt behind it."""
    for topic in found.final.channels:
        if topic.kind == TOPIC:
            for group in found.readers(topic.name):
                if not found.ends[group].ordered:
                    yield from _passed_by(found, topic.name, group)


def _passed_by(found: Account, topic: str, group: str) -> Iterator[str]:
    """Key by key, because each may have a priority of its own."""
    lines: defaultdict[str | None, list[tuple[ObservedSend, ObservedClaim]]] = defaultdict(list)
    for sent in found.sends:
        grants = found.grants.get((group, sent.id))
        if sent.channel == topic and grants and grants[0].attempt == 1:
            lines[sent.key].append((sent, grants[0]))
    for line in lines.values():
        stored = sorted(line, key=lambda one: one[0].returned)
        ahead, latest = 0, line[0][1]
        for sent, first in sorted(line, key=lambda one: one[0].invoked):
            while stored[ahead][0].returned < sent.invoked:
                latest = stored[ahead][1] if ahead == 0 else max(latest, stored[ahead][1], key=lambda one: one.asked)
                ahead += 1
            if ahead and latest.asked > first.at:
                yield f"{group} got {latest.id} only after {first.id}, which was published later: {latest.told()}"
