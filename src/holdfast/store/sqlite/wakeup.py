"""Wake-ups between processes on one machine: a sleeper binds a datagram socket beside the database, and who commits
sends the channel numbers to every socket that it finds there. A lost datagram costs a poll interval, never a message.

A transaction on the caller's own connection is committed behind our back. It leaves its rings in a table, and sleepers
look whether the file has changed often enough to notice soon: that costs a few microseconds.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from holdfast.errors import StoreError
from holdfast.store.api import Waiter
from holdfast.store.sqlite.errors import DriverError

# A path of a UNIX socket has room for about 100 bytes; beyond, the folder is reached through its descriptor.
_SOCKET_PATH_LIMIT = 100

# A folder's time of change moves in steps of the kernel's tick; a listing younger than this may miss a newcomer.
_SETTLED_NS = 50_000_000

# Who rings for more than fits into such a datagram rings for everyone.
_LONGEST_WORD = 4_096

_POLL = 0.05

_MANY = 5
"""So many sleepers of a process look that often; more of them take turns, and together they look as often as these."""


class File(Protocol):
    """The database, as far as sleepers look at it."""

    def version(self) -> int: ...
    def rings(self) -> dict[int, int]: ...


class SqliteWakeup:
    """The folder of sockets beside a database file."""

    def __init__(self, path: str, file: File) -> None:
        self._folder = path + "-wake"
        self._file = file
        self._dormitory = Dormitory()
        self._lock = threading.Lock()
        self._listing: tuple[int, dict[str, str]] = (-1, {})
        self._sender: socket.socket | None = None
        self._descriptor: int | None = None

    def ring(self, channels: Sequence[int]) -> None:
        """Wakes everyone who waits for one of these channels, as far as they can be reached."""
        sleepers = self._sleepers()
        if not sleepers:
            return
        word = ",".join(map(str, channels)).encode()
        if len(word) > _LONGEST_WORD:
            word = b"*"
        with self._lock:
            if self._sender is None:
                self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._sender.setblocking(False)
            for name, address in sleepers.items():
                try:
                    self._sender.sendto(word, address)
                except BlockingIOError:
                    pass  # Its buffer is full of rings already.
                except ConnectionRefusedError:
                    self._sweep_away(name)
                except OSError:
                    pass

    def bell(self) -> Waiter:
        """A new ear; where sockets do not work, one that looks often instead."""
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            return DatagramBell(
                self._reachable(name), os.path.join(self._folder, name), CommitWatch(self._file), self._dormitory
            )
        except (OSError, AttributeError):
            return PollingBell()

    def close(self) -> None:
        """Closes the sending side."""
        with self._lock:
            if self._sender is not None:
                self._sender.close()
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._sender = self._descriptor = None
            self._listing = (-1, {})

    def after_fork_in_child(self) -> None:
        """The child sends through a socket of its own, and nobody sleeps there."""
        self._lock = threading.Lock()
        self._dormitory = Dormitory()
        self._sender = self._descriptor = None
        self._listing = (-1, {})

    def _sleepers(self) -> dict[str, str]:
        """Their names, and where they are reached."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except OSError:
            return {}
        if changed == self._listing[0]:
            return self._listing[1]
        sleepers = {name: self._reachable(name) for name in os.listdir(self._folder)}
        if time.time_ns() - changed > _SETTLED_NS:
            self._listing = (changed, sleepers)
        return sleepers

    def _sweep_away(self, name: str) -> None:
        """Its owner is gone without a word."""
        with suppress(OSError):
            os.unlink(os.path.join(self._folder, name))

    def _reachable(self, name: str) -> str:
        path = os.path.join(self._folder, name)
        if len(path.encode()) <= _SOCKET_PATH_LIMIT:
            return path
        if self._descriptor is None:
            self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}/{name}"


class DatagramBell:
    """One sleeper's socket, and its eye on the file."""

    def __init__(self, address: str, path: str, watch: CommitWatch, dormitory: Dormitory) -> None:
        self._address = address
        self._path = path
        self._watch = watch
        self._dormitory = dormitory
        self._owner = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(address)
        except OSError:
            self._socket.close()
            raise

    def wait(self, channels: Sequence[int], timeout: float) -> bool:
        """True as soon as one of the channels is rung."""
        wanted = {str(channel).encode() for channel in channels} | {b"*"}
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        deadline = time.monotonic() + timeout
        with self._dormitory:
            while True:
                nap = min(deadline - time.monotonic(), self._dormitory.nap)
                if poll.poll(max(nap, 0) * 1000):
                    return self._heard(wanted, poll)
                if self._watch.sees(channels):
                    return True
                if time.monotonic() >= deadline:
                    return False

    def poke(self) -> None:
        """Wakes this sleeper, from another thread."""
        with suppress(OSError):  # Closed, or full of rings: either way nobody sleeps on.
            self._socket.sendto(b"*", self._address)

    def close(self) -> None:
        """Takes the socket away; in a forked child it is still the parent's."""
        self._socket.close()
        if os.getpid() != self._owner:
            return
        with suppress(OSError):
            os.unlink(self._path)

    def _heard(self, wanted: set[bytes], poll: select.poll) -> bool:
        """Whether one of these was among all that was rung."""
        heard = False
        while True:
            word = self._socket.recv(_LONGEST_WORD)
            heard = heard or word in wanted or not wanted.isdisjoint(word.split(b","))
            if not poll.poll(0):
                return heard


class Dormitory:
    """How many of this process sleep: the more there are, the longer each may."""

    def __init__(self) -> None:
        self._sleepers = 0
        self._lock = threading.Lock()

    @property
    def nap(self) -> float:
        """Seconds between two looks of one sleeper."""
        return _POLL * max(1.0, self._sleepers / _MANY)

    def __enter__(self) -> None:
        with self._lock:
            self._sleepers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._sleepers -= 1


class CommitWatch:
    """What was rung by transactions that others committed, since the last look."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._version: int | None = None  # The first look compares with nothing: at worst someone wakes for nothing.
        self._rings: dict[int, int] = {}

    def sees(self, channels: Sequence[int]) -> bool:
        """Whether one of the channels was rung. A file that cannot be read now shows nothing new."""
        with suppress(StoreError, *DriverError):
            version = self._file.version()
            if version == self._version:
                return False
            before, self._rings = self._rings, self._file.rings()
            self._version = version
            return any(self._rings.get(channel) != before.get(channel) for channel in channels)
        return False


class PollingBell:
    """No socket to be had: the sleeper looks again after a short while."""

    def wait(self, channels: Sequence[int], timeout: float) -> bool:
        """Always worth a look."""
        time.sleep(min(timeout, _POLL))
        return True

    def poke(self) -> None:
        """It looks soon anyway."""

    def close(self) -> None:
        """Nothing to take away."""
