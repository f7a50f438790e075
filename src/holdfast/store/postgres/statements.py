"""Our named queries, in the parameter style that psycopg understands."""

from __future__ import annotations

import re

from holdfast.store.sqlfile import load_queries

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

QUERIES = {
    name: _PARAMETER.sub(r"%(\1)b", text.replace("%", "%%")).encode()
    for name, text in load_queries(__package__).items()
}
