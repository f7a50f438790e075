"""What the namespaces of a client (`hf.queues`, `hf.sagas`, …) are built on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts


class Namespace:
    """The verbs of one noun. It keeps no state of its own, so a second one over the same parts is the same."""

    def __init__(self, parts: ClientParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._catalog = parts.catalog
        self._tenant = parts.settings.tenant
