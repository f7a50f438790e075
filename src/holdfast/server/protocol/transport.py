"""A connection as those see it who write to it: what is written to a closed one is dropped, without a word."""

from __future__ import annotations

import asyncio

BUFFER, BODY = "buffer", "body"
"""Reasons to read no more: what has arrived was not parsed yet; the application has not asked for the body."""


class ConnectionTransport:
    """A transport that may be closed at any time.

    The peer may go whenever it likes, so writing to a closed connection is no error: there is nothing to log and nobody
    to tell.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._paused: set[str] = set()
        self._writable = asyncio.Event()
        self._writable.set()
        self.has_ended = False
        """Whether the peer has said that it sends no more. It may still read."""

    @property
    def is_closing(self) -> bool:
        """Whether nothing that is written arrives any more."""
        return self._transport.is_closing()

    @property
    def is_paused(self) -> bool:
        """Whether nothing is taken from the peer now."""
        return bool(self._paused)

    @property
    def is_full(self) -> bool:
        """Whether writers have to wait for the peer to read."""
        return not self._writable.is_set()

    def write(self, data: bytes) -> None:
        """Sends bytes, unless the connection is closed."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self, reason: str) -> None:
        """Takes nothing more from the peer until this reason, and every other one, is gone."""
        if not self._paused and not self.has_ended and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused.add(reason)

    def resume_reading(self, *reasons: str) -> None:
        """Takes what the peer sends again, unless there is another reason not to."""
        if not self._paused:
            return
        self._paused.difference_update(reasons)
        if not self._paused and not self.has_ended and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The peer has read, or is gone: nobody waits for it any more."""
        self._writable.set()

    async def drain(self) -> None:
        """Waits until there is room to write."""
        await self._writable.wait()

    def end(self) -> None:
        """Says that nothing more is written. The peer may still send."""
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Closes the connection after what was written."""
        self._transport.close()

    def abort(self) -> None:
        """Closes it now."""
        self._transport.abort()
