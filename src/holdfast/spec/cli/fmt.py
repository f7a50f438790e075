"""`holdfast fmt`: specs in their canonical form."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.files import replace_text, specs_argument
from holdfast.spec.files import STDIN, read_file, shown_name
from holdfast.spec.printer import format_reading
from holdfast.spec.reading import read_text

FAILED = 1


@click.command()
@specs_argument
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit code 1 if something would.")
def fmt(files: Sequence[str], only_check: bool) -> int:
    """Bring specs into their canonical form, comments and all.

    Files are changed where they are; - is standard input, and goes to standard output. A file that cannot be read to
    its end is left alone, with exit code 1.
    """
    good = [_format(path, only_check) for path in files]
    return 0 if all(good) else FAILED


def _format(path: str, only_check: bool) -> bool:
    text = read_file(path)
    reading = read_text(text, shown_name(path))
    if not reading.is_whole or not reading.document.apps:
        for problem in reading.problems:
            click.echo(reading.source.show(problem), err=True)
        return False
    formatted = format_reading(reading)
    if only_check:
        if formatted != text:
            click.echo(f"{shown_name(path)} is not in its canonical form: holdfast fmt {path}", err=True)
        return formatted == text
    if path == STDIN:
        click.echo(formatted, nl=False)
    elif formatted != text:
        replace_text(path, formatted)
        click.echo(f"{path} is changed")
    return True
