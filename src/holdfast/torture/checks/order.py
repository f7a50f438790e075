"""Order: of one key, the next message is given to nobody before the one sent earlier has ended for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import inf

import msgspec

from holdfast.torture.account import Account, ObservedClaim
from holdfast.torture.checks.leases import CLOCK_STEP
from holdfast.torture.ending import OVER
from holdfast.torture.history import FINAL_ENDINGS


class Line(msgspec.Struct):
    """One message of a key in one channel. `stored` is when its producer knew of it.

    It had not ended before `over`, when its holder said so; or, if nobody did, before `lapsed` by the database's clock.
    """

    id: str
    invoked: int
    stored: float
    first: ObservedClaim
    over: float = -inf
    lapsed: float = -inf


def out_of_order(found: Account) -> Iterator[str]:
    """Of what was stored before a message was sent, only the one that ended last matters."""
    for (channel, key), lines in _lines(found).items():
        by_stored = sorted(lines, key=lambda line: line.stored)
        ahead = 0
        over = lapsed = by_stored[0]
        known = False
        for line in sorted(lines, key=lambda line: line.invoked):
            while by_stored[ahead].stored < line.invoked:
                one, ahead = by_stored[ahead], ahead + 1
                over = one if not known or one.over > over.over else over
                lapsed = one if not known or one.lapsed > lapsed.lapsed else lapsed
                known = True
            if known and line.first.at < over.over:
                yield _told(channel, key, line, over)
            elif known and line.first.since + CLOCK_STEP < lapsed.lapsed:
                yield _told(channel, key, line, lapsed)


def _told(channel: str, key: str, line: Line, before: Line) -> str:
    return (
        f"{line.id} of {channel}, key {key!r}, was claimed before {before.id}, sent earlier, had ended: "
        f"{line.first.told()}"
    )


def _lines(found: Account) -> dict[tuple[str, str], list[Line]]:
    """By channel and key. What nobody claimed says nothing."""
    stored: dict[tuple[str, str], float] = {}
    for sent in found.sends:
        if sent.stored:
            name = sent.channel, sent.stored
            stored[name] = min(stored.get(name, inf), sent.returned)
    lines: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for sent in found.sends:
        if sent.key is None:
            continue
        for reader in found.readers(sent.channel):
            end = found.ends.get(reader)
            grants = found.grants.get((reader, sent.id))
            if end is not None and end.ordered and grants:
                line = Line(sent.id, sent.invoked, stored.get((sent.channel, sent.id), inf), grants[0])
                _date_its_end(line, grants, end.messages.get(sent.id))
                lines[reader, sent.key].append(line)
    return lines


def _date_its_end(line: Line, grants: list[ObservedClaim], state: str | None) -> None:
    ends = [
        end.invoked for grant in grants for end in grant.endings if end.may_have_happened and end.op in FINAL_ENDINGS
    ]
    last = grants[-1]
    if ends:
        line.over = min(ends)
    elif state is not None and state not in OVER:
        line.over = inf
    else:
        line.lapsed = last.since if last.endings else last.held_until(1 << 62)
