"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

PATIENCE = 10.0
"""Seconds to wait for a database that is locked or away: someone sits in front of the terminal."""


def db_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--db URL`, or the environment variable HOLDFAST_DB."""
    return click.option(
        "--db", "url", required=True, metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="The database."
    )(command)
