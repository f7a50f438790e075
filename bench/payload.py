"""The message that every workload sends: a dict of about 200 bytes as JSON, numbered so that nothing can hide."""

from collections.abc import Iterable, Sequence
from typing import Any

_TEXT = "Your order has left the warehouse and will reach you within about two working days."

STEPS = ("flight", "hotel", "car")
"""Of a saga."""


def body(number: int) -> dict[str, Any]:
    return {
        "n": number,
        "to": f"customer-{number:08d}@example.com",
        "template": "order-shipped",
        "locale": "en_GB",
        "urgent": False,
        "text": _TEXT,
    }


def bodies(start: int, count: int) -> list[dict[str, Any]]:
    return [body(number) for number in range(start, start + count)]


def fault(numbers: Iterable[int], expected: int, left: int = 0) -> str | None:
    """What is wrong with the numbers that came out, if 0 … expected-1 went in and `left` are said to be left."""
    found: Sequence[int] = sorted(numbers)
    if left:
        return f"{left} messages left in the queue that should be empty"
    if found == list(range(expected)):
        return None
    missing = len(set(range(expected)) - set(found))
    return f"of {expected} messages {missing} did not come out, and {len(found) - len(set(found))} came twice"
