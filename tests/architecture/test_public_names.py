"""What users import is pinned, and the asynchronous client is the synchronous one with `await`."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

PINNED = Path(__file__).with_name("public_names.txt")

NEVER_AWAITED = {
    "consumer": "a decorator",
    "subscriber": "a decorator",
    "command": "a decorator",
    "commands": "only lists what was declared",
    "around_enqueue": "a decorator",
    "around_execute": "a decorator",
    "pool": "only declares",
    "on": "only notes a callback",
    "running": "gives something to enter",
    "stop": "only asks",
    "acting_as": "gives another client",
}
"""Plain in both clients → why."""


def parity_faults(sync: type, asynchronous: type) -> list[str]:
    ours, theirs = public(sync), public(asynchronous)
    one_sided = [f"{name}: in one client only" for name in sorted(ours.keys() ^ theirs.keys())]
    common = sorted(ours.keys() & theirs.keys())
    return [*one_sided, *(fault for name in common if (fault := difference(name, ours[name], theirs[name])))]


def public(client: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers_static(client) if not name.startswith("_")}


def difference(name: str, ours: Any, theirs: Any) -> str | None:
    if not inspect.isroutine(ours):
        return None if type(ours) is type(theirs) else f"{name}: {type(ours).__name__} against {type(theirs).__name__}"
    if not inspect.isroutine(theirs):
        return f"{name}: a method in one client only"
    if parameters(ours) != parameters(theirs):
        return f"{name}: ({', '.join(map(str, parameters(ours)))}) against ({', '.join(map(str, parameters(theirs)))})"
    if name not in NEVER_AWAITED and not is_awaited(unwrapped(theirs)):
        return f"{name}: cannot be awaited"
    return None


def parameters(method: Any) -> list[inspect.Parameter]:
    """Name, kind and default of each; annotations may differ, since one client's results are the other's awaitables."""
    signature = inspect.signature(unwrapped(method))
    return [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]


def unwrapped(method: Any) -> Any:
    return method.__func__ if isinstance(method, staticmethod | classmethod) else method


def is_awaited(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def test_the_public_names_are_the_pinned_ones() -> None:
    import holdfast

    pinned = PINNED.read_text().split()
    assert pinned == sorted(pinned)
    assert sorted(holdfast.__all__) == pinned
    assert [name for name in pinned if not hasattr(holdfast, name)] == []


def test_both_clients_have_the_same_methods() -> None:
    from holdfast import AsyncHoldfast, Holdfast

    assert parity_faults(Holdfast, AsyncHoldfast) == []


def test_an_awaited_method_awaits_the_one_of_its_name() -> None:
    """Also where two have the same signature, such as `pause` and `resume`."""
    from holdfast import AsyncHoldfast, Holdfast

    awaited = {
        name: one.__wrapped__
        for name in dir(AsyncHoldfast)
        if hasattr(one := getattr(AsyncHoldfast, name), "__wrapped__")
    }
    assert len(awaited) > 50
    assert [name for name, method in awaited.items() if method is not getattr(Holdfast, name)] == []


class Plain:
    def enqueue(self, queue: str, *, delay: float = 0) -> int: ...
    def consumer(self, *queues: str) -> None: ...
    @property
    def url(self) -> str: ...


def test_parity_is_seen() -> None:
    class Good:
        async def enqueue(self, queue: str, *, delay: float = 0) -> object: ...
        def consumer(self, *queues: str) -> None: ...
        @property
        def url(self) -> str: ...

    assert parity_faults(Plain, Good) == []


def test_every_kind_of_disparity_is_caught() -> None:
    class Bad:
        async def enqueue(self, queue: str, *, delay: float = 1) -> int: ...
        async def consumer(self, *queues: str) -> None: ...
        def extra(self) -> None: ...
        async def url(self) -> str: ...

    names = [fault.partition(":")[0] for fault in parity_faults(Plain, Bad)]
    assert names == ["extra", "enqueue", "url"]


def test_a_method_that_cannot_be_awaited_is_caught() -> None:
    class Blocking(Plain):
        pass

    assert parity_faults(Plain, Blocking) == ["enqueue: cannot be awaited"]


def test_asyncio_is_loaded_only_when_it_is_asked_for() -> None:
    """It would be a third of what `import holdfast` costs."""
    program = (
        "import sys, holdfast; print('asyncio' in sys.modules, holdfast.AsyncHoldfast and 'asyncio' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]


def test_what_reads_cron_lines_is_loaded_only_for_a_schedule() -> None:
    program = "import sys, holdfast; print({'cronsim', 'zoneinfo'} & sys.modules.keys())"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["set()"]
