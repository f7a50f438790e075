"""What a URL says beyond what the driver understands: a pooler in between, and the way past it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_plus

from holdfast.errors import InvalidInput, shown

_FORMS = "?pooler=transaction, and with it &direct=… for the server's own URL, percent-encoded"


@dataclass(frozen=True)
class ServerAddress:
    """Where the server is reached.

    Behind a `pooled` URL every transaction may be run by another session of the server: nothing that belongs to a
    session may be relied on, or left behind. `direct` leads to the server itself, for what needs a session: listening.
    """

    url: str
    pooled: bool = False
    direct: str | None = None

    @property
    def listens(self) -> bool:
        """Whether there is a connection that can be told of something."""
        return not self.pooled or self.direct is not None


def read_address(url: str) -> ServerAddress:
    """Takes our options out of a URL, and leaves the driver's as they are."""
    place, mark, query = url.partition("?")
    given = [part.partition("=") for part in query.split("&")] if mark else []
    ours = {name: unquote_plus(value) for name, _, value in given if name in ("pooler", "direct")}
    pooler, direct = ours.get("pooler", "none"), ours.get("direct")
    if pooler not in ("none", "transaction"):
        raise InvalidInput(f"pooler={shown(pooler)} in the URL is not known; there is {_FORMS}")
    if direct is not None and (pooler == "none" or not direct.startswith(("postgresql://", "postgres://"))):
        raise InvalidInput(f"direct= in the URL needs a pooler to get around, and a postgresql:// URL: {_FORMS}")
    rest = "&".join("".join(part) for part in given if part[0] not in ours)
    return ServerAddress(f"{place}?{rest}" if rest else place, pooler == "transaction", direct)
