"""Names of topics, and patterns over them: `*` is one segment, `**` the rest. Matched by segments, never by letters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache

from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, shown

ONE = "*"
REST = "**"
MOST_PATTERNS = 100


def topic_name(name: str, what: str = "name") -> str:
    """Checks the name of a topic, or of something below one: segments with dots in between, none of them empty.

    >>> topic_name("orders.eu.created")
    'orders.eu.created'
    """
    channel_name(name, what)
    segments = name.split(".")
    if not all(segments):
        raise InvalidInput(f"{what} {shown(name)} has an empty segment: write it like orders.eu.created")
    if any(ONE in segment for segment in segments):
        raise InvalidInput(f"{what} {shown(name)} is a pattern; a message is published under one name")
    return name


def names_above(name: str) -> list[str]:
    """The names that would own this one.

    >>> names_above("orders.eu.created")
    ['orders', 'orders.eu']
    """
    segments = name.split(".")
    return [".".join(segments[:count]) for count in range(1, len(segments))]


def belongs(name: str, topic: str) -> bool:
    """Whether something can be published under this name that goes to the topic.

    >>> [belongs(name, "orders") for name in ("orders.eu", "orders", "ordersx", "orders.*")]
    [True, True, False, False]
    """
    if name != topic and not name.startswith(f"{topic}."):
        return False
    try:
        topic_name(name)
    except InvalidInput:
        return False
    return True


def similar_name(name: str, topics: Iterable[str], queues: Iterable[str]) -> str | None:
    """A name that was perhaps meant: of a queue, or below a topic whose own segments are spelt alike.

    >>> similar_name("order.eu.created", ["orders"], ["emails"])
    'orders.eu.created'
    """
    segments = name.split(".")
    meant = set(queues)
    for topic in topics:
        depth = topic.count(".") + 1
        if get_close_matches(".".join(segments[:depth]).lower(), [topic.lower()]):
            meant.add(".".join([topic, *segments[depth:]]))
    by_lower = {one.lower(): one for one in sorted(meant)}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def first_segment(patterns: Sequence[str]) -> str:
    """The topic that patterns are about, if it has one segment."""
    if not patterns:
        raise InvalidInput("say what to get, such as 'orders.*.created', or of which topic everything: topic='orders'")
    return topic_name(channel_name(patterns[0], "pattern").split(".")[0], "topic")


def patterns_of(topic: str, patterns: Sequence[str] | str | None) -> tuple[str, ...]:
    """Checks what a group wants of a topic; everything if it does not say.

    >>> patterns_of("orders", None)
    ('orders.**',)
    """
    if patterns is None:
        return (f"{topic}.{REST}",)
    listed = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(listed, Iterable) or not (wanted := tuple(listed)):
        raise InvalidInput(f"patterns must be a list such as ['{topic}.*.created'], not {shown(patterns)}")
    if len(wanted) > MOST_PATTERNS:
        raise InvalidInput(f"a group may have {MOST_PATTERNS} patterns, not {len(wanted)}")
    return tuple(dict.fromkeys(_pattern(topic, one) for one in wanted))


def _pattern(topic: str, pattern: str) -> str:
    segments = channel_name(pattern, "pattern").split(".")
    if not all(segments):
        raise InvalidInput(f"pattern {shown(pattern)} has an empty segment: write it like {topic}.*.created")
    for segment in segments:
        if ONE in segment and segment not in (ONE, REST):
            raise InvalidInput(f"pattern {shown(pattern)}: a * stands for a whole segment, as in {topic}.*.created")
    if REST in segments[:-1]:
        raise InvalidInput(f"pattern {shown(pattern)}: ** stands for the rest, so it can only be at the end")
    own = topic.split(".")
    if segments[: len(own)] != own:
        raise InvalidInput(f"pattern {shown(pattern)} does not begin with {topic!r}, the topic that it is about")
    return pattern


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern.

    >>> matches("orders.*.created", "orders.eu.created"), matches("orders.**", "orders"), matches("orders.*", "orders")
    (True, True, False)
    """
    wanted, segments = pattern.split("."), name.split(".")
    if wanted[-1] == REST:
        wanted = wanted[:-1]
        segments = segments[: len(wanted)]
    return len(wanted) == len(segments) and all(
        one in (ONE, segment) for one, segment in zip(wanted, segments, strict=True)
    )


def matches_any(patterns: Sequence[str], name: str) -> bool:
    """Whether a name fits one of the patterns."""
    return any(matches(pattern, name) for pattern in patterns)


def wants_all(topic: str, patterns: Sequence[str]) -> bool:
    """Whether everything that is published to a topic fits."""
    return f"{topic}.{REST}" in patterns


@lru_cache(maxsize=10_000)
def is_wanted(wanted: str, name: str) -> bool:
    """Whether a name fits an `expression`. There are few names, and many messages."""
    return re.match(wanted, name) is not None


def expression(patterns: Sequence[str]) -> str:
    """The patterns as one regular expression, which a database can match by itself. Segments hold no dots.

    >>> expression(["orders.*.created", "orders.eu.**"])
    '^(orders\\\\.[^.]+\\\\.created|orders\\\\.eu(\\\\.[^.]+)*)$'
    """
    return "^(" + "|".join(_expression(pattern) for pattern in patterns) + ")$"


def _expression(pattern: str) -> str:
    segments = pattern.split(".")
    rest = r"(\.[^.]+)*" if segments[-1] == REST else ""
    kept = segments[:-1] if rest else segments
    return r"\.".join("[^.]+" if segment == ONE else re.escape(segment) for segment in kept) + rest
