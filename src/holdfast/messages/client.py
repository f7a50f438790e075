"""Single messages for users: looked up, searched for, cancelled."""

from __future__ import annotations

from typing import Any

from holdfast.client.namespace import Namespace
from holdfast.client.validate import checked_count
from holdfast.commitments.rules import CommitmentResult
from holdfast.core.message import MessageStatus, id_bytes
from holdfast.core.search import wanted


class Messages(Namespace):
    """`hf.messages`: looks up, finds and cancels single messages."""

    def get(self, message_id: str) -> MessageStatus | None:
        """Where a message is and how often it was tried; None if it is unknown, or its history is over.

        `hf.status` is the same.
        """
        self._catalog.open()
        return self._store.reads.status(self._tenant, id_bytes(message_id))

    def search(
        self,
        queue: str | None = None,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
        headers: dict[str, Any] | None = None,
        n: int = 100,
        after: str | None = None,
    ) -> list[MessageStatus]:
        """Messages with this key, correlation id and headers, in whatever state, oldest first.

        The next page is `after` the last id of this one. By headers alone, every message of the queue is read.
        """
        self._catalog.open()
        chosen = wanted(queue, key, correlation_id, headers)
        return self._store.reads.search(
            self._tenant, chosen, checked_count(n), id_bytes(after) if after is not None else None
        )

    def cancel(self, message_id: str) -> bool:
        """Ends a message that is pending or being worked on; False if it had ended or expired before (or never was).

        What was published to a topic cannot be taken back. `hf.cancel` is the same.
        """
        self._catalog.open()
        return self._store.acts.cancel(self._tenant, id_bytes(message_id))

    def commitments(self, message_id: str) -> list[CommitmentResult]:
        """How the checks of a message's commitments went, attempt by attempt, for as long as its history lasts."""
        self._catalog.open()
        return self._store.commitments.of(self._tenant, id_bytes(message_id))
