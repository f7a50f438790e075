"""A command that restarts a server of the tests, for those who can only run commands."""

import shlex
import socket
import sys
import threading
from types import TracebackType
from typing import Self

from tests.servers import PostgresServer

PROGRAM = (
    "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.exit(s.recv(9) != b'back')"
)


class Restarts:
    """`with Restarts(server) as restarts: restarts.command` restarts that server, as a crash, and waits for it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def command(self) -> str:
        return shlex.join([sys.executable, "-c", PROGRAM, str(self._listener.getsockname()[1])])

    def __enter__(self) -> Self:
        # The server dies with the thread that started it last, so this one stays until the end.
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        try:
            while True:
                asking, _ = self._listener.accept()
                with asking:
                    self.server.restart("immediate")
                    self.count += 1
                    asking.sendall(b"back")
        except OSError:
            return
