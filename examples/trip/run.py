"""Two trips, booked by four workers. One card is good. The other is declined, and nothing stays booked."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

TRAVEL = Path(__file__).with_name("travel.py")
ENDED = ("completed", "compensated")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRIP_DB"] = f"sqlite:///{folder}/trip.db"
        import travel

        travel.declare()
        with ExitStack() as workers:
            for name in travel.WORKERS:
                process = workers.enter_context(subprocess.Popen([sys.executable, TRAVEL, name]))
                workers.callback(process.terminate)
            book(travel, "rome", {"city": "Rome", "drives": False, "pays_with": "golden"})
            book(travel, "oslo", {"city": "Oslo", "drives": True, "pays_with": "worn out"})
        show(travel, "oslo")
        travel.hf.close()


def book(travel, trip, data):  # type: ignore[no-untyped-def]
    """Starts a trip and waits for its end. (A program that has something else to do would look later.)"""
    travel.hf.start_saga("trip", data, id=trip)
    deadline = time.monotonic() + 60
    while (saga := travel.hf.sagas.get(trip)).status not in ENDED:
        if time.monotonic() > deadline:
            raise SystemExit(f"{trip} is still {saga.status} after a minute")
        time.sleep(0.05)
    tell(f"the trip to {data['city']} is {saga.status}" + (f": {saga.error}" if saga.error else ""))


def show(travel, trip):  # type: ignore[no-untyped-def]
    """What stands in its history."""
    for line in travel.hf.sagas.get(trip).timeline:
        if line.step:
            tell(f"{line.what:14} {line.step}")


def tell(what: str) -> None:
    print(f"{'agency':10}{what}", flush=True)


if __name__ == "__main__":
    main()
