"""What a program that works on a message finds around it, and leaves there: variables, a private folder with files."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from holdfast.budgets.rules import spending
from holdfast.core.message import TEXT_LIMIT, Message, clean_text
from holdfast.errors import HoldfastError, InvalidInput, ProgramFailed, Unavailable, shown

log = logging.getLogger("holdfast")

LONGEST_VARIABLE = 100_000
"""Bytes. Linux starts no program with a longer one than 128 KiB."""

BODY, HEADERS = "body.json", "headers.json"
RESULT, SESSION, SPEND, ACTION = "result", "session", "spend", "action"

LOOK = 1.0
"""Seconds between two looks at what a program reports while it works."""

AGAIN = 0.5
"""Seconds between two tries to count what was spent."""

SPEND_LIMIT = 1_048_576
"""Bytes of reports that are read."""

ACTION_LIMIT = 4_096
"""Bytes of a line that tell one action from another."""

ACTIONS_AT_A_LOOK, ACTIONS_AT_THE_END = 100, 1_000
"""How many are counted, since each is a write to the database: in every look, and when the program has ended."""


class AgentContext(Protocol):
    """What a handler is told beside its message."""

    @property
    def message(self) -> Message: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def deadline(self) -> datetime | None: ...
    @property
    def cancelled(self) -> bool: ...

    session: str | None

    def on_cancel(self, callback: Callable[[], None]) -> object: ...
    def progress(self, value: Any) -> object: ...
    def spend(self, amount: float) -> object: ...
    def action(self, text: str) -> object: ...
    def grace(self, wanted: float) -> float: ...


@contextmanager
def private_folder(message: Message) -> Iterator[Path]:
    """A folder that only this user can read, with the message in files; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    try:
        (folder / BODY).write_bytes(message.raw_body)
        (folder / HEADERS).write_bytes(message.raw_headers or b"{}")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def variables(message: Message, context: AgentContext, folder: Path) -> dict[str, str]:
    """The message as a program sees it. What is too long for a variable is in its file only."""
    headers = message.raw_headers or b"{}"
    found = {
        "HOLDFAST_ID": message.id,
        "HOLDFAST_QUEUE": context.queue,
        "HOLDFAST_ATTEMPT": str(context.attempt),
        "HOLDFAST_MAX_ATTEMPTS": str(context.max_attempts),
        "HOLDFAST_DEADLINE": "" if context.deadline is None else f"{context.deadline.timestamp():.3f}",
        "HOLDFAST_SESSION": context.session or "",
        "HOLDFAST_BODY_FILE": str(folder / BODY),
        "HOLDFAST_HEADERS_FILE": str(folder / HEADERS),
        "HOLDFAST_RESULT_FILE": str(folder / RESULT),
        "HOLDFAST_SESSION_FILE": str(folder / SESSION),
        "HOLDFAST_SPEND_FILE": str(folder / SPEND),
        "HOLDFAST_ACTION_FILE": str(folder / ACTION),
    }
    if len(headers) <= LONGEST_VARIABLE:
        found["HOLDFAST_HEADERS"] = headers.decode()
    return found


def inherited(secrets: Sequence[str] = ()) -> dict[str, str]:
    """This process's own environment without what is Holdfast's: its settings, and whatever holds the database's URL.

    A program that is to have them is given them by name.
    """
    urls = {_address(url) for url in [*secrets, os.environ.get("HOLDFAST_DB", "")]} - {""}
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HOLDFAST_") and name != "PGPASSWORD" and not any(url in value for url in urls)
    }


def checked_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """Variables that a user adds."""
    return {str(name): str(value) for name, value in (env or {}).items()}


class Reports:
    """What a program leaves in its files about the attempt; `session` is what was known before it began.

    They are read now and then while it works, since it may be killed together with its worker: by a thread of their
    own, because the database may be away, and whoever waits for the program has to be free to stop it.
    """

    def __init__(self, context: AgentContext, folder: Path, session: str) -> None:
        self._context, self._folder, self._session = context, folder, session
        self._counted = 0.0
        self._actions = Lines(folder / ACTION)
        self._seen: list[tuple[int, int] | None] = []
        self._problem: Exception | None = None
        self._thread: threading.Thread | None = None
        self._ended, self._cancelled = threading.Event(), threading.Event()
        context.on_cancel(self._cancelled.set)

    def watch(self, stop: Callable[[], None]) -> None:
        """Looks at them from here on, and calls `stop` when a limit is overstepped."""
        self._thread = threading.Thread(target=self._watch, args=(stop,), name="holdfast-reports", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Stores what is new, and complete. What cannot be read may be half of something."""
        stamps = [_stamp(self._folder / name) for name in (SESSION, SPEND)]
        if stamps != self._seen:
            self._keep_session()
            with suppress(ProgramFailed):
                self._count(spent_in(self._folder, so_far=True))
            self._seen = stamps
        self._actions.take(self._context.action, ACTIONS_AT_A_LOOK)

    def end(self) -> None:
        """Stores the rest. Raises what ends the attempt: a limit that is overstepped, or a report that cannot be read.

        What was spent stays spent: while the database is away, it is tried again until the attempt has to stop.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._keep_session()
        try:
            self._stubbornly(lambda: self._count(spent_in(self._folder)))
        except ProgramFailed as unreadable:
            raise self._problem or unreadable from None
        if self._problem is not None:
            raise self._problem
        self._stubbornly(lambda: self._actions.take(self._context.action, ACTIONS_AT_THE_END, all_of_it=True))

    def _stubbornly(self, store: Callable[[], None]) -> None:
        while True:
            try:
                return store()
            except Unavailable:
                if self._cancelled.wait(AGAIN):
                    raise

    def _watch(self, stop: Callable[[], None]) -> None:
        while not self._ended.wait(LOOK):
            try:
                with suppress(Unavailable):  # The next look tries again.
                    self.look()
            except Exception as problem:
                self._problem = problem
                stop()
                return

    def _keep_session(self) -> None:
        session = session_in(self._folder)
        if session is None or session == self._session:
            return
        try:
            self._context.session = session
        except HoldfastError as problem:  # The work may be done all the same.
            log.warning("the session that a program left for %s is not kept: %s", self._context.message.id, problem)
        else:
            self._session = session

    def _count(self, spent: float) -> None:
        more = spent - self._counted
        if more <= 0:
            return
        self._counted = spent  # Also if that was too much.
        try:
            self._context.spend(more)
        except Unavailable:
            self._counted -= more
            raise


class Lines:
    """The lines that a program appends to a file, each taken once, whatever else it does to the file meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path, self._taken, self._is_new = path, 0, True

    def take(self, use: Callable[[str], object], most: int, all_of_it: bool = False) -> None:
        """Uses up to `most` new lines that have an end, or `all_of_it`. What `use` refuses is not taken.

        Of a long line only the beginning is used; a line without a word is not.
        """
        with _opened(self._path) as file:
            if file is None:
                return
            if os.fstat(file).st_size < self._taken:
                self._taken, self._is_new = 0, True
            os.lseek(file, self._taken, os.SEEK_SET)
            with open(file, "rb", closefd=False) as lines:
                for _ in range(most):
                    line = lines.readline(ACTION_LIMIT)
                    has_end = line.endswith(b"\n")
                    if not line or not (has_end or all_of_it or len(line) == ACTION_LIMIT):
                        return
                    if self._is_new and (text := line.decode("utf-8", "replace").strip()):
                        use(text)
                    self._taken += len(line)
                    self._is_new = has_end


def session_in(folder: Path) -> str | None:
    """The session that a program has left for the next attempt."""
    text = clean_text(written(folder / SESSION, 4 * TEXT_LIMIT).decode("utf-8", "replace")).strip()
    return text[:TEXT_LIMIT] or None


def spent_in(folder: Path, so_far: bool = False) -> float:
    """What a program says that it has spent: all numbers that it wrote, together.

    `so_far` leaves out a last one that may go on.
    """
    text = written(folder / SPEND, SPEND_LIMIT).decode("utf-8", "replace")
    words = text.split()
    if so_far and words and not text[-1].isspace():
        words.pop()
    try:
        return spending(sum(spending(float(word)) for word in words))
    except (ValueError, InvalidInput):
        raise ProgramFailed(
            f"HOLDFAST_SPEND_FILE must hold numbers from 0 to 1e15, not {shown(' '.join(words))}"
        ) from None


def written(path: Path, limit: int) -> bytes:
    """The beginning of a file that a program may have written; nothing if it is none, or no plain file."""
    with _opened(path) as file:
        return b"" if file is None else os.read(file, limit)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        yield file if stat.S_ISREG(os.fstat(file).st_mode) else None
    finally:
        os.close(file)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Something else whenever the file was changed."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_mtime_ns, found.st_size
    return None


def _address(url: str) -> str:
    """What tells it in a variable: with a user in it, any scheme or query may stand around it."""
    return url.partition("://")[2].partition("?")[0] if "@" in url else url
