"""`holdfast token`: makes a bearer token for the admin API. It is shown once; the server is given its hash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from holdfast.core.duration import seconds
from holdfast.errors import InvalidInput

ROLES = ("read", "operate", "admin")


@click.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="read", show_default=True, help="What it may do.")
@click.option("--tenant", help="The only tenant that it is good for.  [default: every tenant]")
@click.option("--expires", metavar="TIME", help='How long it is good for, such as "90d".  [default: for ever]')
def token(name: str, role: str, tenant: str | None, expires: str | None) -> None:
    """Make a token for the admin API, and the line that a server has to know of it.

    NAME is who stands in the audit. The token goes to standard error, the line to standard output, so that
    `holdfast token ci --role operate >> tokens` keeps the one and shows the other.
    """
    try:
        from holdfast.server.tokens import new_token
    except ImportError as problem:
        raise InvalidInput(f"tokens are for the server: pip install 'holdfast[server]' ({problem})") from problem
    end = None
    if expires is not None:
        end = (datetime.now(UTC) + timedelta(seconds=seconds(expires, "expires"))).replace(microsecond=0)
    text, made = new_token(name, role, tenant, end)
    click.echo(made.line())
    click.echo(f"The token, which is shown this once: {text}", err=True)
