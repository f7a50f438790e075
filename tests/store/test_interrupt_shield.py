"""A thread is interrupted in other people's code, and never in a shielded call."""

import ctypes
import gc
import threading
from collections.abc import Iterator

import pytest

from holdfast.store.interrupt_shield import Shield, shielded
from tests.tracing import not_traced

pytestmark = pytest.mark.unit


class Stop(BaseException):
    pass


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """An interrupt that arrives in a callback of the garbage collector, as Hypothesis has one, is only printed: the
    thread would go on, and wait for ever for another."""
    gc.disable()
    yield
    gc.enable()


def send(thread: threading.Thread) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stop))


def test_an_interrupt_waits_until_the_outermost_call_is_through() -> None:
    shield, inside, go_on = Shield(), threading.Event(), threading.Event()
    seen: list[str] = []

    @shielded
    def outer() -> None:
        inner()
        seen.append("outer")

    @shielded
    def inner() -> None:
        inside.set()
        assert go_on.wait(30)
        seen.append("inner")

    def work() -> None:
        shield.wear()
        try:
            outer()
            seen.append("never")
        except Stop:
            seen.append("stopped")

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(30)
    shield.interrupt(Stop, lambda: send(thread))
    go_on.set()
    thread.join(30)
    assert seen == ["inner", "outer", "stopped"]


@pytest.mark.usefixtures("nervous")
def test_whenever_it_comes_a_call_is_done_as_a_whole_or_not_begun() -> None:
    shield, rounds = Shield(), 400
    halves: list[int] = []
    ready, stops, broken = threading.Semaphore(0), 0, 0

    @shielded
    def whole() -> None:
        halves.append(1)
        sum(range(20))
        halves.pop()

    def work() -> None:
        nonlocal stops, broken
        not_traced()
        shield.wear()
        while stops < rounds:
            try:
                ready.release()
                while True:
                    whole()
            except Stop:
                stops += 1
                broken += len(halves)
                halves.clear()

    thread = threading.Thread(target=work)
    thread.start()
    for number in range(rounds):
        while stops < number:
            pass
        assert ready.acquire(timeout=30)
        shield.interrupt(Stop, lambda: send(thread))
    thread.join(30)
    assert (stops, broken) == (rounds, 0)


def test_threads_that_nobody_interrupts_need_no_shield() -> None:
    assert shielded(lambda number: number + 1)(1) == 2
