"""The clients of a server: one for each tenant and each name that acts, all over the same connections."""

from __future__ import annotations

import threading
from collections import OrderedDict

from holdfast.client.client import Holdfast
from holdfast.core.queue import channel_name

MOST_CLIENTS = 100
"""Clients that are remembered, with the queues that they know; the one that was not used for longest makes room."""


class Tenants:
    """Gives clients that share everything with the first but their tenant and their name."""

    def __init__(self, hf: Holdfast) -> None:
        self.hf = hf
        self._lock = threading.Lock()
        self._clients: OrderedDict[tuple[str, str | None], Holdfast] = OrderedDict()

    @property
    def default(self) -> str:
        """The tenant of a request that names none."""
        return self.hf.settings.tenant

    def client(self, tenant: str, actor: str | None = None) -> Holdfast:
        """A client that sees this tenant, and has this name in the audit."""
        settings = self.hf.settings
        if tenant == settings.tenant and actor in (None, settings.actor):
            return self.hf
        with self._lock:
            found = self._clients.get((tenant, actor))
            if found is None:
                found = self.hf.acting_as(actor, tenant=channel_name(tenant, "tenant"))
                self._clients[tenant, actor] = found
            self._clients.move_to_end((tenant, actor))
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        return found
