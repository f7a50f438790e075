"""A run: neighbouring messages of a lane under one lease, settled together or one by one.

Most runs are settled whole and then nothing is ever counted. Only a run that is split carries bits, one per member in
the order of the lane: `settled` for members whose claim has ended, and `gone` for those among them that left the lane
because they were not simply acked.
"""

from __future__ import annotations

from collections.abc import Iterable

Bits = bytes


def is_settled(bits: Bits | None, member: int) -> bool:
    """Whether this member's claim has ended."""
    return bits is not None and bool(bits[member >> 3] & (1 << (member & 7)))


def settle(bits: Bits | None, size: int, members: Iterable[int]) -> Bits:
    """The bits after these members' claims have ended too."""
    changed = bytearray(bits or bytes((size + 7) // 8))
    for member in members:
        changed[member >> 3] |= 1 << (member & 7)
    return bytes(changed)


def places_left(gone: Bits | None, size: int) -> list[int]:
    """The places of the members that are still in the lane, in its order."""
    return [member for member in range(size) if not is_settled(gone, member)]


def count(bits: Bits | None) -> int:
    """How many are marked."""
    return int.from_bytes(bits or b"", "little").bit_count()


def is_finished(bits: Bits, size: int) -> bool:
    """Whether no member is left."""
    return count(bits) == size
