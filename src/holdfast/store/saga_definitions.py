"""What sagas consist of, as it is declared now. Shared by both stores."""

from __future__ import annotations

import msgspec

from holdfast.core.saga import SagaSpec
from holdfast.store.roles import Database

_spec = msgspec.json.Decoder(SagaSpec)


class SagaDefinitionsRole:
    """The definitions that new sagas have."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, name: str) -> SagaSpec | None:
        found = self._database.glance(lambda tx: tx.one("sagas.current", tenant=tenant, name=name))
        return None if found is None else _spec.decode(found[1])

    def names(self, tenant: str) -> list[str]:
        return [name for (name,) in self._database.glance(lambda tx: tx.all("sagas.names", tenant=tenant))]
