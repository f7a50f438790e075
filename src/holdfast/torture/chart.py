"""A chart of a long run, as an SVG that needs nothing else."""

from __future__ import annotations

from holdfast.torture.plan import TorturePlan
from holdfast.torture.soak import Gauge, SoakSample

WIDTH, HEIGHT, GAP, LEFT, TOP = 720, 90, 44, 60, 40

ROWS = (
    ("rate", "messages done per second", "#2563eb"),
    ("memory", "MB of memory, the largest process", "#dc2626"),
    ("lasting", "MB of memory, all processes that are never killed", "#9333ea"),
    ("database", "MB of the database", "#059669"),
    ("log", "MB of the write-ahead log", "#d97706"),
)


def draw(gauge: Gauge, plan: TorturePlan) -> str:
    """One row per quantity, from zero to its most, over the time of the run."""
    readings = gauge.readings or [SoakSample(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    rows = [row for row in ROWS if any(getattr(one, row[0]) for one in readings)]
    height = TOP + len(rows) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + 20}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{plan.seconds:g} s of torture, seed {plan.seed}</text>',
    ]
    for number, (name, title, colour) in enumerate(rows):
        parts += _row(readings, name, title, colour, TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _row(readings: list[SoakSample], name: str, title: str, colour: str, top: int) -> list[str]:
    values = [float(getattr(one, name)) for one in readings]
    most, last = max(values) or 1.0, readings[-1].at or 1.0
    points = " ".join(
        f"{LEFT + one.at / last * WIDTH:.1f},{top + 16 + (1 - value / most) * HEIGHT:.1f}"
        for one, value in zip(readings, values, strict=True)
    )
    bottom = top + 16 + HEIGHT
    return [
        f'<text x="{LEFT}" y="{top + 10}">{title}</text>',
        f'<text x="{LEFT - 6}" y="{top + 24}" text-anchor="end" fill="#666">{most:,.{0 if most >= 10 else 1}f}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end" fill="#666">0</text>',
        f'<text x="{LEFT + WIDTH}" y="{bottom + 14}" text-anchor="end" fill="#666">{last:,.0f} s</text>',
        f'<path d="M{LEFT},{top + 16}V{bottom}H{LEFT + WIDTH}" fill="none" stroke="#999"/>',
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
    ]
