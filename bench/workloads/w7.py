"""W7: what a worker costs that has nothing to do: memory, processor time, and the import."""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from bench.cases import Case, Goal, Outcome, Row
from bench.places import Place
from bench.processes import Failed
from bench.queues import Contender, Target
from bench.sizes import Sizes

IDLE = """
import sys
from bench.idling import Watcher
from bench.queues import Target, open_queue

store, contender, url, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
queue = open_queue(Target(contender, store, url))
watcher = Watcher(seconds)
watcher.start()
claims = queue.claim(1, wait=watcher.settling + seconds + 0.2)
watcher.join()
print(watcher.cpu, watcher.memory, len(claims))
queue.close()
"""

IMPORT = """
import time
started = time.perf_counter()
import {modules}
print(time.perf_counter() - started)
"""

MODULES: dict[tuple[Contender, str], str] = {
    ("holdfast", "sqlite"): "holdfast, holdfast.store.sqlite",
    ("holdfast", "postgres"): "holdfast, holdfast.store.postgres",
    ("ref", "sqlite"): "bench.queues.ref_sqlite",
    ("ref", "postgres"): "bench.queues.ref_postgres",
}


def cases(sizes: Sizes) -> Iterator[Case]:
    rows = [
        Row("idle memory", "rss", "MB", goals=(Goal("value", 60, below=True),)),
        Row("idle processor", "cpu", "%", goals=(Goal("value", 1, below=True),)),
        Row("import", "import", "ms", goals=(Goal("value", 150, below=True),)),
    ]
    yield Case("w7", "idle worker", partial(measure, sizes.idle_seconds, sizes.imports), rows)


def measure(seconds: float, imports: int, place: Place, target: Target) -> Outcome:
    cpu, rss, claimed = python(IDLE, target.store, target.contender, target.url, str(seconds))
    if claimed:
        raise Failed("something was claimed from an empty queue")
    statement = IMPORT.format(modules=MODULES[target.contender, target.store])
    took = [python(statement)[0] for _ in range(imports)]
    return {"rss": rss / 1e6, "cpu": 100 * cpu / seconds, "import": 1000 * statistics.median(took)}


def python(code: str, *args: str) -> list[float]:
    """The numbers that such a program prints."""
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Failed(done.stderr.strip().rpartition("\n")[2])
    return [float(word) for word in done.stdout.split()]
