"""Pointers: all that SQS ever gets to see of a message. Its id and its generation, in ASCII."""

from __future__ import annotations

import re

import msgspec

from holdfast.core.message import MessageId, id_text

_FORM = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([1-9][0-9]{0,17})", re.ASCII)


class Pointer(msgspec.Struct, frozen=True):
    """One hand-over of a message: the next one of the same message has a higher generation."""

    id: MessageId
    generation: int

    def text(self) -> str:
        """As SQS carries it, and as it is known to SQS: no two hand-overs have the same."""
        return f"{id_text(self.id)}.{self.generation}"


def read_pointer(text: object) -> Pointer | None:
    """The way back; None for anything else that someone has put into the queue.

    >>> read_pointer("0192a4c8-0000-7000-8000-000000000001.3").generation
    3
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    return Pointer(MessageId(bytes.fromhex(found[1].replace("-", ""))), int(found[2]))
