"""Functions of this process that are told of notices."""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.core.message import id_bytes
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput
from holdfast.notices.rules import Notice, OwnerSpec
from holdfast.store.api import Store

Callback = Callable[[list[Notice]], object]

AT_ONCE = 100
"""How many notices of an owner are told in one turn."""

log = logging.getLogger("holdfast")


class NoticeCallbacks:
    """One function for each owner, and one for all."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._callbacks: dict[str | None, Callback] = {}

    def add(self, callback: Callback, owner: str | None) -> None:
        """Has it told of the notices of this owner, or of all."""
        if not callable(callback):
            raise InvalidInput("on_notice() needs a function that takes a list of notices")
        self._callbacks[None if owner is None else channel_name(owner, "owner")] = callback

    def tell(self) -> int:
        """Tells of notices that nobody was told of; how many."""
        return sum(self._tell(owner, callback) for owner, callback in list(self._callbacks.items()))

    def _tell(self, owner: str | None, callback: Callback) -> int:
        untold = self._store.notices.take_untold(self._tenant, owner, AT_ONCE)
        specs = self._store.owners.all(self._tenant) if untold else {}
        told = 0
        for group in _grouped(untold, specs):
            try:
                callback(group)
            except Exception:
                log.exception("a callback for notices failed; it is told again in a minute")
                continue
            self._store.notices.note_told([(id_bytes(notice.id), notice.level) for notice in group])
            told += len(group)
        return told


def _grouped(notices: list[Notice], specs: dict[str, OwnerSpec]) -> list[list[Notice]]:
    """One by one, or together for an owner who wants digests."""
    groups: list[list[Notice]] = []
    digests: dict[str, list[Notice]] = {}
    for notice in notices:
        spec = specs.get(notice.owner or "")
        if spec is None or spec.notify == "each":
            groups.append([notice])
        elif notice.owner in digests:
            digests[notice.owner].append(notice)
        else:
            digests[notice.owner or ""] = [notice]
            groups.append(digests[notice.owner or ""])
    return groups
