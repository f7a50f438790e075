"""Errors of a handler that has a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.dead_letter import ErrorText
from holdfast.worker import import_path


class HandlerFailed(Exception):
    """What a handler raised in its process, or how that ended. Known are the text, and the names of the classes.

    If the process `crashed`, nobody knows how far the handler came.
    """

    def __init__(
        self, text: str, kinds: Sequence[str] = (), traceback: str | None = None, *, crashed: bool = False
    ) -> None:
        super().__init__(text)
        self.trouble = ErrorText(text, traceback)
        self.kinds = kinds
        self.crashed = crashed

    def is_one_of(self, kinds: Sequence[type[BaseException]]) -> bool:
        """Whether the handler's error was one of these."""
        return any(import_path.names(kind)[0] in self.kinds for kind in kinds)
