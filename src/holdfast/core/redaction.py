"""What may be said of a URL that has a password in it: drivers quote it, or parts of it, when they refuse it."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_AUTHORITY = re.compile(r"//(?:[^/?]*@|[^?]*@|[^/]*@|[^:/?@[]*:(?!\d*/).*@)")
"""From the slashes to the last @ before the host. A password that was not escaped may hold @, / and ?; a query may hold
@ too, and then there is a port or a database before it."""

_PARAMETERS = re.compile(r"[?&](?:ssl)?password=([^&]*)")

_WITHIN = re.compile(r"[?&]direct=([^&]*)")
"""A URL in a URL, escaped once more."""


def discreet(text: str, url: str) -> str:
    """What a driver says about a URL that it cannot use, without the passwords in it."""
    secrets = _secrets(url)
    if any("@" in secret or "/" in secret for secret in secrets):
        # The driver has taken half of the password for something else, and may say that half.
        return "the URL cannot be used: in a password, @ is written %40 and / is written %2F"
    for secret in sorted({*secrets, *map(unquote, secrets), *map(quote, secrets)}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def without_password(url: object) -> str:
    """As much of a URL as can be shown to anyone, whatever is wrong with it."""
    text = str(url)
    if "@" not in unquote(text) and "password" not in text:  # A URL may hold another one.
        return text
    kind, colon, _ = text.partition(":")
    return f"{kind}{colon}…" if colon and kind.isalnum() else "…"


def _secrets(url: str) -> list[str]:
    found = _AUTHORITY.search(url)
    password = found[0][2:-1].partition(":")[2] if found else ""
    within = [secret for inner in _WITHIN.findall(url) for secret in _secrets(unquote(inner))]
    return [secret for secret in (password, *_PARAMETERS.findall(url), *within) if secret]
