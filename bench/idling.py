"""What it costs to wait, measured from a thread beside the one that waits."""

import resource
import threading
import time
from collections.abc import Callable


class Watcher(threading.Thread):
    """Lets it settle, then watches for so many seconds: `cpu` in seconds, `memory` in bytes. Then calls `then`."""

    def __init__(self, seconds: float, then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.settling = min(1.0, seconds)
        self.seconds = seconds
        self.cpu = 0.0
        self.memory = 0
        self._then = then

    def run(self) -> None:
        time.sleep(self.settling)
        before = time.process_time()
        time.sleep(self.seconds)
        self.cpu, self.memory = time.process_time() - before, _memory()
        self._then()


def _memory() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
