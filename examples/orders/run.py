"""A shop publishes orders to four services. One of them is down, and comes back."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICES = Path(__file__).with_name("services.py")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ORDERS_DB"] = f"sqlite:///{folder}/orders.db"
        import services

        services.declare()
        heard = Heard()
        with running("email", heard), running("analytics", heard), running("inventory", heard):
            tell("shipping is down; the shop sells all the same")
            for number, region in enumerate(("eu", "us", "eu"), 1):
                services.hf.publish(f"orders.{region}.created", {"order": number})
            services.hf.publish("orders.us.canceled", {"order": 2})
            heard.wait("email", 3)
            heard.wait("analytics", 4)
            heard.wait("inventory", 5)  # One of them twice.
            tell(f"everyone else is done; shipping is owed {services.hf.stats('orders/shipping').pending}")
            with running("shipping", heard):
                heard.wait("shipping", 3)
        owed = sum(services.hf.stats(f"orders/{name}").pending for name in services.SERVICES)
        tell(f"shipping is back and has missed nothing; owed to anyone: {owed}")
        services.hf.close()


class Heard:
    """What the services have said so far."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()

    def note(self, line: str) -> None:
        print(line, end="", flush=True)
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def wait(self, who: str, count: int) -> None:
        with self._changed:
            said = self._changed.wait_for(lambda: sum(line.startswith(who) for line in self._lines) >= count, 60)
        if not said:
            raise SystemExit(f"{who} did not say enough within a minute")


@contextmanager
def running(service: str, heard: Heard) -> Iterator[None]:
    with subprocess.Popen([sys.executable, SERVICES, service], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        listener = threading.Thread(target=lambda lines: [heard.note(line) for line in lines], args=(process.stdout,))
        listener.start()
        try:
            yield
        finally:
            process.terminate()
            listener.join()


def tell(what: str) -> None:
    print(f"{'shop':10}{what}", flush=True)


if __name__ == "__main__":
    main()
