"""The process with the consumers of a served spec: `python -m holdfast.server.serving.worker_process`.

On its standard output it says that it has loaded all that it needs, waits for a word on its standard input, and says
that it is ready. It ends when it is told so, or when the server is gone: then its standard input is at its end.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

LOADED, GO, READY = b"loaded\n", b"!", b"ready\n"


def main() -> int:
    """Runs the consumers until told to stop."""
    # Ctrl-C reaches all processes of a terminal; the server is the one that says what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=os.environ.get("HOLDFAST_LOG", "INFO"))
    from holdfast.errors import HoldfastError

    try:
        from holdfast.server.serving import worker_client

        os.write(1, LOADED)
        if os.read(0, 1) != GO:
            return 0
        runner = worker_client.hf.running(grace=worker_client.orders.grace)
        threading.Thread(target=_watch_the_server, daemon=True).start()
        with worker_client.hf:
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
