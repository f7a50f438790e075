"""A service manager's end of sd_notify: the datagram socket that systemd would read."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from tests.acceptance.children import GUARD


class Manager:
    """Receives what a service says, message by message, as lists of lines."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)

    def environment(self, watchdog: float | None = None) -> dict[str, str]:
        """What the service is started with. `watchdog`: seconds."""
        usec = {} if watchdog is None else {"WATCHDOG_USEC": str(round(watchdog * 1_000_000))}
        return {"NOTIFY_SOCKET": self.address, **usec}

    def next(self) -> list[str]:
        """The next message; waits for it."""
        self._socket.settimeout(GUARD)
        return self._socket.recv(65_536).decode().split("\n")

    def until(self, first_line: str) -> list[str]:
        """The next message that begins with this line; those before it are dropped."""
        while (message := self.next())[0] != first_line:
            pass
        return message

    def rest(self) -> list[list[str]]:
        """What has arrived and was not read yet."""
        self._socket.setblocking(False)
        found = []
        while True:
            try:
                found.append(self._socket.recv(65_536).decode().split("\n"))
            except BlockingIOError:
                return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
