"""New ids."""

from __future__ import annotations

from uuid_utils import uuid7

from holdfast.core.message import MessageId


def new_id() -> MessageId:
    """A UUIDv7: unique everywhere, and later ones sort behind earlier ones of this process."""
    return MessageId(uuid7().bytes)
