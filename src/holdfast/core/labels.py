"""Labels: what a consumer is (`tier=haiku`), and what a queue requires of those who work on it."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput, shown

MOST_LABELS = 20
LONGEST = 200


def labels(value: Any, what: str = "labels") -> dict[str, str]:
    """Checks what a user wrote: a dict of texts."""
    if not isinstance(value, dict) or len(value) > MOST_LABELS:
        raise InvalidInput(f'{what} must be a dict such as {{"tier": "haiku"}} with at most {MOST_LABELS} entries')
    for name, text in value.items():
        if not _is_plain(name) or not _is_plain(text):
            raise InvalidInput(
                f"{what} must have short printable texts as names and values, not {shown(name)}: {shown(text)}"
            )
    return dict(value)


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and text.isprintable() and 0 < len(text) <= LONGEST


def missing(has: dict[str, str], requires: dict[str, str]) -> dict[str, str]:
    """What is required and not there."""
    return {name: text for name, text in requires.items() if has.get(name) != text}
