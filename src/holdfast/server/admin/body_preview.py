"""A look at a body that may be large: its beginning, at every level."""

from __future__ import annotations

from itertools import islice
from typing import Any

MOST_LETTERS = 200
MOST_PARTS = 20
MOST_LEVELS = 6
CUT = "…"


def preview(value: Any, levels: int = MOST_LEVELS) -> Any:
    """The same value with long texts, lists and objects cut, and what lies deep left out.

    >>> preview({"a": ["x" * 1000], "b": 1})["a"][0][:3]
    'xxx'
    """
    if isinstance(value, str):
        return value if len(value) <= MOST_LETTERS else value[:MOST_LETTERS] + CUT
    if isinstance(value, dict):
        if levels == 0:
            return CUT
        return {preview(name): preview(part, levels - 1) for name, part in islice(value.items(), MOST_PARTS)}
    if isinstance(value, list):
        return CUT if levels == 0 else [preview(part, levels - 1) for part in value[:MOST_PARTS]]
    return value
