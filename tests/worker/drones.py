"""Programs of a consumer at work, and what is left of them."""

from pathlib import Path
from typing import Any

from holdfast import Holdfast, exec_handler
from tests.waiting import eventually
from tests.worker.attempts import is_alive, sh


class Drone:
    """A consumer with a program that writes down the numbers of its processes."""

    def __init__(self, hf: Holdfast, said: Path, script: str, stop_grace: float, **options: Any) -> None:
        self._said = said
        program = exec_handler(sh(script), env={"SAID": str(said)}, stop_grace=stop_grace)
        hf.consumer("drones", name="drone", **options)(program)
        self.message_id = hf.enqueue("drones", 1).id

    def lines(self) -> list[str]:
        return self._said.read_text().split("\n")[:-1] if self._said.exists() else []

    def begun(self) -> list[int]:
        """Its processes, as soon as they run. By then the program may have been told to end, and have tidied up."""
        return [int(line) for line in eventually(lambda: len(self.lines()) >= 2 and self.lines()[:2], "it runs")]

    def has_tidied(self) -> bool:
        return "tidied" in self.lines()


def assert_gone(pids: list[int]) -> None:
    for pid in pids:
        eventually(lambda pid=pid: not is_alive(pid), f"{pid} is gone")
