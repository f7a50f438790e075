"""What the numbers were measured on."""

import os
import platform
import random
import statistics
import time
from io import FileIO
from pathlib import Path

import apsw
import psycopg


def describe(folder: Path, postgres: str | None) -> dict[str, object]:
    overwrite, append = fsync_latency(folder)
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": processor(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "postgres": postgres,
        "psycopg": psycopg.__version__,
        "fdatasync_overwrite_us": round(overwrite * 1e6),
        "fsync_append_us": round(append * 1e6),
        "load_average": round(os.getloadavg()[0], 2),
    }


def line(machine: dict[str, object]) -> str:
    return (
        f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}, SQLite {machine['sqlite']}, "
        f"PostgreSQL {machine['postgres'] or 'not used'}, fdatasync {machine['fdatasync_overwrite_us']} µs, "
        f"fsync of an append {machine['fsync_append_us']} µs, load at the start {machine['load_average']}"
    )


def fsync_latency(folder: Path, times: int = 200) -> tuple[float, float]:
    """Median seconds of making 4 KB durable: written over what was there, and at the end of a growing file."""
    block = b"x" * 4096
    path = folder / "fsync-probe"
    overwrites = []
    with path.open("wb", buffering=0) as file:
        file.write(block)
        os.fsync(file.fileno())
        for _ in range(times):
            started = time.perf_counter()
            os.pwrite(file.fileno(), block, 0)
            os.fdatasync(file.fileno())
            overwrites.append(time.perf_counter() - started)
        appends = [_append(file, block) for _ in range(times)]
    path.unlink()
    return statistics.median(overwrites), statistics.median(appends)


def fsync_at_pace(folder: Path, rate: float, times: int) -> float:
    """The same at the end of a file, now and then: a machine that rests in between, and its disk, wake up first."""
    path = folder / "fsync-probe"
    appends = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            time.sleep(random.uniform(0.5, 1.5) / rate)
            appends.append(_append(file, b"x" * 4096))
    path.unlink()
    return statistics.median(appends)


def _append(file: FileIO, block: bytes) -> float:
    started = time.perf_counter()
    file.write(block)
    os.fsync(file.fileno())
    return time.perf_counter() - started


def processor() -> str:
    try:
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
