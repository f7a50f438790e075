"""A TCP proxy before PostgreSQL that loses an answer: the server did what it was asked, and the client never hears."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

READY_AND_IDLE = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery outside of a transaction: what was asked is committed by now."""

EXECUTE = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
"""A statement's text is sent once, to be prepared; this is what runs it, with the same or a later request."""


class LossyProxy:
    """Forwards everything, except when told to lose something."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server((host, 0))
        self._lock = threading.Lock()
        self._doomed, self._reaches = b"", True
        self.losses = 0
        self.port: int = self._listener.getsockname()[1]

    def lose(self, request: bytes, *, reaches: bool = True) -> None:
        """The next statement with these bytes in it is carried out but not answered, or never `reaches` the server."""
        self._doomed, self._reaches = request, reaches

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            doomed = threading.Event()
            answers = threading.Thread(target=self._carry_answers, args=(server, client, doomed), daemon=True)
            answers.start()
            chosen = False
            with suppress(OSError):
                while request := client.recv(1 << 20):
                    chosen = chosen or self._is_chosen(request)
                    if chosen and EXECUTE in request:
                        doomed.set()
                        self.losses += 1
                        if not self._reaches:
                            break
                    server.sendall(request)
                # Either side's end is the other's; after a loss, the server has answered by now.
                if not (doomed.is_set() and self._reaches):
                    server.shutdown(socket.SHUT_RDWR)
            answers.join()

    def _is_chosen(self, request: bytes) -> bool:
        with self._lock:
            chosen = bool(self._doomed) and self._doomed in request
            if chosen:
                self._doomed = b""
            return chosen

    def _carry_answers(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        last = b""
        with suppress(OSError):
            while answer := server.recv(1 << 20):
                last = (last + answer)[-len(READY_AND_IDLE) :]
                if not doomed.is_set():
                    client.sendall(answer)
                elif last == READY_AND_IDLE:
                    break
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
