"""Where the body of a request ends: after so many bytes, or after its last chunk.

Every byte that arrives is counted, whatever it stands for. The bytes of a body have a limit of their own; what chunks
have around them (sizes, extensions, line ends) may not be more than headers may be, plus as much as the body itself;
trailers have the limits of headers. Extensions and trailers are dropped: RFC 9110 6.5.1 forbids merging trailers into
headers, and nothing here needs them.
"""

from __future__ import annotations

import re

from holdfast.server.limits import ServerLimits
from holdfast.server.protocol.request_head import Request, RequestRefused

MOST_STEPS = 100
"""Chunks, or parts of them, that are read in one turn. One read of the socket may hold 25,000 chunks."""

LONGEST_LENGTH = 20
"""Digits of a Content-Length: those of a 64-bit number."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_SIZE_SO_FAR = re.compile(rb"[0-9A-Fa-f]{1,16}(?:;[\t\x20-\x7e\x80-\xff]*)?\r?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
_CRLF = b"\r\n"


class FixedLengthBody:
    """A body of a known length."""

    __slots__ = ("_left", "is_done")

    is_tired = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0

    def take(self, data: bytes, at: int) -> tuple[bytes, int]:
        """Returns what of `data`, from `at` on, is body, and where the rest begins."""
        part = data[at : at + self._left]
        self._left -= len(part)
        self.is_done = self._left == 0
        return part, at + len(part)


class ChunkedBody:
    """A body in chunks."""

    __slots__ = (
        "_left",
        "_limits",
        "_most",
        "_overhead",
        "_size",
        "_state",
        "_trailer_bytes",
        "_trailers",
        "is_done",
        "is_tired",
    )

    def __init__(self, most: int, limits: ServerLimits) -> None:
        self._most = most
        self._limits = limits
        self._state = self._read_size
        self._left = 0
        self._size = 0
        self._overhead = 0
        self._trailers = 0
        self._trailer_bytes = 0
        self.is_done = False
        self.is_tired = False
        """Whether the last call stopped because others should have their turn, not for want of bytes."""

    def take(self, data: bytes, at: int) -> tuple[bytes, int]:
        """Returns what of `data`, from `at` on, is body, and where the rest begins, such as half a line."""
        parts: list[bytes] = []
        self.is_tired = False
        for _ in range(MOST_STEPS):
            if self.is_done or at == len(data):
                break
            after = self._state(data, at, parts)
            if after == at:
                break
            at = after
        else:
            self.is_tired = True
        return (parts[0] if len(parts) == 1 else b"".join(parts)), at

    def _read_size(self, data: bytes, at: int, parts: list[bytes]) -> int:
        found = _SIZE.match(data, at)
        if found is None:
            if not _SIZE_SO_FAR.fullmatch(data, at):
                raise RequestRefused(400)
            self._count(0, len(data) - at)
            return at
        self._count(found.end() - at, 0)
        self._left = int(found[1], 16)
        self._size += self._left
        if self._size > self._most:
            raise RequestRefused(413)
        begin, end = found.end(), found.end() + self._left
        if self._left and data.startswith(_CRLF, end):  # All of the chunk is there, as it mostly is.
            parts.append(data[begin:end])
            self._overhead += 2
            return end + 2
        self._state = self._read_data if self._left else self._read_trailer
        return begin

    def _read_data(self, data: bytes, at: int, parts: list[bytes]) -> int:
        part = data[at : at + self._left]
        parts.append(part)
        self._left -= len(part)
        if not self._left:
            self._state = self._read_end
        return at + len(part)

    def _read_end(self, data: bytes, at: int, parts: list[bytes]) -> int:
        end = data[at : at + 2]
        if end == _CRLF:
            self._count(2, 0)
            self._state = self._read_size
            return at + 2
        if end != b"\r":
            raise RequestRefused(400)
        return at

    def _read_trailer(self, data: bytes, at: int, parts: list[bytes]) -> int:
        end = data.find(_CRLF, at, at + self._limits.header_bytes)
        if self._trailer_bytes + (len(data) if end < 0 else end) - at > self._limits.header_bytes:
            raise RequestRefused(431)
        if end < 0:
            return at
        if end == at:
            self.is_done = True
            return at + 2
        if not _TRAILER.fullmatch(data, at, end):
            raise RequestRefused(400)
        self._trailers += 1
        self._trailer_bytes += end + 2 - at
        if self._trailers > self._limits.headers:
            raise RequestRefused(431)
        return end + 2

    def _count(self, read: int, unread: int) -> None:
        """Bytes around chunks: those of a line that has ended, and those of one that has not."""
        self._overhead += read
        if self._overhead + unread > self._limits.header_bytes + self._size:
            raise RequestRefused(413)


def framing_of(request: Request, most: int, limits: ServerLimits) -> FixedLengthBody | ChunkedBody:
    """How the body of a request ends; 400, 413 or 501 if it must not begin."""
    length, coding = request.fields.get(b"content-length"), request.fields.get(b"transfer-encoding")
    if coding is not None:
        if length is not None or request.version != "1.1":
            raise RequestRefused(400)
        *others, last = [part.strip().lower() for part in coding.split(b",")]
        if last != b"chunked" or b"chunked" in others:
            raise RequestRefused(400)
        if others:
            raise RequestRefused(501)
        return ChunkedBody(most, limits)
    if length is None:
        return FixedLengthBody(0)
    if not length.isdigit() or len(length) > LONGEST_LENGTH:
        raise RequestRefused(400)
    if int(length) > most:
        raise RequestRefused(413)
    return FixedLengthBody(int(length))
