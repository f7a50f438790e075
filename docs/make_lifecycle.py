#!/usr/bin/env python3
"""Draws the life of a message, from the table in holdfast.core.lifecycle, into explanation/lifecycle.md.

python docs/make_lifecycle.py           write the chart
python docs/make_lifecycle.py --check   fail if the page shows another one
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from holdfast.core.lifecycle import FINAL, TABLE, LifecycleEvent, State

PAGE = Path(__file__).parent / "explanation" / "lifecycle.md"
BEGIN = "<!-- chart: begin (made by docs/make_lifecycle.py) -->"
END = "<!-- chart: end -->"


def chart() -> str:
    """A mermaid state diagram: moves between the same two states share an arrow."""
    arrows: dict[tuple[State, State], list[LifecycleEvent]] = defaultdict(list)
    for (state, event), after in TABLE.items():
        arrows[state, after].append(event)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.PENDING}: enqueued"]
    lines += [f"    {state} --> {after}: {', '.join(events)}" for (state, after), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join([*lines, "```"])


def with_chart(page: str) -> str:
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{chart()}\n\n{END}{after}"


def main() -> int:
    page = PAGE.read_text()
    current = with_chart(page)
    if "--check" in sys.argv[1:]:
        if current != page:
            print(f"{PAGE.name} shows another chart: run python docs/make_lifecycle.py", file=sys.stderr)
        return int(current != page)
    PAGE.write_text(current)
    return 0


if __name__ == "__main__":
    sys.exit(main())
