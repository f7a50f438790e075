"""What may leave a topic: decided by who still waits for a message and who holds it, never by counting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.message import MessageId

Place = tuple[int, int]
"""Where a message stands in its lane; the later one is the larger."""

Range = tuple[Place, Place]
"""The messages after one place and up to another."""


class Loss(msgspec.Struct, frozen=True):
    """So many messages went before the group of this address got them."""

    name: str
    count: int


class Retained(msgspec.Struct, frozen=True):
    """What came of one step: how much went, and who had not read it."""

    gone: int = 0
    losses: Sequence[Loss] = ()


class RetainedMessage(msgspec.Struct, frozen=True):
    """A message of a topic. Times are microseconds since 1970."""

    place: Place
    id: MessageId
    enqueued_at: int
    expires_at: int | None
    topic: str


class Reader(msgspec.Struct, frozen=True):
    """A group of the topic: who waits, from which place on (None: for nothing), and for which names (None: for all)."""

    group: int
    name: str
    is_dead: bool
    wanted: str | None
    waits_from: Place | None

    def misses(self, place: Place) -> bool:
        """Whether it still waits for something up to this place."""
        return self.waits_from is not None and self.waits_from <= place


def removable(
    front: Sequence[RetainedMessage],
    readers: Sequence[Reader],
    held: Iterable[Range],
    done_before: int,
    all_before: int,
    sure: Iterable[int] | None = None,
) -> list[RetainedMessage]:
    """The messages at the front of a lane that may go; `held` is what is in someone's hands, which never does.

    What every live group is done with goes if it came at or before `done_before`; everything at or before `all_before`,
    whoever waits for it. Without a live group only that is left: those who come later find what is retained.
    Nothing goes that a group waits for which is not in `sure` (None: all are): it may be claiming just now.
    """
    trusted = None if sure is None else set(sure)
    doubtful = [one for one in readers if trusted is not None and one.group not in trusted]
    live = [one for one in readers if not one.is_dead]
    barred, needed = _first(doubtful), _first([*live, *doubtful])
    chosen = []
    for kept in _free(front, held):
        is_over = kept.enqueued_at <= all_before and (barred is None or kept.place < barred)
        is_done = kept.enqueued_at <= done_before and bool(live) and (needed is None or kept.place < needed)
        if not is_over and not is_done:
            break
        chosen.append(kept)
    return chosen


def _first(readers: Iterable[Reader]) -> Place | None:
    return min((one.waits_from for one in readers if one.waits_from is not None), default=None)


def _free(front: Sequence[RetainedMessage], held: Iterable[Range]) -> Iterable[RetainedMessage]:
    """Those of the front that are in no range, in order."""
    ranges = sorted(held)
    reach: Place | None = None
    for kept in front:
        while ranges and ranges[0][0] < kept.place:
            last = ranges.pop(0)[1]
            reach = last if reach is None else max(reach, last)
        if reach is None or kept.place > reach:
            yield kept
