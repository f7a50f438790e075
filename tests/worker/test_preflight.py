"""Checks before the first claim: what counts as a failure, and who hears of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, PreflightFailed, exec_handler

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


async def awaited() -> None: ...


class Awaited:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize("check", [awaited, partial(awaited), Awaited()])
def test_a_check_that_nobody_would_await_is_refused(one: Holdfast, check: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^preflight must be a plain function"):
        one.consumer("q", preflight=check)(lambda message: None)
    with pytest.raises(InvalidInput, match=r"^preflight must be a plain function"):
        exec_handler("true", preflight=check)


@pytest.mark.parametrize(
    ("check", "says"), [(lambda: False, "it returned False"), (lambda: awaited(), "it returned what nobody awaits")]
)
def test_what_a_check_returns_may_be_a_failure(one: Holdfast, check: Callable[[], object], says: str) -> None:
    """The same for a consumer and for a program."""
    one.consumer("q", name="lame", preflight=check)(lambda message: None)
    with pytest.raises(PreflightFailed, match=f"^lame: preflight: {says}"):
        one.run()
    with pytest.raises(PreflightFailed, match=f"^preflight: .*: {says}"):
        exec_handler("true", preflight=check).preflight()


def test_every_owner_of_its_queues_is_told_once(hf: Holdfast) -> None:
    for queue, owner in (("a", "mia"), ("b", "tom"), ("c", "mia")):
        hf.queue(queue, owner=owner)
    hf.consumer("a", "b", "c", name="lame", preflight=lambda: 1 / 0)(lambda message: None)
    for _ in range(2):
        with pytest.raises(PreflightFailed):
            hf.run()
    told = [(one.owner, one.kind, one.about, one.queue, one.repeats) for one in hf.notices.list()]
    assert told == [("mia", "preflight", "lame", "a", 1), ("tom", "preflight", "lame (tom)", "b", 1)]
