"""Handlers for processes of their own, which find them here; and a program that runs one."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast import (
    Cancel,
    Commitment,
    DeadLetter,
    Holdfast,
    HoldfastError,
    InvalidInput,
    Message,
    Retry,
    Snooze,
    TooLarge,
)
from holdfast.worker.context import Context
from tests.waiting import eventually, spend

HANDLED: list[Any] = []
"""What this process has had in its hands."""


FINISHED = threading.Event()


class Broken(Exception):
    pass


class VeryBroken(Broken):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass
class Letter:
    to: str


def double(message: Message) -> Any:
    return {"twice": message.body * 2}


def tell_all(message: Message, context: Context) -> Any:
    """Everything that a handler can see, as a result."""
    return {
        "id": message.id,
        "raw": [list(message.raw_id), message.raw_body.decode(), (message.raw_headers or b"").decode()],
        "body": message.body,
        "headers": message.headers,
        "key": message.key,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "priority": message.priority,
        "times": [message.enqueued_at_us, message.expires_at_us],
        "context": [context.queue, context.attempt, context.max_attempts, context.cancelled, context.message.id],
        "deadline": context.deadline,
    }


def typed(message: Message) -> str:
    assert isinstance(message.body, Letter)
    return message.body.to


def pid(message: Message) -> int:
    spend(0.05)
    return os.getpid()


def meet(message: Message) -> int:
    """Waits until three processes have said in a folder that they are there."""
    folder = Path(message.body)
    (folder / f"{os.getpid()}.met").touch()
    eventually(lambda: len(list(folder.glob("*.met"))) >= 3)
    return os.getpid()


def count(message: Message) -> int:
    HANDLED.append(message.body)
    return len(HANDLED)


def decide(message: Message, context: Context) -> Any:
    """What the body says, at the first attempt."""
    HANDLED.append(message.body)
    if HANDLED.count(message.body) > 1:
        return context.attempt
    match message.body:
        case "retry":
            raise Retry(0.05, reason="not yet")
        case "snooze":
            raise Snooze(0.05)
        case "snooze until":
            raise Snooze(datetime.now(UTC) + timedelta(seconds=0.05))
        case "cancel":
            raise Cancel("nobody wants it")
        case "dead":
            raise DeadLetter("no such address")


def fail(message: Message) -> Any:
    match message.body:
        case "permanent":
            raise VeryBroken("for good")
        case "unspeakable":
            raise Unspeakable
        case "no json":
            return object()
        case "exit":
            sys.exit(3)
    raise RuntimeError("no luck")


def split(message: Message, context: Context) -> list[str]:
    ids = [context.enqueue("parts", part, priority="high", key="k").id for part in message.body]
    context.extend("1m")
    if context.attempt == 1 and len(ids) > 2:
        raise RuntimeError("after the enqueue")
    return ids


PROMISES: dict[str, Any] = {
    "budget": 1.5,
    "commitments": [Commitment("there", "test -f it", timeout=3), {"name": "done", "check": "true"}],
}


def promise(message: Message, context: Context) -> None:
    context.enqueue("parts", 1, **PROMISES)


def add_line(note: Path, what: Any) -> None:
    with note.open("a") as file:
        file.write(f"{what}\n")


def extend_and_wait(message: Message, context: Context) -> None:
    """Says that it has, and ends when it is let go."""
    note = Path(message.body["note"])
    context.extend(message.body["for"])
    add_line(note, context.attempt)
    wait_for(note.with_suffix(".go"))


def ask_nonsense(message: Message, context: Context) -> list[str]:
    """Every error of an enqueue is raised here, of its own class."""
    said = []
    for wrong in ({"body": object()}, {"key": object()}, {"delay": -1}, {"queue": ""}, {"body": "x" * 1000}):
        try:
            context.enqueue(**{"queue": "small", "body": 1, **wrong})
        except InvalidInput as problem:
            said.append(f"{type(problem).__name__}: {problem}")
    try:
        context.progress(object())
    except InvalidInput as problem:
        said.append(str(problem))
    assert issubclass(TooLarge, InvalidInput)
    return said


def report(message: Message, context: Context) -> None:
    context.progress({"part": 0.5})
    wait_for(Path(message.body))


def echo(message: Message, context: Context) -> Any:
    context.progress("begun")
    return message.body


def stuck(message: Message, context: Context) -> None:
    """Never comes back, in the way that the body says; notes down who it is first, and what it is told."""
    note = Path(message.body["note"])
    context.on_cancel(lambda: (note.with_suffix(".told").write_text("told"), None)[1])
    started = subprocess.Popen(["sleep", "1000"])
    note.with_suffix(".new").write_text(f"{os.getpid()} {started.pid}")
    note.with_suffix(".new").rename(note)
    if message.body["how"] == "sleep":
        spend(1000)
    if message.body["how"] == "c":
        re.match(r"(a+)+$", "a" * 100 + "b")  # Never lets another thread run.
    if message.body["how"] == "asks":
        while not context.cancelled:
            spend(0.01)
    while True:
        try:
            spend(1000)
        except BaseException:
            continue


def stop_when_told(message: Message, context: Context) -> str:
    told = threading.Event()
    context.on_cancel(told.set)
    Path(message.body).write_text("begun")
    assert told.wait(60)
    assert context.cancelled
    return "stopped well"


def leave_a_thread(message: Message, context: Context) -> Any:
    """The second message tells what became of the thread that the first one left behind."""
    if message.body == "first":

        def late() -> None:
            FINISHED.wait(60)
            try:
                context.enqueue("parts", "from a ghost")
            except HoldfastError as problem:
                HANDLED.append(str(problem))

        HANDLED.append(threading.Thread(target=late, daemon=True))
        HANDLED[0].start()
        return None
    FINISHED.set()
    HANDLED[0].join()
    return HANDLED[1]


def poison(message: Message) -> None:
    match message.body:
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def leave_a_program(message: Message) -> None:
    """Dies and leaves something running, which may keep the process's own pipes open."""
    keep = [fd for fd in range(3, 100) if is_open(fd) and stat.S_ISSOCK(os.fstat(fd).st_mode)]
    started = subprocess.Popen(["sleep", "1000"], pass_fds=keep if message.body["pipes"] else [])
    Path(message.body["note"]).write_text(str(started.pid))
    os._exit(7)


def slow(message: Message) -> str:
    Path(message.body).write_text("begun")
    spend(0.7)
    return "finished"


def shout(message: Message) -> None:
    print("x" * 1_000_000)
    print("quietly", file=sys.stderr)


def hangs_at_exit(message: Message) -> None:
    threading.Thread(target=spend, args=[1000]).start()


def signals(message: Message) -> int:
    """Survives what a terminal or a service manager sends to everybody; what it starts does not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    child = subprocess.Popen(["sleep", "1000"])
    child.terminate()
    return child.wait(100)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def wait_for(path: Path) -> None:
    eventually(path.exists)


if __name__ == "__main__":
    hf = Holdfast(sys.argv[1])
    hf.consumer("q", isolation="process", concurrency=2)(stuck)
    hf.run()


# --- answers ----------------------------------------------------------------------------------------------------------


def refusal(call: Callable[[], object]) -> str | None:
    """What a call says against itself."""
    try:
        call()
    except InvalidInput as problem:
        return str(problem)
    return None


def reply(message: Message, context: Context) -> Any:
    """Answers as the body says."""
    wish, *details = message.body
    if wish == "fail first":
        context.reply({"attempt": context.attempt})
        if context.attempt < 3:
            raise Broken("after the answer")
    elif wish == "twice":
        context.reply("once")
        return refusal(lambda: context.reply("again"))
    elif wish == "badly":
        said = [refusal(lambda: context.reply(object())), refusal(lambda: context.reply(1, headers={"h": object()}))]
        context.reply("then well")
        return said
    elif wish == "not":
        return "a result is no answer"
    elif wish == "unasked":
        return refusal(lambda: context.reply("?"))
    else:
        context.reply({"echo": details}, headers={"by": context.message.id})
    return None


async def await_reply(message: Message, context: Any) -> Any:
    """The same, awaited."""
    wish, *details = message.body
    if wish == "fail first":
        await context.reply({"attempt": context.attempt})
        if context.attempt < 3:
            raise Broken("after the answer")
    elif wish == "twice":
        await context.reply("once")
        return await awaited_refusal(context.reply("again"))
    elif wish == "badly":
        said = [
            await awaited_refusal(context.reply(object())),
            await awaited_refusal(context.reply(1, headers={"h": object()})),
        ]
        await context.reply("then well")
        return said
    elif wish == "not":
        return "a result is no answer"
    elif wish == "unasked":
        return await awaited_refusal(context.reply("?"))
    else:
        await context.reply({"echo": details}, headers={"by": context.message.id})
    return None


async def awaited_refusal(call: Awaitable[object]) -> str | None:
    try:
        await call
    except InvalidInput as problem:
        return str(problem)
    return None


def costs(message: Message, context: Context) -> Any:
    """Fails once, after having spent something; tells what both attempts have seen."""
    spent, sessions = [context.spend(2), context.spend(3.5)], [context.session]
    context.session = f"s-{context.attempt}"
    sessions.append(context.session)
    context.action("look around")
    if context.attempt == 1:
        context.session = json.dumps([spent, sessions])
        raise RuntimeError("once more")
    before = json.loads(sessions[0] or "")
    return {
        "spent": before[0] + spent,
        "sessions": before[1] + [sessions[1]],
        "step key": context.step_key,
        "refused": [
            refusal(lambda: context.spend("much")),  # type: ignore[arg-type]
            refusal(lambda: context.action(7)),  # type: ignore[arg-type]
            refusal(lambda: setattr(context, "session", 7)),
        ],
    }


def waste(message: Message, context: Context) -> None:
    for _ in range(20):
        if message.body == "spend":
            context.spend(3)
        else:
            context.action("read the page")
