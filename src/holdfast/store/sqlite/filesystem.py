"""What kind of file system a path is on. SQLite's write-ahead log shares memory between processes, which no network
file system does: two machines would overwrite each other's commits without an error.
"""

from __future__ import annotations

import os
import re

from holdfast.errors import NetworkFileSystem

MOUNTS = "/proc/self/mountinfo"
"""Where Linux lists what is mounted; other systems have no such file, and there nothing is known."""

NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "coda", "ncpfs"),
        *("ceph", "lustre", "beegfs", "gpfs", "glusterfs", "vboxsf", "prl_fs"),
        *("fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys", "fuse.blobfuse", "fuse.blobfuse2"),
        *("fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs", "fuse.seaweedfs"),
        *("fuse.smbnetfs", "fuse.curlftpfs", "fuse.davfs2", "fuse.vmhgfs-fuse", "fuse.grpcfuse", "fuse.osxfs"),
    }
)

_ESCAPED = re.compile(r"\\([0-7]{3})")


def kind(path: str, mountinfo: str) -> str | None:
    """The type of the file system that holds an absolute path without links: that of the longest mount point above it.

    Of two file systems on one mount point the later one is on top.
    """
    longest, found = "", None
    for line in mountinfo.split("\n"):
        fields = line.split(" ", 5)
        if len(fields) < 6:
            continue
        point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]) if "\\" in fields[4] else fields[4]
        if len(point) >= len(longest) and _holds(point, path):
            longest, found = point, fields[5].partition(" - ")[2].partition(" ")[0]
    return found


def kind_of(path: str) -> str | None:
    """The type of the file system that a path is on, whether or not the file exists; None where that is unknown."""
    try:
        # The names of mount points are bytes, as those of files are.
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return kind(os.path.realpath(path), mounts.read())
    except OSError:
        return None


def refuse_network(path: str) -> None:
    """Raises if the database would be on a network file system."""
    found = kind_of(path)
    if found in NETWORK:
        raise NetworkFileSystem(
            f"{path} is on a network file system ({found}), where SQLite's log does not work and commits can be lost: "
            "put the file on a local disk, or use PostgreSQL to share queues between machines. "
            "If it only looks like one and no other machine uses it, say ?network=allow in the URL"
        )


def _holds(point: str, path: str) -> bool:
    return path == point or path.startswith(point if point.endswith("/") else point + "/")
