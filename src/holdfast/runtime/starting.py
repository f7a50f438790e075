"""Whether this process is a handler's own and still imports its module: then no consumer may be started here."""

from __future__ import annotations

from holdfast.errors import InvalidInput

in_a_cell = False


def refuse_in_a_cell() -> None:
    """A program that runs its consumers when imported would start itself again and again."""
    if in_a_cell:
        raise InvalidInput(
            'a handler with isolation="process" is imported by its own process, and this module runs consumers when it '
            'is imported: put hf.run() under  if __name__ == "__main__":'
        )
