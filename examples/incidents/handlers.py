"""What the app does: an incident becomes a row in a table of the same database, once, whatever crashes meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Literal

from holdfast import Holdfast

CATALOG = Path(os.environ.get("CATALOG", "catalog.txt"))
"""Which services there are. Alerts of others fail until someone adds them."""


def register(hf: Holdfast) -> None:
    @hf.command("Incident.CreateIncident")
    def create_incident(
        title: str, severity: Literal["critical", "high"], source: str, external_id: str, conn: Any
    ) -> dict[str, str]:
        service = title.split()[0]
        if service not in CATALOG.read_text().split():
            raise LookupError(f"nobody has told us about the service {service!r}")
        if random.random() < 0.01:
            raise ConnectionError("the ticket system did not answer")
        conn.execute(
            "INSERT INTO incident (external_id, title, severity, source) VALUES (?, ?, ?, ?)",
            (external_id, title, severity, source),
        )
        return {"incident": external_id}
