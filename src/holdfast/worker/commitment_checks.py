"""Done is not complete: a handler says that it is done, and code outside of it finds out whether that is so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.commitments.rules import (
    HEADER,
    OUTPUT_KEPT,
    Commitment,
    CommitmentResult,
    distinct,
    failed_text,
    read_commitments,
)
from holdfast.core.message import Message, clean_text, encode_json
from holdfast.errors import InvalidInput, ProgramFailed
from holdfast.worker.outcomes import DeadLetter
from holdfast.worker.programs import run
from holdfast.worker.programs.environment import (
    LONGEST_VARIABLE,
    RESULT,
    AgentContext,
    inherited,
    private_folder,
    variables,
)
from holdfast.worker.programs.run import Grace, OnCancel, Tail
from holdfast.worker.programs.watchdog import SHELL

__all__ = ["check_done", "commitments_of", "failed_text", "verify"]

OnChecked = Callable[[list[CommitmentResult]], object]
"""Told of all results so far after every check, since the next one may be cut off."""

STOP_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for a check that has to stop."""


def commitments_of(spec_commitments: Iterable[Any], message: Message, trusted: bool) -> list[Commitment]:
    """The queue's commitments and the message's own.

    A message's checks are shell commands of whoever could enqueue it, so they are run where that was asked for and
    nowhere else. They are not left out either: a message whose promises nobody checks must not count as done.
    """
    of_queue = read_commitments(list(spec_commitments))
    if not message.headers.get(HEADER):
        return list(of_queue)
    if not trusted:
        raise DeadLetter(
            f"the message carries commitments (header {HEADER!r}), which are shell commands, and this consumer does "
            "not run those of messages. If everyone who can enqueue here may run commands on its machine, set "
            "trust_commitments=True and replay the message; otherwise declare them with hf.queue(…, commitments=…)"
        )
    try:
        return list(distinct([*of_queue, *read_commitments(message.headers[HEADER], f"the header {HEADER}")]))
    except InvalidInput as problem:
        raise DeadLetter(f"the message's commitments cannot be checked: {problem}") from None


def check_done(
    commitments: Sequence[Commitment],
    message: Message,
    context: AgentContext,
    result: Any,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    secrets: Sequence[str] = (),
    on_checked: OnChecked = lambda results: None,
) -> list[CommitmentResult]:
    """Checks what was promised of a message whose handler has returned `result`, in the surroundings of a program."""
    raw = encode_json(result, "result")
    with private_folder(message) as folder:
        (folder / RESULT).write_bytes(raw)
        around = {**inherited(secrets), **(env or {}), **variables(message, context, folder)}
        if len(raw) <= LONGEST_VARIABLE:
            around["HOLDFAST_RESULT"] = raw.decode()
        return verify(
            commitments,
            env=around,
            cwd=cwd,
            on_cancel=context.on_cancel,
            folder=str(folder),
            grace=lambda: context.grace(STOP_GRACE),
            on_checked=on_checked,
        )


def verify(
    commitments: Sequence[Commitment],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    on_cancel: OnCancel = lambda stop: None,
    folder: str = "",
    grace: Grace = lambda: STOP_GRACE,
    on_checked: OnChecked = lambda results: None,
) -> list[CommitmentResult]:
    """Runs every check, also after one has failed: whoever mends it wants to know all. Once cancelled, none passes."""
    results: list[CommitmentResult] = []
    for one in commitments:
        results.append(_checked(one, env, cwd, on_cancel, folder, grace))
        on_checked(results)
    return results


def _checked(
    commitment: Commitment, env: Mapping[str, str], cwd: str | None, on_cancel: OnCancel, folder: str, grace: Grace
) -> CommitmentResult:
    output = Tail(4 * OUTPUT_KEPT)
    try:
        ended = run.run(
            [SHELL, "-c", commitment.check],
            env=env,
            out=output,
            cwd=cwd,
            folder=folder,
            timeout=commitment.timeout,
            grace=grace,
            on_cancel=on_cancel,
        )
    except ProgramFailed as problem:
        return CommitmentResult(commitment.name, False, None, clean_text(str(problem))[-OUTPUT_KEPT:])
    said = clean_text(output.text())[-OUTPUT_KEPT:]
    if ended.stopped:
        return CommitmentResult(commitment.name, False, None, f"{said}\n[{ended.stopped}]".lstrip())
    return CommitmentResult(commitment.name, ended.code == 0, ended.code, said)
