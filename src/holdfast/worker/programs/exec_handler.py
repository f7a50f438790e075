"""Drones: a program of its own for every message, in whatever language, that may hang, crash or print without end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.duration import Duration, seconds
from holdfast.core.message import Message, encode_json
from holdfast.errors import InvalidInput, PreflightFailed, ProgramFailed, shown
from holdfast.worker.consumer import checked_preflight
from holdfast.worker.outcomes import DeadLetter, Retry
from holdfast.worker.preflight import objection
from holdfast.worker.programs import run
from holdfast.worker.programs.environment import (
    BODY,
    RESULT,
    AgentContext,
    Reports,
    checked_env,
    inherited,
    private_folder,
    variables,
    written,
)
from holdfast.worker.programs.run import TIMED_OUT, Ended, Head, Tail
from holdfast.worker.programs.watchdog import SHELL

Command = str | Sequence[str]

PREFLIGHT_SHOWN = 4_000
LARGEST = 64 * 1_048_576


def exec_handler(
    command: Command,
    *,
    shell: bool = False,
    result_limit: int = 65_536,
    error_limit: int = 8_000,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stop_grace: Duration = 5.0,
    preflight: Command | Callable[[], object] | None = None,
    preflight_timeout: Duration = 60.0,
    permanent_codes: Sequence[int] = (),
    retry_code: int | None = 75,
    retry_after: Duration | None = None,
    secrets: Sequence[str] = (),
) -> ExecHandler:
    """A handler that runs a program for every message.

    The program finds the body on its stdin, and everything else in variables that begin with HOLDFAST_. Exit code 0
    means done, with what it printed (or wrote to the file HOLDFAST_RESULT_FILE) as the result. A code of
    `permanent_codes` buries the message, `retry_code` asks for another try, `retry_after` later if given, and anything
    else is an error.

    What it appends to HOLDFAST_SPEND_FILE, number by number, counts against the budgets of message and queue.
    Every line that it appends to HOLDFAST_ACTION_FILE says what it is about to do; the same too often in a row ends it.

    `command` is split into words and run as it is; no word of a message ever becomes a part of it. With `shell` it is a
    line for /bin/sh. `env` adds variables; those that hold Holdfast's own settings, or an address of `secrets`, are not
    inherited. When it has to stop, its group gets SIGTERM, and SIGKILL after `stop_grace`, or earlier if the lease
    leaves less; at once if the message is someone else's by then.

    `preflight` is a command, or a function, that has to succeed before anything is claimed.
    """
    return ExecHandler(
        command=words(command, shell),
        result_limit=_limit(result_limit, "result_limit"),
        error_limit=_limit(error_limit, "error_limit"),
        env=checked_env(env),
        cwd=None if cwd is None else os.fspath(cwd),
        stop_grace=seconds(stop_grace, "stop_grace"),
        preflight=_preflight(preflight, shell),
        preflight_timeout=seconds(preflight_timeout, "preflight_timeout"),
        permanent_codes=frozenset(_code(code, "permanent_codes") for code in permanent_codes),
        retry_code=None if retry_code is None else _code(retry_code, "retry_code"),
        retry_after=None if retry_after is None else seconds(retry_after, "retry_after"),
        secrets=tuple(secrets),
    )


class ExecHandler:
    """Runs a program per message; `exec_handler` makes one."""

    interruptible = False  # It is told when to stop, and has a program to end before it does.

    def __init__(
        self,
        *,
        command: list[str],
        result_limit: int,
        error_limit: int,
        env: dict[str, str],
        cwd: str | None,
        stop_grace: float,
        preflight: list[str] | Callable[[], object] | None,
        preflight_timeout: float,
        permanent_codes: frozenset[int],
        retry_code: int | None,
        retry_after: float | None,
        secrets: tuple[str, ...],
    ) -> None:
        self.command = command
        self._result_limit, self._error_limit = result_limit, error_limit
        self.env, self.cwd, self.stop_grace = env, cwd, stop_grace
        self._preflight, self._preflight_timeout = preflight, preflight_timeout
        self._permanent_codes, self._retry_code, self._retry_after = permanent_codes, retry_code, retry_after
        self.secrets = secrets
        self.__name__ = os.path.basename(command[0])

    def __call__(self, message: Message, context: AgentContext) -> Any:
        """One run for one message; the result, or why there is none."""
        out, err = Head(self._result_limit), Tail(self._error_limit)
        if context.cancelled:
            raise ProgramFailed(f"{self.__name__} was not started: the attempt was cancelled before")
        with private_folder(message) as folder:
            given = variables(message, context, folder)
            reports = Reports(context, folder, given["HOLDFAST_SESSION"])
            try:
                ended = self._run(context, reports, folder, given, out, err)
            finally:
                reports.end()
            self._judge(ended, err)
            return result_of(folder, out)

    def preflight(self) -> None:
        """Whether it could work at all: the program is there, and what `preflight` asks for succeeds."""
        env = {**inherited(self.secrets), **self.env}
        try:
            found(self.command, env, self.cwd)
            if callable(self._preflight):
                _call(self._preflight, self._preflight_timeout)
            elif self._preflight:
                self._check(self._preflight, env)
        except ProgramFailed as problem:
            raise PreflightFailed(f"preflight: {problem}") from problem

    def _run(
        self, context: AgentContext, reports: Reports, folder: Path, given: dict[str, str], out: Head, err: Head
    ) -> Ended:
        env = {**inherited(self.secrets), **self.env, **given}

        def on_cancel(stop: Callable[[], None]) -> None:
            context.on_cancel(stop)
            reports.watch(stop)

        return run.run(
            found(self.command, env, self.cwd),
            env=env,
            out=out,
            err=err,
            cwd=self.cwd,
            stdin=str(folder / BODY),
            folder=str(folder),
            grace=lambda: context.grace(self.stop_grace),
            on_cancel=on_cancel,
        )

    def _judge(self, ended: Ended, err: Tail) -> None:
        if ended.code == 0 and ended.stopped is None:
            return
        text = told(self.__name__, ended, err)
        if ended.stopped is None and ended.code in self._permanent_codes:
            raise DeadLetter(text)
        if ended.stopped is None and ended.code == self._retry_code:
            raise Retry(self._retry_after, reason=text)
        raise ProgramFailed(text)

    def _check(self, command: list[str], env: dict[str, str]) -> None:
        output = Tail(PREFLIGHT_SHOWN)
        ended = run.run(
            found(command, env, self.cwd),
            env=env,
            out=output,
            cwd=self.cwd,
            timeout=self._preflight_timeout,
            grace=lambda: self.stop_grace,
        )
        if ended.code != 0 or ended.stopped:
            raise ProgramFailed(told(os.path.basename(command[0]), ended, output))


def result_of(folder: Path, out: Head) -> Any:
    """What the program gave back: the file it wrote, or what it printed. JSON if it is that, otherwise text."""
    file = folder / RESULT
    if kept := written(file, out.limit):
        size = file.stat().st_size
    else:
        kept, size = bytes(out.kept), out.size
    if size > len(kept):
        return f"{kept.decode('utf-8', 'replace')}\n[cut: {len(kept):,} of {size:,} bytes]"
    try:
        value = msgspec.json.decode(kept)
        encode_json(value)
    except (msgspec.DecodeError, InvalidInput, RecursionError, UnicodeDecodeError):
        return kept.decode("utf-8", "replace").rstrip("\n") or None
    return value


def told(name: str, ended: Ended, output: Tail) -> str:
    """How a run ended, with the last of what it said."""
    if ended.stopped:
        how = "took too long" if ended.stopped == TIMED_OUT else "was stopped before it had finished"
    elif ended.code < 0:
        how = f"was killed by {_signal_name(-ended.code)}"
    else:
        how = f"ended with code {ended.code}"
    said = output.text()
    return f"{name} {how}: {said}" if said else f"{name} {how}, without a word"


def words(command: Command, shell: bool = False, what: str = "command") -> list[str]:
    """A command as the list of words that is run."""
    if isinstance(command, str):
        try:
            split = [SHELL, "-c", command] if shell and command.strip() else shlex.split(command)
        except ValueError as problem:
            raise InvalidInput(f"{what} cannot be split into words: {problem}") from None
    elif shell:
        raise InvalidInput(f"{what} must be one text for shell=True, not a list")
    else:
        split = _listed(command, what)
    if not split or not split[0] or split[0].startswith("-"):
        raise InvalidInput(f"{what} must begin with the name of a program, not {shown(command)}")
    if any("\0" in word for word in split):
        raise InvalidInput(f"{what} may not hold NUL")
    return split


def found(command: list[str], env: Mapping[str, str], cwd: str | None) -> list[str]:
    """The command with the place of its program: looked for now, so that what is missing is said in our words."""
    program = command[0]
    folder = os.path.join(cwd or "", os.path.dirname(program)) if os.path.dirname(program) else None
    path = shutil.which(os.path.basename(program), path=folder if folder is not None else env.get("PATH", os.defpath))
    if path is None:
        raise ProgramFailed(
            f"there is no program {shown(program)} that could be run: check its name and rights, and PATH"
        )
    return [os.path.abspath(path), *command[1:]]


def _preflight(check: Command | Callable[[], object] | None, shell: bool) -> list[str] | Callable[[], object] | None:
    if check is None or callable(check):
        return checked_preflight(check)
    return words(check, shell and isinstance(check, str), "preflight")


def _listed(command: Sequence[str], what: str) -> list[str]:
    if not isinstance(command, (list, tuple)) or not all(isinstance(word, str) for word in command):
        raise InvalidInput(f"{what} must be text or a list of texts, not {shown(command)}")
    return list(command)


def _call(check: Callable[[], object], timeout: float) -> None:
    """On a thread of its own, because nobody can stop a function that hangs."""
    problems: list[str] = []

    def work() -> None:
        try:
            if said := objection(check()):
                problems.append(said)
        except Exception as problem:
            problems.append(f"{type(problem).__name__}: {problem}")

    thread = threading.Thread(target=work, name="holdfast-preflight", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        problems.append(f"it did not come back within {timeout:g} seconds")
    if problems:
        raise ProgramFailed(f"{getattr(check, '__name__', 'the function')}: {problems[0]}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _limit(value: int, what: str) -> int:
    if type(value) is not int or not 1 <= value <= LARGEST:
        raise InvalidInput(f"{what} must be a whole number of bytes from 1 to {LARGEST}, not {shown(value)}")
    return value


def _code(value: int, what: str) -> int:
    if type(value) is not int or not 1 <= value <= 255:
        raise InvalidInput(f"{what} must be exit codes from 1 to 255, not {shown(value)}")
    return value
