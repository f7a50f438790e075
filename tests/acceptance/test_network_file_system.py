"""A SQLite file on a network file system is refused, before anything is opened or created there."""

from pathlib import Path

import pytest

from holdfast import Holdfast, InvalidInput, NetworkFileSystem
from holdfast.store.sqlite import filesystem
from tests.mounts import Mount


@pytest.mark.parametrize("engine", ["apsw", "stdlib"])
@pytest.mark.parametrize("network", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_client_refuses_a_network_file_system(tmp_path: Path, mount: Mount, network: str, engine: str) -> None:
    folder = tmp_path / "a share"
    folder.mkdir()
    mount(network, folder)
    with Holdfast(f"sqlite:///{folder}/work.db?engine={engine}") as hf:
        with pytest.raises(NetworkFileSystem, match=rf"\({network}\).*local disk.*PostgreSQL"):
            hf.enqueue("q", 1)
        with pytest.raises(NetworkFileSystem):
            hf.stats("q")
    assert list(folder.iterdir()) == []


def test_a_local_one_beside_it_is_used(tmp_path: Path, mount: Mount) -> None:
    mount("nfs4", tmp_path / "share")
    with Holdfast(f"sqlite:///{tmp_path}/share.db") as hf:
        hf.enqueue("q", 1)
        assert hf.stats("q").pending == 1


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", str(tmp_path / "no such file"))
    with Holdfast(f"sqlite:///{tmp_path}/work.db") as hf:
        hf.enqueue("q", 1)
        assert hf.stats("q").pending == 1


def test_whoever_knows_better_may_say_so(tmp_path: Path, mount: Mount) -> None:
    """A sandbox may show its own disk as a share."""
    mount("9p", tmp_path)
    with Holdfast(f"sqlite:///{tmp_path}/work.db?network=allow") as hf:
        hf.enqueue("q", 1)
        assert hf.stats("q").pending == 1
    with pytest.raises(InvalidInput, match="network=perhaps"):
        Holdfast(f"sqlite:///{tmp_path}/work.db?network=perhaps")
