"""python -m bench.profiling: where the time of a drain goes, by cProfile, in one process.

The profiler slows Python code down and the database not at all: read it for the order of things, not for their size.
With `--folder /dev/shm` the disk costs nothing and only the processor's part is left; such rates are no benchmark.
"""

import argparse
import cProfile
import pstats
import time
from pathlib import Path

from bench.loading import load
from bench.places import FOLDER, PLACES, run_folder
from bench.queues import Target, open_queue
from bench.workloads.w3 import drain_apart, drain_fused


def main() -> None:
    chosen = _arguments().parse_args()
    drain = drain_fused if chosen.way == "fused" else drain_apart
    with run_folder(chosen.folder) as folder, PLACES[chosen.store](folder) as place:
        for profile in (None, cProfile.Profile()):
            with place.fresh() as url:
                target = Target(chosen.contender, chosen.store, url)
                load(place, target, chosen.count)
                queue = open_queue(target)
                wall, own = time.perf_counter(), time.process_time()
                if profile is None:
                    drain(queue, chosen.n)
                else:
                    profile.runcall(drain, queue, chosen.n)
                wall, own = time.perf_counter() - wall, time.process_time() - own
                queue.close()
            print(
                f"{'plain' if profile is None else 'profiled'}: {chosen.count / wall:,.0f} messages/s, "
                f"{1e6 * wall / chosen.count:.2f} µs each, {100 * own / wall:.0f} % of it on the processor here"
            )
            if profile is not None:
                pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(chosen.lines)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("--store", choices=list(PLACES), default="sqlite")
    parser.add_argument("--contender", choices=["holdfast", "ref"], default="holdfast")
    parser.add_argument("--way", choices=["fused", "apart"], default="fused")
    parser.add_argument("--n", type=int, default=100, help="messages per claim")
    parser.add_argument("--count", type=int, default=100_000, help="messages in all")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the database goes")
    parser.add_argument("--lines", type=int, default=30, help="lines of the profile")
    return parser


if __name__ == "__main__":
    main()
