"""Which file system a path is on, read from the kernel's list of mounts."""

from pathlib import Path

import pytest

from holdfast.store.sqlite import filesystem
from holdfast.store.sqlite.filesystem import NETWORK, kind, kind_of
from tests.mounts import Mount

pytestmark = pytest.mark.unit

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 27 0:38 / /mnt/home rw,relatime shared:5 master:2 - nfs4 server:/export/home rw,vers=4.2,addr=10.0.0.1
32 27 0:39 / /mnt/home/ada/local rw - xfs /dev/sdb1 rw
33 27 0:40 / /mnt/two\040words\011and\012more\134 rw - cifs //server/share rw
34 27 0:41 / /auto rw - autofs systemd-1 rw
35 34 0:42 / /auto rw - nfs server:/auto rw
36 27 0:43 / /windows rw - 9p drvfs rw,dirsync,aname=drvfs;path=C:\134
37 27 0:44 / /ssh rw,nosuid - fuse.sshfs ada@server:/ rw,user_id=1000
38 27 254:0 /data/work.db /srv/work.db rw - btrfs /dev/vdc rw,subvol=/x
39 27 0:45 / /dash rw - tmpfs - rw
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/tmp/work.db", "ext4"),
        ("/mnt/home", "nfs4"),
        ("/mnt/home/ada/work.db", "nfs4"),
        ("/mnt/home/ada/local/work.db", "xfs"),
        ("/mnt/homework/work.db", "ext4"),
        ("/mnt/two words\tand\nmore\\/work.db", "cifs"),
        ("/mnt/two/work.db", "ext4"),
        ("/auto/work.db", "nfs"),
        ("/windows/work.db", "9p"),
        ("/ssh/deep/down/work.db", "fuse.sshfs"),
        ("/srv/work.db", "btrfs"),
        ("/srv/work.db-wal", "ext4"),
        ("/dash/work.db", "tmpfs"),
    ],
)
def test_the_longest_mount_point_above_decides(path: str, found: str) -> None:
    assert kind(path, MOUNTS) == found


@pytest.mark.parametrize("mounts", ["", "nonsense\n", "1 2 3\n\n", "27 1 254:0 / /elsewhere rw - ext4 /dev/vda rw\n"])
def test_what_the_list_does_not_say_is_unknown(mounts: str) -> None:
    assert kind("/tmp/work.db", mounts) is None


def test_names_need_not_be_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_bytes(b"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / /caf\xe9\xe2\x80\xa8 rw - nfs x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", str(mounts))
    assert kind_of("/caf\udce9\u2028/work.db") == "nfs"


def test_this_machine_has_a_file_system(tmp_path: Path) -> None:
    assert kind_of(str(tmp_path / "not yet there.db")) not in NETWORK | {None}
    assert kind_of("/proc/self/status") == "proc"


def test_links_are_followed(tmp_path: Path, mount: Mount) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    mount("nfs4", tmp_path / "share")
    assert kind_of(str(tmp_path / "link" / "work.db")) == "nfs4"


def test_where_there_is_no_list_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", str(tmp_path / "no such file"))
    assert kind_of(str(tmp_path)) is None
