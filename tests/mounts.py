"""Folders that seem to be on another kind of file system."""

from pathlib import Path


class Mount:
    """A list of mounts with one of our own in it: `mount("nfs4", folder)`."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, kind: str, folder: Path) -> None:
        point = str(folder).replace("\\", r"\134").replace(" ", r"\040")
        self.file.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n99 27 0:99 / {point} rw - {kind} server:/x rw\n")
