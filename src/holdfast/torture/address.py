"""A database's URL, as the processes of a run are to use it."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

APPLICATION = "holdfast-torture"
"""Sessions of runs are known by a name that begins so; only those of a run's own tenant are ever ended by it."""


def is_server(url: str) -> bool:
    return url.startswith(("postgresql:", "postgres:"))


def server(url: str) -> tuple[str, int] | None:
    """Host and port, if there is one host that a proxy can stand in front of."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if not is_server(url) or "," in parts.netloc or not parts.hostname or {"host", "port"} & options.keys():
        return None
    return options.get("hostaddr", parts.hostname), parts.port or 5432


def sessions_of(tenant: str) -> str:
    """What the names of all sessions of one run begin with."""
    return f"{APPLICATION}/{tenant}/"


def named(url: str, tenant: str, name: str) -> str:
    """Sessions show this name."""
    return _with(url, application_name=f"{sessions_of(tenant)}{name}") if is_server(url) else url


def through(url: str, port: int) -> str:
    """The same server through a proxy on this machine. Its certificate is still checked against its own name."""
    parts = urlsplit(url)
    host = quote(parts.hostname or "", safe=":")
    user, at, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    there = urlunsplit(parts._replace(netloc=f"{user}{at}{shown}:{port}"))
    return _with(there, hostaddr="127.0.0.1")


def _with(url: str, **options: str) -> str:
    parts = urlsplit(url)
    query = urlencode({**dict(parse_qsl(parts.query)), **options}, quote_via=quote)
    return urlunsplit(parts._replace(query=query))
