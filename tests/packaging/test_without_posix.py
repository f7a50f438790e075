"""Where there is no POSIX, the import works and the first client says what is wrong.

No Windows runs this. What Python lacks there is taken away instead, after everything that is not ours was imported.
"""

import subprocess
import sys
from pathlib import Path

LACKING = """
import ctypes, importlib.abc, os, select, signal, socket, sys
import asyncio, ctypes.util, logging, multiprocessing.connection, pathlib, shutil, sqlite3, subprocess, tempfile
import apsw, click, cronsim, msgspec, rich.console, rich.progress, rich.table, uuid_utils

POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"}

class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in POSIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Lacking())
HERE = {
    os: "fork forkpty geteuid getpgid getpgrp getsid getuid killpg mkfifo register_at_fork setsid statvfs",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH alarm pthread_sigmask",
    socket: "AF_UNIX socketpair",
    select: "epoll poll",
}
for module, names in HERE.items():
    for name in names.split():
        delattr(module, name)
os.name, sys.platform = "nt", "win32"
"""

IMPORTS = """
import holdfast, holdfast.cli.main
for name in holdfast.__all__:
    getattr(holdfast, name)
"""


def without_posix(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LACKING + program], cwd=folder, capture_output=True, text=True)


def test_everything_public_can_be_imported(tmp_path: Path) -> None:
    answer = without_posix(IMPORTS + "print(holdfast.Holdfast.__name__)", tmp_path)
    assert (answer.stdout.strip(), answer.stderr) == ("Holdfast", "")


def test_a_client_says_that_it_needs_posix(tmp_path: Path) -> None:
    answer = without_posix("import holdfast; holdfast.Holdfast('sqlite:///work.db')", tmp_path)
    assert answer.stderr.splitlines()[-1] == (
        "holdfast.errors.InvalidInput: Holdfast needs a POSIX system; win32 is not supported (on Windows, use WSL)"
    )
    assert list(tmp_path.iterdir()) == []
