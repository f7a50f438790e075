"""A process that has imported all that commands need, and forks one for each: what they would load takes them longer
than what they do. `python -m tests.cli.prepared` reads a JSON line per command and answers with its exit code.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SERVE = (
    "from tests.cli.prepared import serve; serve(); import sys; from holdfast.cli.main import main; sys.exit(main())"
)


class Prepared:
    """The process, as seen from a test. It is started with the first command and ends with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def run(self, args: tuple[str, ...], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        with self._lock, tempfile.TemporaryDirectory(prefix="holdfast-command-") as place:
            out, err = Path(place, "out"), Path(place, "err")
            request = {"args": args, "folder": str(folder), "env": env, "out": str(out), "err": str(err)}
            code = self._ask(request)
            return subprocess.CompletedProcess(args, code, out.read_text(), err.read_text())

    def _ask(self, request: dict[str, Any]) -> int:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


def serve() -> None:
    """Returns in every child, which goes on as the program of its command; never in the parent."""
    prepare()
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if not child:
            become(**json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)


def prepare() -> None:
    from holdfast.cli.main import COMMANDS

    for name in ("holdfast.store.sqlite", "holdfast.store.postgres", "rich.table", "rich.progress"):
        import_module(name)
    for name, (module, _) in COMMANDS.items():
        if name not in ("demo", "serve"):
            import_module(module)
    assert threading.active_count() == 1, "a fork takes no threads along"


def become(args: list[str], folder: str, env: dict[str, str], out: str, err: str) -> None:
    """Takes on everything by which a process differs from another."""
    for number, path, mode in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(path, mode | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[1:] = args
