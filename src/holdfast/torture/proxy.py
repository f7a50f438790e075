"""A TCP proxy between workers and a database server: `python -m holdfast.torture.proxy HOST PORT`.

It says its own port first. Then it obeys lines: `cut` ends every connection at once; `swallow` lets requests through
and no answers, so that the server has done what nobody hears of, and then cuts; `hang SECONDS` lets nothing through.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

SWALLOWED = 0.1
"""Seconds for which answers are lost before the cut."""


class Proxy:
    """All connections that go through."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._server)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        try:
            await asyncio.gather(self._carry(reader, back, False), self._carry(there, writer, True))
        finally:
            for one in (writer, back):
                self._writers.discard(one)
                one.close()

    async def obey(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            order, *value = line.decode().split()
            if order == "hang":
                self._flows.clear()
                await asyncio.sleep(float(value[0]))
                self._flows.set()
            elif order == "swallow":
                self._answers = False
                await asyncio.sleep(SWALLOWED)
                self._cut()
                self._answers = True
            else:
                self._cut()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_answer: bool) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                await self._flows.wait()
                if self._answers or not is_answer:
                    target.write(data)
                    await target.drain()
        with suppress(OSError):
            target.close()

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()


async def main(host: str, port: int) -> None:
    proxy = Proxy(host, port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await proxy.obey(lines)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
