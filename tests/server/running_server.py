"""A server as a program: serves the database that it is told, says its URL, and what it did when it ends.

Its handler and its slow command end when it reads a line.
"""

import sys
import threading
from typing import Any

from holdfast import Holdfast
from holdfast.server.app import create_app
from holdfast.server.server import serve
from holdfast.server.webhooks.hook import Hook
from holdfast.server.webhooks.signatures import Verifier
from tests.server.servers import SECRET
from tests.waiting import LONGEST

GO_ON = threading.Event()


def slow(envelope: dict[str, Any], key: str | None) -> str:
    print("command begun", flush=True)
    assert GO_ON.wait(LONGEST)
    return "done"


def main(url: str, grace: str) -> None:
    threading.Thread(target=lambda: (sys.stdin.readline(), GO_ON.set()), daemon=True).start()
    hf = Holdfast(url)
    hf.queue("worked")

    @hf.consumer("worked")
    def work(message: Any) -> str:
        print("handler begun", flush=True)
        assert GO_ON.wait(LONGEST)
        return "worked"

    verifier = Verifier("X-Signature", [SECRET])
    hooks = [
        Hook(name="orders", queue="orders", verifier=verifier),
        Hook(name="worked", queue="worked", verifier=verifier),
        Hook(name="slow", command=slow, verifier=verifier),
    ]
    with hf:
        serve(hf, create_app(hf, hooks), port=0, grace=grace, on_started=lambda address: print(address, flush=True))
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
