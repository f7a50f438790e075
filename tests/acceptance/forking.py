"""Workers that fork with an open client."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.history import Log
from tests.acceptance.working import send, settle, take


def forker(log: Log, url: str, queue: str, count: int, way: str, busy: bool) -> None:
    """Forks with an open client, while another thread uses it if `busy`; then both processes send and work."""
    with Holdfast(url) as hf:
        send(log, hf, queue, ["before"])
        settle(log, "ack", take(log, hf, queue, 1, []), hf.ack)
        assert hf.claim(queue, wait=0.01) == []
        enough = threading.Event()
        sending = threading.Thread(target=send_until, args=(log, hf, queue, enough))
        if busy:
            sending.start()
        fork: Callable[..., Callable[[], int]] = fork_by_os if way == "os" else fork_by_multiprocessing
        waits = [fork(send_and_work, log, hf, queue, f"child-{number}", count) for number in range(2)]
        send_and_work(log, hf, queue, "parent", count)
        codes = [wait() for wait in waits]
        enough.set()
        if busy:
            sending.join()
        assert codes == [0, 0], f"the children ended with {codes}"
        while claims := take(log, hf, queue, 1000, []):
            settle(log, "ack", claims, hf.ack)


def send_until(log: Log, hf: Holdfast, queue: str, enough: threading.Event) -> None:
    number = 0
    while not enough.is_set():
        send(log, hf, queue, [f"thread-{number}"])
        number += 1


def send_and_work(log: Log, hf: Holdfast, queue: str, name: str, count: int) -> None:
    for start in range(0, count, 200):
        send(log, hf, queue, [f"{name}-{number}" for number in range(start, start + 200)])
        settle(log, "ack", take(log, hf, queue, 150, []), hf.ack)
        send(log, hf, queue, [f"{name}-single-{start}"])
        if start % 1000 == 0:
            hf.close()  # Whoever closes last tidies up the file; with others left, nobody may think so of itself.


def fork_by_os(work: Callable[..., None], log: Log, *arguments: Any) -> Callable[[], int]:
    pid = os.fork()
    if not pid:
        os._exit(ended_well(work, log, *arguments))
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_by_multiprocessing(work: Callable[..., None], log: Log, *arguments: Any) -> Callable[[], int]:
    child = multiprocessing.get_context("fork").Process(target=ended_well, args=(work, log, *arguments))
    child.start()

    def wait() -> int:
        child.join()
        return child.exitcode or 0

    return wait


def ended_well(work: Callable[..., None], log: Log, *arguments: Any) -> int:
    signal.alarm(200)  # Only so that a child that hangs is told from one that is slow.
    try:
        work(log, *arguments)
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        return 1
    return 0


def fork_while_opening(log: Log, url: str, queue: str) -> None:
    """Forks at the moment when another thread is in the middle of the client's first use."""
    hf = Holdfast(url)
    begun, go_on = threading.Event(), threading.Event()
    migrate = internals(hf).store.schema.migrate

    def migrate_slowly() -> list[str]:
        begun.set()
        go_on.wait()
        return migrate()

    internals(hf).store.schema.migrate = migrate_slowly  # type: ignore[method-assign]
    opening = threading.Thread(target=send, args=(log, hf, queue, ["parent"]))
    opening.start()
    begun.wait()
    internals(hf).store.schema.migrate = migrate  # type: ignore[method-assign]
    wait = fork_by_os(send, log, hf, queue, ["child"])
    go_on.set()
    opening.join()
    code = wait()
    assert code == 0, f"the child ended with {code}"
    hf.close()


def fork_in_threads(log: Log, url: str, queue: str, threads: int, forks: int) -> None:
    """Several threads fork at the same time, while others use the client."""
    with Holdfast(url) as hf:
        enough = threading.Event()
        sending = threading.Thread(target=send_until, args=(log, hf, queue, enough))
        sending.start()
        forking = [
            threading.Thread(target=fork_often, args=(log, hf, queue, number, forks)) for number in range(threads)
        ]
        for thread in forking:
            thread.start()
        for thread in forking:
            thread.join()
        enough.set()
        sending.join()


def fork_often(log: Log, hf: Holdfast, queue: str, thread: int, forks: int) -> None:
    for number in range(forks):
        code = fork_by_os(send, log, hf, queue, [f"forked-{thread}-{number}"])()
        if code:
            log.write("error", "fail", error=f"a child ended with {code}")
