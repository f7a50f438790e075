"""Commitments for users: how the checks went. (`awaiting_commitments` has it for asyncio.)"""

from __future__ import annotations

from holdfast.channels import ChannelBook
from holdfast.core.commitments import CommitmentResult
from holdfast.core.message import id_bytes
from holdfast.settings import Settings
from holdfast.store.api import Store


class Committing:
    """The part of a client that knows what was promised of messages, and whether it was kept."""

    settings: Settings
    store: Store
    _book: ChannelBook

    def commitments(self, message_id: str) -> list[CommitmentResult]:
        """How the checks of a message's commitments went, attempt by attempt, for as long as its history lasts."""
        self._book.open()
        return self.store.commitments.of(self.settings.tenant, id_bytes(message_id))
