"""Groups: each gets everything that was published, and the messages of a key in the same order as the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from holdfast.torture.account import Account, Grant
from holdfast.torture.checks.lost import is_gone
from holdfast.torture.ending import TOPIC
from holdfast.torture.history import OK


def owed_to_groups(found: Account) -> Iterator[str]:
    """All groups have subscribed before the first message."""
    for sent in found.sends:
        end = found.ends.get(sent.channel)
        if sent.outcome != OK or end is None or end.kind != TOPIC:
            continue
        for group in found.readers(sent.channel):
            if is_gone(found, sent, group):
                yield f"{sent.value!r} was published to {sent.channel} as {sent.stored}, but {group} never got it"


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
        firsts: defaultdict[str, list[Grant]] = defaultdict(list)
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
