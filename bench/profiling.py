"""python -m bench.profiling: where the time of a drain goes, by cProfile, in one process.

The profiler slows Python code down and the database not at all: read it for the order of things, not for their size.
`--way run` drains by a consumer, which chooses `--n` itself, and adds up all its threads, those that wait too.
With `--folder /dev/shm` the disk costs nothing and only the processor's part is left; such rates are no benchmark.
"""

import argparse
import cProfile
import pstats
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench.consuming import plain
from bench.loading import load
from bench.places import FOLDER, PLACES, run_folder
from bench.queues import Queue, Target, open_queue
from bench.queues.holdfast import QUEUE, HoldfastQueue
from bench.workloads.w3 import drain_apart, drain_fused


def _run(queue: Queue, n: int) -> None:
    assert isinstance(queue, HoldfastQueue), "ref has no consumers"
    queue.hf.consumer(QUEUE, empty="terminate")(plain([]))
    queue.hf.run()


DRAINS: dict[str, Callable[[Any, int], object]] = {"fused": drain_fused, "apart": drain_apart, "run": _run}


@contextmanager
def _profiled(profiles: list[cProfile.Profile]) -> Iterator[None]:
    """This thread, and every one that starts in here, each by a profiler of its own."""

    def begin(*_: object) -> None:
        profiles.append(cProfile.Profile())
        profiles[-1].enable()

    threading.setprofile(begin)
    begin()
    try:
        yield
    finally:
        profiles[0].disable()
        threading.setprofile(None)


def main() -> None:
    chosen = _arguments().parse_args()
    with run_folder(chosen.folder) as folder, PLACES[chosen.store](folder) as place:
        for is_profiled in (False, True):
            profiles: list[cProfile.Profile] = []
            with place.fresh() as url:
                target = Target(chosen.contender, chosen.store, url)
                load(place, target, chosen.count)
                queue = open_queue(target)
                wall, own = time.perf_counter(), time.process_time()
                with _profiled(profiles) if is_profiled else nullcontext():
                    DRAINS[chosen.way](queue, chosen.n)
                wall, own = time.perf_counter() - wall, time.process_time() - own
                queue.close()
            print(
                f"{'profiled' if is_profiled else 'plain'}: {chosen.count / wall:,.0f} messages/s, "
                f"{1e6 * wall / chosen.count:.2f} µs each, {100 * own / wall:.0f} % of it on the processor here"
            )
            if profiles:
                pstats.Stats(*profiles).strip_dirs().sort_stats("tottime").print_stats(chosen.lines)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("--store", choices=list(PLACES), default="sqlite")
    parser.add_argument("--contender", choices=["holdfast", "ref"], default="holdfast")
    parser.add_argument("--way", choices=list(DRAINS), default="fused")
    parser.add_argument("--n", type=int, default=100, help="messages per claim")
    parser.add_argument("--count", type=int, default=100_000, help="messages in all")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the database goes")
    parser.add_argument("--lines", type=int, default=30, help="lines of the profile")
    return parser


if __name__ == "__main__":
    main()
