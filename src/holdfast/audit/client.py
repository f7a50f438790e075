"""The audit for users."""

from __future__ import annotations

from holdfast.client.namespace import Namespace
from holdfast.client.validate import checked_count
from holdfast.core.dead_letter import AuditRecord
from holdfast.errors import InvalidInput, shown


class Audit(Namespace):
    """`hf.audit`: what operators did."""

    def list(self, n: int = 100, *, before: int | None = None) -> list[AuditRecord]:
        """What operators did, and to how many, newest first; the next page is `before` the last id of this one."""
        self._catalog.open()
        return self._store.letters.audit(self._tenant, checked_count(n), _record(before, "before"))


def _record(value: int | None, what: str) -> int | None:
    """The number of a record of the audit."""
    if value is not None and (type(value) is not int or not 0 <= value < 2**62):
        raise InvalidInput(f"{what} must be the id of a record, as hf.audit.list() lists them, not {shown(value)}")
    return value
