"""Whether a browser sends this on behalf of another site. Programs send neither header, and pass."""

from __future__ import annotations

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_OUR_PAGES = (b"same-origin", b"none")


def is_foreign(method: str, fetch_site: bytes | None, origin: bytes | None, host: bytes) -> bool:
    """Whether an unsafe request comes from a page that is not ours; `null` is nobody's."""
    if method in SAFE_METHODS:
        return False
    if fetch_site is not None and fetch_site.lower() not in _OUR_PAGES:
        return True
    if origin is None:
        return False
    return origin.lower() not in (b"http://" + host.lower(), b"https://" + host.lower())
