"""What users import is pinned, and the asynchronous client is the synchronous one with `await`."""

import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

PINNED = Path(__file__).with_name("public_names.txt")

NEVER_AWAITED = {
    "consumer": "a decorator",
    "subscriber": "a decorator",
    "command": "a decorator",
    "around_enqueue": "a decorator",
    "around_execute": "a decorator",
    "pool": "only declares",
    "on": "only notes a callback",
    "running": "gives something to enter",
    "stop": "only asks",
    "acting_as": "gives another client",
}
"""Plain in both clients → why."""

NEVER_AWAITED_IN = {"commands": {"list": "only lists what was declared"}}
"""The same for a namespace."""

MOST_NAMES = 55
"""How many public names a client may have: a list that is longer is not read."""

NAMESPACES = (
    *("queues", "messages", "dead_letters", "topics", "groups", "sagas"),
    *("schedules", "notices", "consumers", "pools", "commands", "audit"),
)


def parity_faults(sync: type, asynchronous: type, plain: Iterable[str] = NEVER_AWAITED) -> list[str]:
    ours, theirs = public(sync), public(asynchronous)
    one_sided = [f"{name}: in one client only" for name in sorted(ours.keys() ^ theirs.keys())]
    common = sorted(ours.keys() & theirs.keys())
    return [*one_sided, *(fault for name in common if (fault := difference(name, ours[name], theirs[name], plain)))]


def public(client: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers_static(client) if not name.startswith("_")}


def difference(name: str, ours: Any, theirs: Any, plain: Iterable[str]) -> str | None:
    if not inspect.isroutine(ours):
        return None if type(ours) is type(theirs) else f"{name}: {type(ours).__name__} against {type(theirs).__name__}"
    if not inspect.isroutine(theirs):
        return f"{name}: a method in one client only"
    if parameters(ours) != parameters(theirs):
        return f"{name}: ({', '.join(map(str, parameters(ours)))}) against ({', '.join(map(str, parameters(theirs)))})"
    if name not in plain and not is_awaited(unwrapped(theirs)):
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


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """One of each kind. Neither opens its database before it is used."""
    from holdfast import AsyncHoldfast, Holdfast

    url = f"sqlite:///{tmp_path}/never-made.db"
    yield Holdfast(url), AsyncHoldfast(url)
    assert not list(tmp_path.iterdir())


def names(client: object) -> list[str]:
    return [name for name in dir(client) if not name.startswith("_")]


def test_both_clients_have_the_same_methods() -> None:
    from holdfast import AsyncHoldfast, Holdfast

    assert parity_faults(Holdfast, AsyncHoldfast) == []


def test_both_clients_have_the_same_few_names(clients: tuple[Any, Any]) -> None:
    sync, asynchronous = clients
    assert names(sync) == names(asynchronous)
    assert len(names(sync)) <= MOST_NAMES


def test_the_namespaces_are_the_ones_that_are_annotated(clients: tuple[Any, Any]) -> None:
    sync, _ = clients
    assert tuple(type(sync).__annotations__) == NAMESPACES
    assert [name for name in NAMESPACES if type(getattr(sync, name)).__name__ != type(sync).__annotations__[name]] == []


@pytest.mark.parametrize("name", NAMESPACES)
def test_both_clients_have_the_same_namespaces(clients: tuple[Any, Any], name: str) -> None:
    sync, asynchronous = (type(getattr(client, name)) for client in clients)
    assert names(getattr(clients[0], name)) == names(getattr(clients[1], name)) != []
    assert parity_faults(sync, asynchronous, NEVER_AWAITED_IN.get(name, {})) == []


def test_an_awaited_method_awaits_the_one_of_its_name(clients: tuple[Any, Any]) -> None:
    """Also where two have the same signature, such as `pause` and `resume`."""
    pairs = [clients, *([getattr(client, name) for client in clients] for name in NAMESPACES)]
    checked = 0
    for sync, asynchronous in pairs:
        for name in names(asynchronous):
            method = inspect.getattr_static(type(asynchronous), name, None)
            if hasattr(method, "__wrapped__"):
                assert method.__wrapped__ is getattr(type(sync), name), name
                checked += 1
    assert checked > 50


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
