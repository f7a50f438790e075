"""The process with the consumers of a served spec: `python -m holdfast.serving.worker`.

It says that it is ready on its standard output, and ends when it is told so, or when the server is gone: its standard
input is a line to the server, on which nothing ever comes but the end.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

READY = b"ready\n"


def main() -> int:
    """Runs the consumers until told to stop."""
    # Ctrl-C reaches all processes of a terminal; the server is the one that says what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=os.environ.get("HOLDFAST_LOG", "INFO"))
    from holdfast.errors import HoldfastError

    try:
        from holdfast.serving import staff

        runner = staff.hf.running(grace=staff.orders.grace)
        threading.Thread(target=_watch_the_server, daemon=True).start()
        with staff.hf:
            runner.run((signal.SIGTERM,), _say_ready)
    except HoldfastError as problem:
        sys.stderr.write(f"holdfast: {problem}\n")
        return 1
    return 0


def _say_ready() -> None:
    os.write(1, READY)


def _watch_the_server() -> None:
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
