"""The role of dead letters, over the steps of `letters`."""

from __future__ import annotations

from typing import Any

from holdfast.core.deadletter import AuditRecord, DeadLetterRecord, Selection, told
from holdfast.core.message import MessageId
from holdfast.store import letters
from holdfast.store.roles import Database


class LettersRole:
    """Dead letters, and the record of what was done to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, chosen: Selection, limit: int, after: MessageId | None) -> list[DeadLetterRecord]:
        return self._database.read(lambda tx: letters.find(tx, tenant, chosen, limit, after))

    def matching(self, tenant: str, chosen: Selection) -> tuple[int, MessageId | None]:
        return self._database.read(lambda tx: letters.matching(tx, tenant, chosen))

    def page(
        self, tenant: str, chosen: Selection, limit: int, after: MessageId | None, last: MessageId
    ) -> list[MessageId]:
        return self._database.read(lambda tx: letters.page(tx, tenant, chosen, limit, after, last))

    def replay(self, tenant: str, actor: str, dead_id: MessageId, fresh: MessageId, body: bytes | None) -> None:
        self._database.write(lambda tx: letters.replay(tx, tenant, actor, dead_id, fresh, body))

    def begin(self, tenant: str, actor: str, act: str, chosen: Selection) -> int:
        about = told(chosen)
        return self._database.write(lambda tx: letters.note(tx, tenant, actor, act, chosen.queue, about, 0))

    def act_on(self, tenant: str, actor: str, act: str, ids: list[MessageId], audit_id: int) -> int:
        def work(tx: Any) -> int:
            done = (letters.replay_page if act == "replay" else letters.delete_page)(tx, tenant, actor, ids)
            tx.run("audit.grow", id=audit_id, count=done)
            return done

        return self._database.write(work)

    def delete(self, tenant: str, actor: str, dead_id: MessageId) -> bool:
        return self._database.write(lambda tx: letters.delete_one(tx, tenant, actor, dead_id))

    def audit(self, tenant: str, limit: int, before: int | None) -> list[AuditRecord]:
        return self._database.read(lambda tx: letters.audit(tx, tenant, limit, before))
