"""The request line and the headers of one request, read by llhttp (httptools) and checked beyond what that checks.

llhttp reads heads only. It is never given a byte of a body, so the trailers of a chunked body cannot become headers,
and every request has a parser of its own, so no request can be read differently because of the one before it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

import httptools

from holdfast.server.limits import ServerLimits
from holdfast.server.webhooks.headers import Fields

END = b"\r\n\r\n"

VERSIONS = ("1.0", "1.1")

_LINE = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?P<version>[0-9]+\.[0-9]+)")
_OTHER_VERSION = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1(?:\.[01]?)?\r?\Z)[0-9]+(?:\.[0-9]*)?\r?")
_OLD_LINE = re.compile(rb"GET [!-~]+")
_ABSOLUTE = re.compile(rb"https?://(?P<authority>[^/?#@]+)(?=[/?#]|\Z)", re.IGNORECASE)


class RequestRefused(Exception):
    """The request ends here, and so does its connection, with an answer of this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Target:
    """Where a request goes: its path and query, and the host if the request line names one (an absolute URI)."""

    __slots__ = ("authority", "path", "query")

    def __init__(self, url: bytes) -> None:
        self.authority: bytes | None = None
        if not url.startswith((b"/", b"*")):
            found = _ABSOLUTE.match(url)
            if found is None:
                raise RequestRefused(400)
            self.authority = found["authority"]
            url = url[found.end() :]
        path, _, self.query = url.partition(b"#")[0].partition(b"?")
        self.path = path or b"/"

    @property
    def text(self) -> str:
        """The path without percent-encoding."""
        path = self.path.decode("ascii")
        return unquote(path) if "%" in path else path


class Request:
    """What the head of a request says."""

    __slots__ = ("_parser", "expects", "fields", "headers", "is_complete", "keep_alive", "method", "url", "version")

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.fields = Fields()
        self.method = b""
        self.version = ""
        self.expects = False
        self.keep_alive = False
        self.is_complete = False
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes, line: bytes) -> None:
        """Reads a part of the head; `line` is what has arrived of its first line, this part included."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            is_other = _OTHER_VERSION.fullmatch(line) or _OLD_LINE.fullmatch(line)
            raise RequestRefused(505 if is_other else 400) from None

    def finish(self, line: bytes, limits: ServerLimits) -> None:
        """Checks the head as a whole; `line` is its first line."""
        _check_version(line)
        if not self.is_complete:
            raise RequestRefused(400)
        self.version = self._parser.get_http_version()
        if len(self.headers) > limits.headers:
            raise RequestRefused(431)
        self.method = self._parser.get_method()
        self.fields = Fields(self.headers)
        self.keep_alive = self.keep_alive and self.version == "1.1"
        self.expects = self.version == "1.1" and self.fields.get(b"expect", b"").lower() == b"100-continue"

    # --- what the parser calls ----------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The empty line. Behind it llhttp forgets what Connection said, if there is no body."""
        self.is_complete = True
        self.keep_alive = self._parser.should_keep_alive()


def _check_version(line: bytes) -> None:
    """Refuses request lines of other versions with 505, and other things that are no request line with 400."""
    status = _status_of(line) if len(line) > 200 else _short_status_of(line)
    if status is not None:
        raise RequestRefused(status)


def _status_of(line: bytes) -> int | None:
    found = _LINE.fullmatch(line)
    if found is not None:
        return None if found["version"].decode() in VERSIONS else 505
    return 505 if _OLD_LINE.fullmatch(line) else 400  # "GET /path" is HTTP/0.9.


_short_status_of = lru_cache(maxsize=100)(_status_of)
