"""The names of queues on the side of SQS."""

from __future__ import annotations

import re
from hashlib import blake2b
from urllib.parse import urlsplit

from holdfast.errors import InvalidInput, shown

CALLBACK = "callback"
"""In place of a queue for the events of deaths: only functions of the program are told."""

FIFO = ".fifo"
LONGEST = 80
PREFIX = "holdfast-"
"""What the names begin with that Holdfast makes."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo|[A-Za-z0-9_-]{1,80}", re.ASCII)
_OTHERS = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


def sqs_name(what: str, value: object) -> str:
    """Checks the name or the URL of a queue of SQS."""
    if isinstance(value, str) and (_NAME.fullmatch(value) or _is_url(value)):
        return value
    raise InvalidInput(
        f"{what} must be the name of an SQS queue (up to 80 letters, digits, - and _, or 75 and .fifo) or its URL, "
        f"not {shown(value)}"
    )


def sqs_prefix(value: object) -> str:
    """Checks what names begin with."""
    if isinstance(value, str) and len(value) <= 30 and not _OTHERS.search(value):
        return value
    raise InvalidInput(f"sqs_prefix must be up to 30 letters, digits, - and _, not {shown(value)}")


def made_name(prefix: str, tenant: str, queue: str) -> str:
    """The name of the SQS queue for a queue that names none: the prefix, the tenant unless it is the usual one, and the
    queue's name. Where SQS allows a character not, there is a dash, and a number that tells alike names apart.

    >>> made_name("holdfast-", "default", "emails")
    'holdfast-emails'
    >>> made_name("holdfast-", "default", "emails.dead")
    'holdfast-emails-dead-b21f93e5'
    """
    wanted = queue if tenant == "default" else f"{tenant}_{queue}"
    safe = _OTHERS.sub("-", wanted)
    if safe == wanted and len(prefix + safe) <= LONGEST and tenant == "default":
        return prefix + safe
    digest = blake2b(f"{tenant}/{queue}".encode(), digest_size=4).hexdigest()
    return f"{prefix}{safe[: LONGEST - len(prefix) - len(digest) - 1]}-{digest}"


def is_fifo(name: str) -> bool:
    """Whether SQS keeps an order, and tells twins apart: it is in the name, and in the URL."""
    return name.endswith(FIFO)


def is_url(value: str) -> bool:
    """Whether it is a URL, not a name."""
    return "/" in value


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    is_clean = value.isascii() and value.isprintable() and " " not in value and parts.username is None
    return is_clean and parts.scheme in ("http", "https") and bool(parts.netloc) and len(value) <= 500
