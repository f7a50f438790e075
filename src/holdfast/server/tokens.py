"""Bearer tokens: who may do what, and for which tenant.

The server knows only hashes. They stand in a file or an environment variable, not in the database: whoever can write to
the database cannot make himself a token, a dump of it holds none, and the server can tell friends from strangers while
it is away. A token is 256 random bits, so a plain SHA-256 is as good as a slow hash would be.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, shown

ROLES = ("read", "operate", "admin")
"""Each may do what those before it may."""

PREFIX = "hft_"
"""Tokens begin with this, so that scanners for leaked secrets can know them."""

EVERY_TENANT = "*"
MOST_TOKENS = 1_000
LONGEST = 200

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")


class BearerToken(msgspec.Struct, frozen=True):
    """What is known of a token. `tenant` is None if it is good for every one, `expires` None if for ever."""

    name: str
    role: str
    tenant: str | None
    digest: bytes
    expires: datetime | None = None

    def line(self) -> str:
        """As it stands in the file."""
        fields = [self.name, self.role, self.tenant or EVERY_TENANT, self.digest.hex()]
        return " ".join(fields if self.expires is None else [*fields, self.expires.isoformat()])

    def __repr__(self) -> str:
        return f"Token({self.name!r}, {self.role!r}, tenant={self.tenant!r})"


class Tokens:
    """The tokens that a server accepts."""

    def __init__(self, tokens: Iterable[BearerToken]) -> None:
        self._tokens = list(tokens)
        if len(self._tokens) > MOST_TOKENS:
            raise InvalidInput(f"there are {len(self._tokens)} tokens; at most {MOST_TOKENS} are allowed")
        names = [token.name for token in self._tokens]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise InvalidInput(f"there are two tokens with the name {double!r}: the audit could not tell them apart")

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, presented: bytes, now: datetime) -> BearerToken | None:
        """The token that this is, unless it is over. Takes equally long whichever it is."""
        digest = hashlib.sha256(presented[:LONGEST]).digest()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or (found.expires is not None and found.expires <= now):
            return None
        return found


def new_token(
    name: str, role: str, tenant: str | None = None, expires: datetime | None = None
) -> tuple[str, BearerToken]:
    """A new token: the text, which is shown once, and what a server has to know of it."""
    text = PREFIX + secrets.token_urlsafe(32)
    return text, _checked(name, role, tenant, hashlib.sha256(text.encode()).digest(), expires)


def load_tokens(
    file: str | None = None, variable: str | None = None, environ: Mapping[str, str] = os.environ
) -> Tokens | None:
    """The tokens of a file and of an environment variable; None if neither is named. What is named has to hold some."""
    if file is None and variable is None:
        return None
    lines: list[str] = []
    if file is not None:
        lines += _lines_of(Path(file))
    if variable is not None:
        lines += environ.get(variable, "").replace(";", "\n").splitlines()
    tokens = [read_token(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not tokens:
        where = " and ".join(place for place in (file, variable and f"${variable}") if place)
        raise InvalidInput(f"there is no token in {where}: make one with  holdfast token NAME --role admin")
    return Tokens(tokens)


def read_token(line: str) -> BearerToken:
    """One line of the file: NAME ROLE TENANT HASH [EXPIRES]. What is wrong is said without quoting the line."""
    fields = line.split()
    if len(fields) not in (4, 5):
        raise InvalidInput(f"a line about a token has {len(fields)} words; write NAME ROLE TENANT HASH [EXPIRES]")
    name, role, tenant, digest, *rest = fields
    if not _HASH.fullmatch(digest):
        raise InvalidInput(
            f"the token {shown(name)} has no SHA-256 in hex as its fourth word; never write the token itself there: "
            "`holdfast token` prints the line to write"
        )
    expires = _moment(rest[0], name) if rest else None
    return _checked(name, role, None if tenant == EVERY_TENANT else tenant, bytes.fromhex(digest), expires)


def enough(role: str, needed: str) -> bool:
    """Whether a role may do what another one may."""
    return ROLES.index(role) >= ROLES.index(needed)


def _checked(name: str, role: str, tenant: str | None, digest: bytes, expires: datetime | None) -> BearerToken:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"a token's name has letters, digits and . _ @ - only, not {shown(name)}")
    if role not in ROLES:
        raise InvalidInput(f"the role of the token {name!r} must be one of {', '.join(ROLES)}, not {shown(role)}")
    if tenant is not None:
        channel_name(tenant, "tenant")
    return BearerToken(name, role, tenant, digest, expires)


def _moment(text: str, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"the token {shown(name)} ends at {shown(text)}; write a time such as 2027-01-31T12:00:00+00:00"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _lines_of(path: Path) -> Sequence[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is no text"
        raise InvalidInput(f"the file of tokens {str(path)!r} cannot be read: {reason}") from None
