"""Files that commands read and write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from holdfast.errors import InvalidInput


def specs_argument(command: click.decorators.FC) -> click.decorators.FC:
    """One file or more."""
    return click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False))(command)


def replace_text(path: str, text: str) -> None:
    """Puts a text in the place of a file, all of it or nothing; its mode stays, and so does a link to it."""
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.chmod(name, mode)
            os.replace(name, real)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be written: {problem.strerror or problem}") from None
