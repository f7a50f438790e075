"""Imports go one way: core ← store ← client, aio, delivery, runtime ← spec, http, cli."""

from pathlib import Path

import pytest

from tests.architecture.source import called, findings, imports, modules, nodes

LAYERS = {
    "core": 0,
    "store": 1,
    "client": 2,
    "aio": 2,
    "async_gather": 2,
    "async_namespaces": 2,
    "async_producer": 2,
    "async_replies": 2,
    "async_running": 2,
    "async_runs": 2,
    "audit": 2,
    "awaited": 2,
    "bells": 2,
    "channels": 2,
    "claiming": 2,
    "claims": 2,
    "command_input": 2,
    "commands": 2,
    "dead_letters": 2,
    "declared_consumers": 2,
    "desk": 2,
    "drafting": 2,
    "effort": 2,
    "endings": 2,
    "executing": 2,
    "gather": 2,
    "joining": 2,
    "limits": 2,
    "message_types": 2,
    "messages": 2,
    "namespace": 2,
    "notices": 2,
    "outcomes": 2,
    "outgoing": 2,
    "parts": 2,
    "presence": 2,
    "producer": 2,
    "queues": 2,
    "receipts": 2,
    "replies": 2,
    "sagas": 2,
    "schedules": 2,
    "starts": 2,
    "threads": 2,
    "topics": 2,
    "transport": 2,
    "upkeep": 2,
    "delivery": 2,
    "runtime": 2,
    "logs": 2,
    "sd_notify": 2,
    "telemetry": 2,
    "__init__": 2,
    "__main__": 3,
    "serving": 3,
    "torture": 3,
    "spec": 3,
    "http": 3,
    "cli": 3,
    "testing": 3,
    "pytest_plugin": 3,
}
"""A module may import its own layer and those below. A new one must be given its place here."""
SHARED = {"errors", "settings", "events"}
"""Importable by every layer but core; they import only each other and core."""
FOR_CORE = {"core", "errors"}
IMPURE_MODULES = {
    *("apsw", "psycopg", "sqlite3"),
    *("asyncio", "io", "os", "pathlib", "socket", "subprocess", "threading"),
    *("random", "secrets", "time", "uuid_utils"),
}
IMPURE_CALLS = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid.uuid1", "uuid.uuid4")
DRIVERS = {"apsw", "psycopg", "sqlite3"}
INTERNALS = {
    "uvicorn": "",
    "psycopg.generators": "store/postgres/prepared.py",
    "psycopg.adapt.Transformer": "store/postgres/prepared.py",
}
"""What other projects may change at any time → the one place that may import it, and has a way without it."""


def layer_faults(text: str, module: Path) -> list[str]:
    home = part_of(module)
    used = {name.split(".")[1] for name in imports(text, module) if name.startswith("holdfast.")}
    parts = {part if part in LAYERS or part in SHARED else "__init__" for part in used}
    return [f"{module}: {home} may not import {part}" for part in sorted(parts) if not may_import(home, part)]


def part_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def may_import(home: str, part: str) -> bool:
    if home == "core":
        return part in FOR_CORE
    if home in SHARED:
        return part in SHARED | {"core"}
    return part in SHARED or LAYERS[part] <= LAYERS[home]


def impurities(text: str, module: Path) -> list[str]:
    used = {name.split(".")[0] for name in imports(text, module)} & IMPURE_MODULES
    calls = {called(node) for node in nodes(text)}
    clocks = {call for call in calls for impure in IMPURE_CALLS if call == impure or call.endswith("." + impure)}
    return [f"{module}: core is pure, but uses {name}" for name in sorted(used | clocks)]


def drivers(text: str, module: Path) -> list[str]:
    used = {name.split(".")[0] for name in imports(text, module)} & DRIVERS
    return [f"{module}: only store knows a database, but this imports {name}" for name in sorted(used)]


def internals(text: str, module: Path) -> list[str]:
    used = [name for name in imports(text, module) for inner in INTERNALS if f"{name}.".startswith(f"{inner}.")]
    used += [name for name in imports(text, module) if any(part.startswith("_") for part in name.split(".")[1:])]
    return [
        f"{module}: {name} may change at any time"
        for name in used
        if not name.startswith(("holdfast.", "__future__")) and INTERNALS.get(name) != module.as_posix()
    ]


def test_no_internals_of_other_projects_are_imported() -> None:
    assert findings(internals) == []


@pytest.mark.parametrize(
    "line",
    [
        "import uvicorn",
        "from uvicorn.protocols.http import httptools_impl",
        "from psycopg import generators",
        "from psycopg.generators import execute",
        "from psycopg._queries import PostgresQuery",
        "import psycopg._encodings",
    ],
)
def test_an_internal_of_another_project_is_caught(line: str) -> None:
    assert len(internals(line, Path("http/server.py"))) == 1


def test_every_module_has_a_layer() -> None:
    assert {part_of(module) for module in modules()} <= LAYERS.keys() | SHARED, "give the new ones a layer in LAYERS"


def test_imports_go_one_way() -> None:
    assert findings(layer_faults) == []


def test_core_is_pure() -> None:
    assert findings(impurities, "core") == []


def test_only_the_store_knows_a_database() -> None:
    assert findings(drivers, outside="store") == []


@pytest.mark.parametrize(
    ("home", "line"),
    [
        ("core/retry.py", "from holdfast.store import api"),
        ("core/retry.py", "from .. import settings"),
        ("core/retry.py", "import holdfast.events"),
        ("store/sqlite/messages.py", "from ...runtime.pool import Pool"),
        ("store/api.py", "from holdfast import Holdfast"),
        ("runtime/pool.py", "def late():\n    from holdfast.cli import main"),
        ("client.py", "from .spec.parser import parse"),
        ("errors.py", "from .store import api"),
    ],
)
def test_an_upward_import_is_caught(home: str, line: str) -> None:
    assert len(layer_faults(line, Path(home))) == 1


@pytest.mark.parametrize(
    ("home", "line"),
    [
        ("core/retry.py", "from .message import Message\nfrom ..errors import HoldfastError\nimport math"),
        ("store/sqlite/messages.py", "from ..sql import load\nfrom holdfast.core import retry"),
        ("cli/main.py", "from holdfast import Holdfast\nfrom ..http.app import create"),
        ("settings.py", "from .core.retry import Backoff\nfrom .errors import SettingsError"),
    ],
)
def test_a_downward_import_is_allowed(home: str, line: str) -> None:
    assert layer_faults(line, Path(home)) == []


@pytest.mark.parametrize(
    "line", ["import time", "from random import random", "import os.path", "import datetime\ndatetime.datetime.now()"]
)
def test_an_impurity_is_caught(line: str) -> None:
    assert len(impurities(line, Path("core/retry.py"))) == 1


def test_a_driver_outside_the_store_is_caught() -> None:
    assert len(drivers("def late():\n    import sqlite3", Path("cli/doctor.py"))) == 1
