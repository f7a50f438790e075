"""Report readiness, reloads, shutdown and liveness to systemd: the sd_notify protocol, without a library.

systemd passes a Unix datagram socket in `NOTIFY_SOCKET` to services with `Type=notify`, and with `WatchdogSec=` the
interval within which it expects `WATCHDOG=1`, in `WATCHDOG_USEC`. Without these variables nothing is ever sent.

The watchdog has no thread of its own, because such a thread would go on pinging while everything else hangs. `ping` is
called from the loop that supervises the process:

- `holdfast work`: the main thread, which waits for the consumers to end (for an `AsyncHoldfast`, its event loop);
- `holdfast serve`: the event loop that answers requests.

If that loop hangs, pings stop by themselves. Before each ping it asks for the other loops that must go on: claiming,
lease renewal, handler timeouts, maintenance, pools. One that has ended, or has not turned for longer than any database
call may take, stops the pings too, and systemd restarts the service. Two things never stop them:

- a long handler: it runs in a thread or process of its own, and `timeout=` is what limits it;
- a database that is away: each call ends after the client's `patience`, so the loops keep turning. A restart would not
  bring the database back.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, MutableMapping

log = logging.getLogger("holdfast")

LONGEST_PAUSE = 0.5
"""Seconds between two looks of the supervising loop at most, however long the interval is."""

SEND_WITHIN = 1.0
"""Seconds that a datagram may take. systemd reads them at once unless it hangs itself."""


class Notifier:
    """The connection to systemd; silent if there is none. Its methods may be called from any thread."""

    def __init__(self, address: str | None = None, interval: float | None = None) -> None:
        """`address` as in NOTIFY_SOCKET; `interval`: seconds between pings after which systemd ends the process."""
        self._address = address
        self._interval = interval if address is not None else None
        self._next_ping = 0.0
        self._is_ready = False
        self._is_stopping = False
        self._stuck: str | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Notifier:
        """Take the variables out of the environment, so that no child process notifies in our place."""
        address = environ.pop("NOTIFY_SOCKET", None)
        microseconds = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        is_ours = pid in {"", str(os.getpid())}
        interval = int(microseconds) / 1_000_000 if microseconds.isdecimal() and is_ours else 0.0
        return cls(address or None, interval or None)

    @property
    def is_watched(self) -> bool:
        """Whether systemd expects pings."""
        return self._interval is not None

    @property
    def pause(self) -> float:
        """Seconds that the supervising loop may wait between two calls of `ping`."""
        return LONGEST_PAUSE if self._interval is None else min(LONGEST_PAUSE, self._interval / 4)

    def ready(self, status: str) -> None:
        """Report that the process works: after its start, and after each reload."""
        with self._lock:
            if not self._is_stopping:
                self._is_ready = True
                self._send("READY=1", f"STATUS={status}")

    def reloading(self, status: str) -> None:
        """Report that a reload has begun. `ready` ends it."""
        with self._lock:
            if self._is_ready and not self._is_stopping:
                now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
                self._send("RELOADING=1", f"MONOTONIC_USEC={now}", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """Report that draining has begun. From here on `TimeoutStopSec=` limits the process, not the watchdog."""
        with self._lock:
            if not self._is_stopping:
                self._is_stopping = True
                self._send("STOPPING=1", f"STATUS={status}")

    def ping(self, stuck: Callable[[], str | None]) -> None:
        """Send `WATCHDOG=1` at half of the interval, unless `stuck` names a loop that only a restart can help."""
        if self._interval is None or time.monotonic() < self._next_ping:
            return
        trouble = stuck()
        if trouble is None:
            self._next_ping = time.monotonic() + self._interval / 2
            self._send("WATCHDOG=1")
        elif trouble != self._stuck:
            log.error("%s; the watchdog is not pinged any more, so that this process is restarted", trouble)
            self._send(f"STATUS=Stuck: {trouble}")
        self._stuck = trouble

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # A leading @ stands for the NUL byte of an abstract socket.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
                datagrams.settimeout(SEND_WITHIN)
                datagrams.connect(address)
                datagrams.sendall("\n".join(line.replace("\n", " ") for line in lines).encode())
        except OSError as problem:
            log.warning("could not notify systemd through %s: %s", self._address, problem)
