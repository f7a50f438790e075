"""Installs a peer into a folder of its own on first use, and says how its driver is started."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.catalog import Peer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".peers"
DRIVERS = Path(__file__).parent / "drivers"
VERSIONS = Path(__file__).parent / "versions.toml"
INSTALL_SECONDS = 600.0


class Unavailable(Exception):
    """A peer that cannot be measured here, and why."""


@dataclass(frozen=True)
class Pins:
    """Packages with their exact versions, as pip or npm take them; the first is the peer itself, unless that is one of
    Debian's, which are only unpacked."""

    kind: str
    packages: tuple[str, ...]
    debian: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return re.split("==?|@", [*self.debian, *self.packages][0])[-1]


@dataclass(frozen=True)
class Program:
    """An installed peer: the command that starts its driver, to which the database's URL is added."""

    peer: Peer
    version: str
    command: tuple[str, ...]


def read_pins(path: Path = VERSIONS) -> dict[str, Pins]:
    tables = tomllib.loads(path.read_text())
    return {
        name: Pins(kind, tuple(table[kind]), tuple(table.get("debian", ())))
        for name, table in tables.items()
        for kind in table.keys() & KINDS.keys()
    }


def prepare(peer: Peer, pins: Pins, tell: Callable[[str], None]) -> Program:
    """Ready at once if it was installed before with the same versions."""
    version = _redis_version() if peer.own_server else pins.version
    install, command = KINDS[pins.kind]
    folder, stamp = FOLDER / peer.name, FOLDER / peer.name / "installed"
    wanted = "\n".join([*pins.debian, *pins.packages, sys.version])
    if not stamp.exists() or stamp.read_text() != wanted:
        tell(f"{peer.name}: installing {', '.join([*pins.debian, *pins.packages])}")
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _unpack(folder, pins.debian)
        install(folder, pins.packages)
        stamp.write_text(wanted)
    return Program(peer, version, command(folder, peer.driver))


def _unpack(folder: Path, packages: Sequence[str]) -> None:
    for package in packages:
        run(folder, _installed("apt-get"), "download", package)
    for archive in folder.glob("*.deb"):
        run(folder, _installed("dpkg"), "-x", archive, folder)


def _install_python(folder: Path, packages: Sequence[str]) -> None:
    run(folder, sys.executable, "-m", "venv", folder / "venv")
    run(folder, folder / "venv/bin/python", "-m", "pip", "install", "--disable-pip-version-check", *packages)


def _python_command(folder: Path, driver: str) -> tuple[str, ...]:
    return str(folder / "venv/bin/python"), "-m", f"bench.peers.drivers.{driver.removesuffix('.py')}"


def _install_node(folder: Path, packages: Sequence[str]) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
    run(folder, _installed("npm"), "install", "--no-audit", "--no-fund", "--save-exact", *packages)


def _node_command(folder: Path, driver: str) -> tuple[str, ...]:
    # Node looks for packages where the file lies, so the drivers go there.
    for source in DRIVERS.glob("*.mjs"):
        shutil.copy(source, folder)
    return _installed("node"), str(folder / driver)


KINDS = {"python": (_install_python, _python_command), "node": (_install_node, _node_command)}


def _installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def _redis_version() -> str:
    said = subprocess.run([_installed("redis-server"), "--version"], capture_output=True, text=True).stdout
    found = re.search(r"v=(\S+)", said)
    return found[1] if found else "unknown"


def run(folder: Path, *command: str | Path) -> None:
    log = folder / "install.log"
    with log.open("a") as output:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=INSTALL_SECONDS,
                env={**os.environ, "NO_COLOR": "1"},
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"not installed within {INSTALL_SECONDS:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"could not be installed: {_complaint(log.read_text(errors='replace'))}")


def _complaint(log: str) -> str:
    """The first line that names an error; pip and npm end with advice."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
