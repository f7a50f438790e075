"""The state that the parts of one client share: connections, the catalog of queues, group commits, callbacks.

The client, its namespaces, consumers and servers are built on it. Each of them takes what it needs from here, and none
reaches into another. `holdfast.client.client.internals(hf)` returns it for a client.
"""

from __future__ import annotations

import getpass
import os
import socket
from typing import TYPE_CHECKING

from holdfast.client.catalog import ChannelBook
from holdfast.client.claim_loop import Claiming
from holdfast.client.declared_consumers import DeclaredConsumers
from holdfast.client.group_commit import Gather
from holdfast.client.message_types import MessageTypes
from holdfast.client.middleware import EnqueueMiddleware
from holdfast.client.producer import Producer
from holdfast.client.start_signals import Starts
from holdfast.client.transport import Transport
from holdfast.client.upkeep import Upkeep
from holdfast.client.waiters import Bells
from holdfast.commands.registry import CommandRegistry
from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError
from holdfast.events import Listeners
from holdfast.notices.callbacks import NoticeCallbacks
from holdfast.replies.inbox import ReplyInbox
from holdfast.sagas.steps.values import NewSaga
from holdfast.settings import Settings
from holdfast.store.api import Store
from holdfast.topics.group_watch import GroupWatch

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast


class ClientParts:
    """Everything that a client consists of, except its public methods.

    `client` is whose claims are settled by. What several clients have in common (see `Holdfast.acting_as`) is given:
    the `store`, and if they have one already, the `catalog` of the tenant, the `transport` and the `starts`.
    """

    def __init__(
        self,
        client: Holdfast,
        settings: Settings,
        store: Store,
        catalog: ChannelBook | None = None,
        transport: Transport | None = None,
        starts: Starts | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.listeners = Listeners()
        self.transport = transport or Transport(store, settings, self.listeners, lambda: self.worker)
        self.catalog = ChannelBook(store, settings, self.transport.meet) if catalog is None else catalog
        insert = self.transport.messages.insert  # The same whoever delivers.
        self.inserts: Gather[NewMessage, Duplicate | None] = Gather(insert, settings.patience)
        self.settlements: Gather[Settlement, bool] = Gather(self.transport.settle, settings.patience)
        self.saga_starts: Gather[NewSaga, HoldfastError | None] = Gather(store.sagas.start, settings.patience)
        self.bells = Bells(store.wakeup)
        self.types = MessageTypes()
        self.around_enqueue = EnqueueMiddleware()
        self.producer = Producer(store, self.catalog, self.types, self.inserts, self.around_enqueue)
        self.commands = CommandRegistry()
        self.consumers = DeclaredConsumers()
        self.starts = Starts() if starts is None else starts
        """Shared, so that a handler does not start after any of the clients has paused its queue."""
        self.notice_callbacks = NoticeCallbacks(store, settings.tenant)
        self.groups = GroupWatch(store, self.catalog, settings.tenant, self.listeners, lambda: self.worker)
        self.upkeep = Upkeep(self)
        self.claiming = Claiming(client, self)
        self.desk = ReplyInbox(self)
        self._worker: tuple[int, str] = (0, "")

    @property
    def worker(self) -> str:
        """Who claims: the name given, or host, process and a random part, new after every start and fork."""
        if self.settings.worker:
            return self.settings.worker
        if self._worker[0] != os.getpid():
            self._worker = (os.getpid(), f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}")
        return self._worker[1]

    @property
    def actor(self) -> str:
        """Who operates: the name given, or user and host."""
        return self.settings.actor or f"{getpass.getuser()}@{socket.gethostname()}"
