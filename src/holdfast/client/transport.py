"""Who moves messages: the database alone or, once a queue is met that SQS has to do with, the database and SQS.

Most clients never meet such a queue: they call the store directly, and nothing of `holdfast.sqs` is imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.settlement import Settlement
from holdfast.events import Listeners
from holdfast.settings import Settings
from holdfast.store import fork_safety
from holdfast.store.api import Channel, MessageVerbs, Store

if TYPE_CHECKING:
    from holdfast.sqs.messages import DeliveredMessages


class Transport(fork_safety.Guarded):
    """One for all clients of a store. `messages` claims, settles and renews; it changes when the first queue is met
    that SQS has to do with, so it has to be read for every call."""

    def __init__(self, store: Store, settings: Settings, listeners: Listeners, worker: Callable[[], str]) -> None:
        self.messages: MessageVerbs = store.messages
        self.sqs: DeliveredMessages | None = None
        self._parts = (store, settings, listeners, worker)
        self._lock = threading.Lock()
        fork_safety.guard(self)
        if settings.delivery == "sqs":
            self.through_sqs()

    def after_fork_in_child(self) -> None:
        """A thread of the parent may have held it."""
        self._lock = threading.Lock()

    def meet(self, channel: Channel) -> None:
        """Prepare for a channel before it is used. Its settings may have been changed by any client, at any time."""
        if self.sqs is None and channel.spec.reaches_outside:
            self.through_sqs()

    def through_sqs(self) -> DeliveredMessages:
        """Return what delivers through SQS; from now on all messages go through it."""
        with self._lock:
            if self.sqs is None:
                from holdfast.sqs.messages import DeliveredMessages

                delivered = DeliveredMessages(*self._parts)
                self.messages = delivered
                self.sqs = delivered
            return self.sqs

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Store how claims end, and tell SQS if it has to do with them."""
        return self.messages.settle(settlements)

    def reconcile(self, channels: Sequence[Channel]) -> int:
        """Look after what SQS has lost, and after deaths that nobody outside was told of; how many."""
        return 0 if self.sqs is None else self.sqs.reconcile(channels)
