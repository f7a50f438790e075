"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from holdfast import Holdfast

PATIENCE = 10.0
"""Seconds to wait for a database that is locked or away: someone sits in front of the terminal."""


def db_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--db URL`, or the environment variable HOLDFAST_DB."""
    return click.option(
        "--db", "url", required=True, metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="The database."
    )(command)


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--db URL` and `--tenant NAME`."""
    tenant = click.option("--tenant", default="default", show_default=True, envvar="HOLDFAST_TENANT", show_envvar=True)
    return db_option(tenant(command))


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`: one value per line, for programs."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON value per line.")(command)


def open_client(url: str, tenant: str, strict: bool = False) -> Holdfast:
    """A client with the patience of a person."""
    return Holdfast(url, tenant=tenant, strict=strict, patience=PATIENCE)
