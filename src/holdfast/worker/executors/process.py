"""Hands for handlers with a process of their own, which can be killed without harm to anything else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.worker import import_path
from holdfast.worker.executors import ipc
from holdfast.worker.executors.ipc import Border
from holdfast.worker.executors.ipc_errors import HandlerFailed
from holdfast.worker.executors.threads import ThreadHand
from holdfast.worker.outcomes import BudgetSpent
from holdfast.worker.stop_reasons import Interrupted

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer
    from holdfast.worker.context import Context
    from holdfast.worker.worker import Worker

WARNING = 0.5
"""Seconds between telling a handler to stop and killing its process."""

LOOK = 1.0
"""Seconds after which a silent process is looked at: what it started may keep its pipe open after its end."""

TICK = 0.05
FAREWELL = 1.0
"""Seconds in which a process that is no longer needed can end by itself."""

START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from holdfast.worker.executors.process_child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)

_decode = msgspec.json.Decoder().decode


class HandlerProcess:
    """A process that runs one handler, message after message, in a process group of its own."""

    def __init__(self, consumer: Consumer) -> None:
        home = _home(consumer)
        ours, theirs = Pipe()
        reading, self._lifeline = os.pipe()
        fds = (theirs.fileno(), reading)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, *map(str, fds), *map(str, sys.path)],
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                process_group=0,
            )
        except BaseException:
            os.close(self._lifeline)
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(reading)
        self._border = Border(ours)
        self._ending = threading.Lock()
        self._busy = False
        self._send(home)

    @property
    def is_free(self) -> bool:
        """Whether it can take another message."""
        return not self._busy and self._is_alive()

    def is_ready(self, within: float) -> bool:
        """Whether the handler was found, if that is known in time."""
        try:
            if not self._border.pipe.poll(within):
                return False
        except OSError:
            raise self.end() from None
        said = self._hear()
        if isinstance(said, ipc.Raised):
            self.end()
            raise HandlerFailed(f"the process of the handler could not start: {said.text}", said.kinds, said.traceback)
        return True

    def call(self, context: Context) -> Any:
        """Lets the handler work on a message, and does for it what it asks for meanwhile."""
        work = _work(context)
        self._busy = True
        self._send(work)
        if context.stop is not None:
            self.warn()  # The first warning came before the message did.
        while isinstance(said := self._hear(), ipc.ProgressReport | ipc.Question):
            if isinstance(said, ipc.ProgressReport):
                context.progress(_decode(said.value))
            else:
                self._send(_answer(context, said))
        self._busy = False
        match said:
            case ipc.Decided():
                raise said.again()
            case ipc.Raised():
                raise HandlerFailed(said.text, said.kinds, said.traceback)
            case ipc.HandlerReturned(result=bytes() as result):
                return _decode(result)

    def warn(self) -> None:
        """Tells the handler that it has to stop. If it does not listen, this ends when it is killed."""
        with suppress(OSError):
            self._border.send_within(ipc.Warn(), TICK)

    def kill(self) -> None:
        """Ends it now, with everything that it started. From any thread."""
        with self._ending:
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> HandlerFailed:
        """Sees to it that it has ended; how it did."""
        self.kill()
        with self._ending, suppress(subprocess.TimeoutExpired):
            self._process.wait(FAREWELL)
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self._border.pipe.close()
        code = self._process.returncode
        if code is None:
            return HandlerFailed("the process of the handler neither answers nor ends", crashed=True)
        how = f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
        return HandlerFailed(f"the process of the handler ended: {how}", crashed=True)

    def close(self) -> None:
        """Lets it end by itself, and ends it if it does not."""
        with suppress(HandlerFailed, subprocess.TimeoutExpired):
            self._send(ipc.Bye())
            self._process.wait(FAREWELL)
        self.end()

    def _is_alive(self) -> bool:
        with self._ending:
            if self._process.returncode is not None or not hasattr(os, "waitid"):
                return self._process.poll() is None
            # Only a look: while its end is not taken note of, its number is its own, and `kill` gets what it started.
            with suppress(ChildProcessError):
                return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            return False

    def _send(self, word: ipc.Inward) -> None:
        try:
            self._border.send(word)
        except OSError:
            raise self.end() from None

    def _hear(self) -> ipc.Outward:
        try:
            while not self._border.pipe.poll(LOOK):
                if not self._is_alive() and not self._border.pipe.poll(0):
                    raise EOFError
            return self._border.hear_outside()
        except (EOFError, OSError, msgspec.MsgspecError):
            raise self.end() from None


class ProcessHand(ThreadHand):
    """A thread and a process: the thread waits for what the process does, and has another one if it is killed."""

    def __init__(self, worker: Worker) -> None:
        self._process: HandlerProcess | None = None
        self._failure = HandlerFailed("the process of the handler never began")
        super().__init__(worker)

    def call(self, context: Context) -> Any:
        """Runs the handler in the process."""
        if context.stop is not None:
            raise Interrupted
        if self._process is None:
            raise self._failure
        return self._process.call(context)

    def interrupt(self, context: Context) -> None:
        process, warning = self._process, context.grace(WARNING)
        if process is None or self.current is not context:
            return
        if warning <= 0:
            self._kill(context, process)
            return
        timer = threading.Timer(warning, self._kill, [context, process])
        timer.daemon = True
        timer.start()
        process.warn()

    def _kill(self, context: Context, process: HandlerProcess) -> None:
        with self.lock:
            if self.current is context:
                process.kill()

    def serve(self) -> None:
        try:
            super().serve()
        finally:
            if self._process is not None:
                self._process.close()

    def _work(self, context: Context) -> None:
        """The time that a process needs to start is not the handler's: the attempt begins when it is ready."""
        if self._has_process(context):
            super()._work(context)
        else:
            self.worker.skip(context)

    def _has_process(self, context: Context) -> bool:
        """Whether there is one, or has been; False if there is no time to wait for it."""
        if self._process is not None:
            if self._process.is_free:
                return True
            self._process.end()
            self._process = None
        try:
            process = HandlerProcess(self.worker.consumer)
            while not process.is_ready(TICK):
                if context.stop is not None or self.worker.stopping:
                    process.end()
                    return False
        except HandlerFailed as failure:
            self._failure = failure
            return not self.worker.stopping
        except (OSError, HoldfastError) as problem:
            self._failure = HandlerFailed(f"the process of the handler could not be started: {problem}")
        else:
            self._process = process
        return True


def call_in_process(context: Context) -> Any:
    """The handler, as the innermost part of a call."""
    assert isinstance(context.hand, ProcessHand), "a worker has hands of one kind"
    return context.hand.call(context)


def _home(consumer: Consumer) -> ipc.Home:
    module, name = import_path.address(consumer.handler, "the handler")
    script = import_path.script() if module == import_path.SCRIPT else None
    argv = [os.fsencode(argument) for argument in sys.argv]
    file = None if script is None else os.fsencode(script)
    return ipc.Home(module, name, consumer.wants_context, file, argv)


def _work(context: Context) -> ipc.HandlerWork:
    message, decoder, deadline = context.message, context.message.decoder, context.deadline
    return ipc.HandlerWork(
        bytes(message.raw_id),
        message.lane,
        message.raw_body,
        message.raw_headers,
        message.key,
        message.correlation_id,
        message.reply_to,
        message.topic,
        message.expires_at_us,
        message.enqueued_at_us,
        None if decoder is None else import_path.address(decoder.type, f"the message type of {context.queue!r},"),
        context.queue,
        context.attempt,
        context.max_attempts,
        None if deadline is None else deadline.timestamp(),
    )


def _answer(context: Context, asked: ipc.Question) -> ipc.IpcAnswer:
    try:
        return _done(context, asked)
    except Exception as problem:
        is_first = isinstance(problem, BudgetSpent) and problem.is_first
        return ipc.IpcAnswer(error=type(problem).__name__, text=str(problem), is_first=is_first)


def _done(context: Context, asked: ipc.Question) -> ipc.IpcAnswer:
    match asked:
        case ipc.Extend():
            context.extend(asked.duration)
        case ipc.Spend():
            return ipc.IpcAnswer(value=context.spend(asked.amount))
        case ipc.Action():
            context.action(asked.text)
        case ipc.Recall():
            return ipc.IpcAnswer(value=context.session)
        case ipc.Remember():
            context.session = asked.text
        case ipc.Reply():
            receipt = context.reply(_decode(asked.body), headers=_decode(asked.headers))
            return ipc.IpcAnswer(bytes(receipt.raw_id))
        case ipc.Enqueue():
            receipt = context.enqueue(body=_decode(asked.body), **_decode(asked.options))
            return ipc.IpcAnswer(bytes(receipt.raw_id))
    return ipc.IpcAnswer()
