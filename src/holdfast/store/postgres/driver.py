"""Which versions of psycopg are known well enough to be used past their public interface.

Two things are: single statements go by its generators and its transformer instead of a cursor (`prepared.py`), and
every answer is waited for until a deadline, between the steps of its generators (`connection.py: Connection.wait`).
Neither is promised to stay as it is. So this is done with versions that the tests have run with, and only with those.
3.2 is not among them: with 3.2.0, a call that waits for a lock did not end within its patience.
Any other is used as its manual says: statements go by cursors, and the server watches the time, of each statement
instead of each call (`statement_timeout`).
"""

from __future__ import annotations

import logging
import re
from functools import cache

import psycopg

KNOWN = ("3.3",)
"""Add one after all tests have passed with it."""

log = logging.getLogger("holdfast.postgres")


def is_known(version: str | None = None) -> bool:
    """Whether this version of psycopg, by default the installed one, may be used past its public interface."""
    version = psycopg.__version__ if version is None else version
    if ".".join(re.findall(r"\d+", version)[:2]) in KNOWN:
        return True
    _tell(version)
    return False


@cache
def _tell(version: str) -> None:
    """Once."""
    log.warning(
        "psycopg %s is not known to this version of Holdfast (%s is): it is used without shortcuts, more slowly",
        version,
        ", ".join(KNOWN),
    )
