"""Wake-ups by LISTEN/NOTIFY: by the enqueue itself if it is quiet, otherwise afterwards by a thread of their own.

If every enqueue notified, all commits of the server would queue up behind one lock, with an fsync inside. So only one
at a time may, of all sessions, and a process only now and then. What others have to tell is sent afterwards, on a
connection that does not wait for the disk, with everything that came together in one: it costs the producer nothing.
If it gets lost, a sleeper finds the message at its next look.

Behind a pooler that shares sessions nobody can listen. There sleepers hear their own process at once, and look for the
rest by themselves.

In the caller's own transaction there is no afterwards that we know of: there, and only there, NOTIFY is part of it.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from holdfast.store.api import Waiter
from holdfast.store.postgres.statements import QUERIES
from holdfast.store.transaction import Transaction

CHANNEL = "holdfast"
_EVERYONE = "*"
_PAYLOAD_LIMIT = 7_000
_RETRY = 0.5

# How long a notification may take, and how long the end of a thread is waited for.
_TO_SEND = 10.0
_TO_END = 5.0

# The shortest time between two notifications: a busy producer's come together, and nobody sleeps longer for it.
_PACE = 0.002

# Who has begun to ring so long ago is quiet: nothing would come together with what it tells now.
_QUIET = _PACE

# How often those look who cannot listen.
_LOOK_EVERY = 0.5

Connect = Callable[..., "psycopg.Connection[Any]"]


class PostgresWakeup:
    """One sender and one listener per process, each started when first needed."""

    def __init__(self, connect: Connect, listens: bool = True, patience: float = _TO_END) -> None:
        self._connect = connect
        self._listens = listens
        self._to_end = min(_TO_END, patience / 2)  # For each of the two threads.
        self._lock = threading.Lock()
        self._rung_at = -math.inf
        self._sender: NotificationSender | None = None
        self._listener: Ears | None = None

    def is_quiet(self) -> bool:
        """Whether the next message may wake sleepers by its own commit."""
        return self._listens and time.monotonic() - self._rung_at > _QUIET

    def ring(self, channels: Sequence[int], told_since: float | None = None) -> None:
        """Wakes everyone who waits for one of these channels, in every process.

        `told_since`: a statement that was begun then has done so by its commit. The time counts from there, so that one
        that takes longer than the pace may be followed by another at once, and both need no thread.
        """
        self._rung_at = time.monotonic() if told_since is None else told_since
        if told_since is not None:
            return
        with self._lock:
            if self._sender is None:
                self._sender = NotificationSender(self._connect)
            self._sender.send(channels)
            if self._listener is not None and not self._listens:
                self._listener.hear(payload(set(channels)))

    def bell(self) -> Waiter:
        """A new ear. It need not wait until the server knows of it: then everyone wakes up and looks, once."""
        with self._lock:
            if self._listener is None:
                self._listener = NotificationListener(self._connect) if self._listens else Ears(_LOOK_EVERY)
            return ConditionBell(self._listener)

    def close(self) -> None:
        """Ends both threads; they start again when needed."""
        with self._lock:
            sender, self._sender = self._sender, None
            listener, self._listener = self._listener, None
        if sender is not None:
            sender.close(self._to_end)
        if listener is not None:
            listener.close(self._to_end)

    def after_fork_in_child(self) -> None:
        """Threads do not survive a fork."""
        if self._listener is not None:
            self._listener.after_fork_in_child()
        self._lock = threading.Lock()
        self._sender = self._listener = None


class NotificationSender:
    """The thread that notifies. What comes while it is busy goes out together."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast-notify", daemon=True)
        self._thread.start()

    def send(self, channels: Sequence[int]) -> None:
        """Leaves it to the thread."""
        with self._changed:
            self._waiting.update(channels)
            self._changed.notify()

    def close(self, within: float = _TO_END) -> None:
        """Sends what is waiting and ends. A thread that the server keeps waiting is left alone."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=within)

    def _run(self) -> None:
        connection: Any = None
        while channels := self._next():
            try:
                if connection is None:
                    connection = self._connect()
                connection.deadline = time.monotonic() + _TO_SEND
                connection.execute(QUERIES["wakeup.notify"], {"channel": CHANNEL, "payload": payload(channels)})
                time.sleep(_PACE)
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None  # A hint was lost. The next one is worth a new connection.
                time.sleep(0 if self._closed else _RETRY)
        if connection is not None:
            connection.close()

    def _next(self) -> set[int]:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            channels, self._waiting = self._waiting, set()
            return channels


class Ears:
    """What was rung, for all sleepers of this process; those that cannot hear everything wake up by the clock."""

    def __init__(self, longest: float = math.inf) -> None:
        self.count = 0
        self._longest = longest
        self._changed = threading.Condition()
        self._rung: dict[int, int] = {}
        self._everyone = 0

    def wait(self, wanted: set[int], seen: int, timeout: float, poked: threading.Event) -> tuple[bool, int]:
        """Until one of the wanted channels was rung after `seen`, or the sleeper is poked."""
        deadline = time.monotonic() + min(timeout, self._longest)
        with self._changed:
            while True:
                if (
                    poked.is_set()
                    or self._everyone > seen
                    or any(self._rung.get(channel, 0) > seen for channel in wanted)
                ):
                    return True, self.count
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return timeout > self._longest, self.count

    def nudge(self) -> None:
        """Makes every sleeper look whether it was poked."""
        with self._changed:
            self._changed.notify_all()

    def hear(self, payload: str) -> None:
        """Someone has rung."""
        with self._changed:
            self.count += 1
            if payload == _EVERYONE:
                self._everyone = self.count
            else:
                self._rung.update({int(part): self.count for part in payload.split(",") if part.isdigit()})
            self._changed.notify_all()

    def close(self, within: float = _TO_END) -> None:
        """Nothing to end."""

    def after_fork_in_child(self) -> None:
        """Nothing to leave alone."""


class NotificationListener(Ears):
    """The thread that hears notifications."""

    def __init__(self, connect: Connect) -> None:
        super().__init__()
        self._connect = connect
        self._closed = threading.Event()
        self._closing, self._close_heard = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="holdfast-listen", daemon=True)
        self._thread.start()

    def close(self, within: float = _TO_END) -> None:
        """Ends the thread, which hears of it at once, unless the server keeps it waiting."""
        self._closed.set()
        with suppress(OSError):  # A notification may have let it see that already, and hang up.
            self._closing.send(b"!")  # Closing alone would not be heard as long as a forked child has it too.
        self._closing.close()
        self._thread.join(timeout=within)

    def after_fork_in_child(self) -> None:
        """The thread is the parent's."""
        self._closing.close()
        self._close_heard.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.hear(_EVERYONE)  # Whatever was rung while nobody listened.
                    self._listen(connection)
            except psycopg.Error:
                self._closed.wait(_RETRY)
        self._close_heard.close()

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        something = select.poll()
        something.register(connection.fileno(), select.POLLIN)
        something.register(self._close_heard, select.POLLIN)
        while not self._closed.is_set():
            for notice in connection.notifies(timeout=0):
                self.hear(notice.payload)
            something.poll()


class ConditionBell:
    """One sleeper of this process."""

    def __init__(self, listener: Ears) -> None:
        self._listener = listener
        self._seen = listener.count
        self._poked = threading.Event()

    def wait(self, channels: Sequence[int], timeout: float) -> bool:
        """True as soon as one of the channels was rung since the last look."""
        rung, self._seen = self._listener.wait(set(channels), self._seen, timeout, self._poked)
        self._poked.clear()
        return rung

    def poke(self) -> None:
        """Wakes this sleeper, from another thread."""
        self._poked.set()
        self._listener.nudge()

    def close(self) -> None:
        """Nothing to take away."""


def notify(tx: Transaction) -> None:
    """Rings from inside a transaction: heard when it commits, never if it does not."""
    tx.one("wakeup.notify", channel=CHANNEL, payload=payload(tx.rings))


def payload(channels: set[int]) -> str:
    text = ",".join(map(str, sorted(channels)))
    return text if len(text) <= _PAYLOAD_LIMIT else _EVERYONE
