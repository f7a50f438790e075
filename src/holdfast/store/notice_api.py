"""What may be asked of a store about who answers for failures. (`api` has the rest.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.deadletter import Trouble
from holdfast.core.message import MessageId
from holdfast.core.notice import Notice, OwnerSpec


class Owners(Protocol):
    """Who answers."""

    def declare(self, tenant: str, name: str, spec: OwnerSpec) -> None: ...
    def all(self, tenant: str) -> dict[str, OwnerSpec]: ...


class Notices(Protocol):
    """What waits for an owner's answer."""

    def post(
        self, tenant: str, kind: str, about: str, trouble: Trouble, owner: str | None = None, queue: str | None = None
    ) -> MessageId: ...
    def is_due(self, tenant: str) -> bool: ...
    def escalate(self, tenant: str, limit: int) -> int: ...
    def find(
        self, tenant: str, owner: str | None, queue: str | None, open_only: bool, limit: int, after: MessageId | None
    ) -> list[Notice]: ...
    def acknowledge(self, tenant: str, actor: str, ids: Sequence[MessageId], remark: str | None) -> int: ...
    def take_untold(self, tenant: str, owner: str | None, limit: int) -> list[Notice]: ...
    def note_told(self, told: Sequence[tuple[MessageId, int]]) -> None: ...
