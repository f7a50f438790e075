"""Work in fresh processes: started together at a gate, their answers collected, none left behind."""

import multiprocessing
import multiprocessing.connection
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["bench.loading", "holdfast", "holdfast.store.sqlite", "holdfast.store.postgres"])
"""Children come from a server that has imported much and opened nothing: as fresh as new ones, and there at once."""

Gate = Callable[[], object]
"""Called in the child: waits until every other child of the same call has come to the same point."""

Job = tuple[Callable[..., Any], tuple[Any, ...]]
LIMIT = 300.0


class Failed(Exception):
    """A measurement that does not count, and why."""


def alone(function: Callable[..., Any], *args: Any, limit: float = LIMIT) -> Any:
    """`function(gate, *args)` in a process of its own."""
    return together([(function, args)], limit=limit)[0]


def together(jobs: Sequence[Job], limit: float = LIMIT) -> list[Any]:
    """Every `function(gate, *args)` in a process of its own; their answers, in order."""
    barrier = _context.Barrier(len(jobs))
    children, answers = [], []
    try:
        for function, args in jobs:
            here, there = _context.Pipe(duplex=False)
            child = _context.Process(target=_work, args=(there, barrier, function, args), daemon=True)
            child.start()
            there.close()
            children.append(child)
            answers.append(here)
        return _collect(answers, time.monotonic() + limit)
    finally:
        for child in children:
            child.join(5)
            if child.is_alive():
                child.kill()
                child.join()


def _collect(pipes: list[Any], deadline: float) -> list[Any]:
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        waiting = [pipe for index, pipe in enumerate(pipes) if index not in found]
        ready = multiprocessing.connection.wait(waiting, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Failed("not finished in time")
        for pipe in ready:
            found[pipes.index(pipe)] = _answer(pipe)
    return [found[index] for index in range(len(pipes))]


def _answer(pipe: Any) -> Any:
    try:
        good, answer = pipe.recv()
    except EOFError:
        raise Failed("a process died without an answer") from None
    if not good:
        raise Failed(answer)
    return answer


def _work(pipe: Any, barrier: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        pipe.send((True, function(barrier.wait, *args)))
    except BaseException as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        pipe.send((False, f"{type(problem).__name__}: {problem} ({last.filename.rpartition('/')[2]}:{last.lineno})"))
        barrier.abort()
