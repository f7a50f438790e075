"""Our named queries, in the parameter style that psycopg understands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.store.postgres.arrays import COLUMNS
from holdfast.store.sql import load_queries

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_COLUMN = re.compile(r"(?<!:):([a-z_]+)::([a-z]+)\[\]")
_KEY = re.compile(r"\bAS of_([a-z_]+)")
_SUFFIX = "_together"

_TEXTS = load_queries("postgres")

QUERIES = {name: _PARAMETER.sub(r"%(\1)b", text.replace("%", "%%")).encode() for name, text in _TEXTS.items()}


class Together(msgspec.Struct, frozen=True):
    """A query that does for many sets of parameters what another one does for a single set.

    It takes a column of values for each parameter. What it returns for a set begins with the columns `of_…`: the
    parameters of that name, by which the set is known.
    """

    query: str
    columns: dict[str, Callable[[Sequence[Any]], object]]
    keys: tuple[str, ...]


TOGETHER = {
    name.removesuffix(_SUFFIX): Together(
        name, {column: COLUMNS[kind] for column, kind in _COLUMN.findall(text)}, tuple(_KEY.findall(text))
    )
    for name, text in _TEXTS.items()
    if name.endswith(_SUFFIX)
}
"""By the query that does it for a single set."""
