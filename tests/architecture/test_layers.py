"""Imports go one way, and a module's place says which way: see ARCHITECTURE.md.

    rules ← store and steps ← client, sqs, worker ← spec, server, cli, torture

A folder is a noun, and inside a capability (topics, sagas, …) the file name is the layer. A layer that needs several
files is a folder of that name: `sagas/rules/undo.py` is a module of rules.
"""

from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, called, findings, imports, modules, nodes

RULES, STORE, CLIENT, EDGE = range(4)

CAPABILITIES = {
    *("queues", "messages", "dead_letters", "topics", "schedules", "sagas", "commands", "notices", "replies"),
    *("budgets", "commitments", "consumers", "sqs", "audit"),
}
LAYER_OF_FILE = {"rules": RULES, "steps": STORE, "admin": EDGE, "cli": EDGE, "page": EDGE}
"""In a capability; its other modules belong to the client."""

LAYER_OF_FOLDER = {
    **{"core": RULES, "store": STORE, "client": CLIENT, "worker": CLIENT, "telemetry": CLIENT, "__init__": CLIENT},
    **dict.fromkeys(("spec", "server", "cli", "torture", "testing", "pytest_plugin"), EDGE),
}
SHARED = {"errors", "settings", "events"}
"""The store and all above may import them; they import only each other and rules. Rules may import `errors`."""

PURE = {"worker.pace", "worker.rotation", "worker.pools.scaling", "worker.pools.restarts"}
"""Rules that stand beside the code that needs them, since nobody else does but specs."""

MOST_ENTRIES, MOST_MODULES = 36, 32

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


def layer_of(parts: tuple[str, ...]) -> int | None:
    """The layer of a dotted name within the package; None for what all layers share, and for unknown folders."""
    top, *rest = parts or ("__init__",)
    if top in SHARED:
        return None
    if any(".".join(parts).startswith(pure) for pure in PURE):
        return RULES
    if top in CAPABILITIES:
        return LAYER_OF_FILE.get(rest[0], CLIENT) if rest else CLIENT
    return LAYER_OF_FOLDER.get(top, CLIENT)  # A name of the package itself, such as `Holdfast`.


def parts_of(module: Path) -> tuple[str, ...]:
    return tuple(part for part in module.with_suffix("").parts if part != "__init__") or ("__init__",)


def layer_faults(text: str, module: Path) -> list[str]:
    home = parts_of(module)
    used = {tuple(name.split(".")[1:]) for name in imports(text, module) if name.startswith("holdfast.")}
    return [f"{module} may not import {'.'.join(name)}" for name in sorted(used) if not may_import(home, name)]


def may_import(home: tuple[str, ...], name: tuple[str, ...]) -> bool:
    layer, other = layer_of(home), layer_of(name)
    if layer == RULES:
        return other == RULES or name[0] == "errors"
    if layer is None:
        return other is None or other == RULES
    return other is None or other <= layer


def impurities(text: str, module: Path) -> list[str]:
    if layer_of(parts_of(module)) != RULES:
        return []
    used = {name.split(".")[0] for name in imports(text, module)} & IMPURE_MODULES
    calls = {called(node) for node in nodes(text)}
    clocks = {call for call in calls for impure in IMPURE_CALLS if call == impure or call.endswith("." + impure)}
    return [f"{module}: rules are pure, but this uses {name}" for name in sorted(used | clocks)]


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


def test_every_folder_has_a_layer() -> None:
    known = CAPABILITIES | LAYER_OF_FOLDER.keys() | SHARED
    assert {parts_of(module)[0] for module in modules()} == known, "give new ones a layer here, and remove old ones"


def test_imports_go_one_way() -> None:
    assert findings(layer_faults) == []


def test_rules_are_pure() -> None:
    assert findings(impurities) == []


def test_only_the_store_knows_a_database() -> None:
    assert findings(drivers, outside="store") == []


def test_no_internals_of_other_projects_are_imported() -> None:
    assert findings(internals) == []


def test_the_package_is_seen_at_a_glance() -> None:
    entries = [entry.name for entry in PACKAGE.iterdir() if entry.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_no_folder_is_too_wide() -> None:
    widths = {folder: len(list((PACKAGE / folder).glob("*.py"))) for folder in {one.parent for one in modules()}}
    assert {folder.as_posix(): width for folder, width in widths.items() if width > MOST_MODULES} == {}


@pytest.mark.parametrize(
    ("home", "line"),
    [
        ("core/retry.py", "from holdfast.store import api"),
        ("core/retry.py", "from .. import settings"),
        ("core/retry.py", "import holdfast.events"),
        ("sagas/rules/undo.py", "from holdfast.sagas.steps import instances"),
        ("schedules/rules.py", "from holdfast.schedules.client import Schedules"),
        ("schedules/steps.py", "from holdfast.schedules.client import Schedules"),
        ("store/sqlite/messages.py", "from ...worker.runner import Runner"),
        ("store/api.py", "from holdfast import Holdfast"),
        ("worker/runner.py", "def late():\n    from holdfast.cli import main"),
        ("worker/pace.py", "from holdfast.worker.worker import Worker"),
        ("client/client.py", "from ..spec.parser import parse"),
        ("topics/client.py", "from holdfast.topics.cli import topics"),
        ("errors.py", "from .store import api"),
    ],
)
def test_an_upward_import_is_caught(home: str, line: str) -> None:
    assert len(layer_faults(line, Path(home))) == 1


@pytest.mark.parametrize(
    ("home", "line"),
    [
        ("core/retry.py", "from .message import Message\nfrom ..errors import HoldfastError\nimport math"),
        ("schedules/rules.py", "from holdfast.core.duration import seconds"),
        ("store/engine/settle.py", "from holdfast.sagas.steps import instances"),
        ("sagas/steps/effects.py", "from holdfast.store.engine import insert\nfrom holdfast.sagas.rules import undo"),
        ("cli/main.py", "from holdfast import Holdfast\nfrom ..server.app import create_app"),
        ("settings.py", "from .core.retry import Backoff\nfrom .errors import InvalidInput"),
    ],
)
def test_a_downward_import_is_allowed(home: str, line: str) -> None:
    assert layer_faults(line, Path(home)) == []


@pytest.mark.parametrize(
    "line", ["import time", "from random import random", "import os.path", "import datetime\ndatetime.datetime.now()"]
)
@pytest.mark.parametrize("home", ["core/retry.py", "sagas/rules/undo.py", "worker/pace.py"])
def test_an_impurity_is_caught(home: str, line: str) -> None:
    assert len(impurities(line, Path(home))) == 1


def test_what_is_no_rule_may_ask_for_the_time() -> None:
    assert impurities("import time", Path("schedules/client.py")) == []


def test_a_driver_outside_the_store_is_caught() -> None:
    assert len(drivers("def late():\n    import sqlite3", Path("cli/doctor.py"))) == 1


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
    assert len(internals(line, Path("server/server.py"))) == 1
