"""Running `holdfast` as a user does: a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.prepared import Prepared

PREPARED = Prepared()
PROGRAM = "import sys; from holdfast.cli.main import main; sys.exit(main())"


def command(*args: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *args]


def environment(folder: Path) -> dict[str, str]:
    """What the process sees: temporary files in the test's folder, and no colour or width of the terminal around us."""
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "FORCE_COLOR", "HOLDFAST_DB"}}
    return {**kept, "TMPDIR": str(folder)}


def holdfast(*args: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return PREPARED.run(args, folder, {**environment(folder), **extra})


def values(lines: list[str]) -> list[Any]:
    """What a command with --json has printed."""
    return [json.loads(line) for line in lines]
