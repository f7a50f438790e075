"""Things that must not be in the package, each for a reason given beside it."""

from pathlib import Path

import pytest

from tests.architecture.source import called, findings, imports, modules, nodes

UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
"""A message body may come from anybody: reading it must not be able to run code."""

UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load"}

FILE_OPENERS = {"open", "io.open", "os.open"}
"""Closing any descriptor of a SQLite file drops all locks this process has on it."""

OPENERS = {
    "store/sqlite/wakeup.py": "opens the folder of sockets, never the database",
    "store/sqlite/wal.py": "opens the log beside the database, on which SQLite has no locks",
    "store/sqlite/filesystem.py": "opens the kernel's list of mounts, never the database",
}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}


def unsafe(text: str, module: Path) -> list[str]:
    used = {name.split(".")[0] for name in imports(text, module)} & UNSAFE_MODULES
    return [f"{module}: {name}" for name in sorted(used | (calls(text) & UNSAFE_CALLS))]


def file_openings(text: str, module: Path) -> list[str]:
    if str(module) in OPENERS:
        return []
    return [f"{module}: {name}" for name in sorted(calls(text) & FILE_OPENERS)]


def prints(text: str, module: Path) -> list[str]:
    return [f"{module}: print"] if "print" in calls(text) else []


def vague_names(module: Path) -> list[str]:
    words = {word for part in module.with_suffix("").parts for word in part.split("_")}
    return [f"{module}: {word} says nothing" for word in sorted(words & VAGUE_NAMES)]


def calls(text: str) -> set[str]:
    return {called(node) for node in nodes(text)}


def test_nothing_runs_data_as_code() -> None:
    assert findings(unsafe) == []


def test_the_store_opens_no_file_itself() -> None:
    assert findings(file_openings, "store") == []


def test_only_the_command_line_prints() -> None:
    assert findings(prints, outside="cli") == []


def test_names_say_what_is_inside() -> None:
    assert [name for module in modules() for name in vague_names(module)] == []


@pytest.mark.parametrize("line", ["import pickle", "from marshal import loads", "eval('1')", "yaml.load(text)"])
def test_unsafe_code_is_caught(line: str) -> None:
    assert len(unsafe(line, Path("a.py"))) == 1


def test_safe_code_that_looks_alike_is_not() -> None:
    assert unsafe("import pickled\nself.eval(x)\nyaml.safe_load(text)", Path("a.py")) == []


def test_an_opened_file_is_caught() -> None:
    assert len(file_openings("with open(path) as f: pass", Path("store/a.py"))) == 1
    assert file_openings("pool.open()", Path("store/a.py")) == []


def test_a_print_is_caught() -> None:
    assert len(prints("print('x')", Path("client.py"))) == 1


def test_a_vague_name_is_caught() -> None:
    assert len(vague_names(Path("store/sql_utils.py"))) == 1
    assert len(vague_names(Path("helpers/retry.py"))) == 1
    assert vague_names(Path("store/commons.py")) == []
