"""A run: neighbouring messages of a lane under one lease, settled together or one by one.

Most runs are settled whole and then nothing is ever counted. Only a run that is split carries a bit per member,
in the order of the lane; a set bit means that the member's claim has ended, whatever became of it.
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


def is_finished(bits: Bits, size: int) -> bool:
    """Whether no member is left."""
    return int.from_bytes(bits, "little").bit_count() == size
