"""Short words for handlers in processes of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Holdfast, State
from holdfast.worker.consumer import Consumer
from tests.waiting import eventually
from tests.worker.steps import ended


def declare(hf: Holdfast, handler: Callable[..., Any], **options: Any) -> Consumer:
    return hf.consumer("q", isolation="process", **options)(handler)


def done(hf: Holdfast, message_id: str) -> Any:
    """The result of a message."""
    assert ended(hf, message_id) is State.SUCCEEDED
    return hf.status(message_id).result  # type: ignore[union-attr]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(note: Path) -> list[int]:
    """Who a `stuck` handler is, and what it started."""
    return [int(pid) for pid in eventually(lambda: note.exists() and note.read_text(), "the handler's note").split()]


def all_gone(running: list[int]) -> bool:
    return not any(map(is_running, running))
