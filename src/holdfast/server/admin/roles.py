"""Who may: each route takes one of these, which admits the request and gives the client that it acts through."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from holdfast.server.auth import Access, require

Reads = Annotated[Access, Depends(require("read"))]
"""Looking."""

Operates = Annotated[Access, Depends(require("operate"))]
"""What can be undone, or done again: pausing, replaying, canceling, answering."""

Administers = Annotated[Access, Depends(require("admin"))]
"""What is gone afterwards: purging, deleting, ending groups."""
