"""A spec is exchanged while it is served: nothing is dropped, and what cannot work changes nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.server.serving import workers
from holdfast.server.serving.loading import Sources
from holdfast.spec.plan import make_plan
from holdfast.spec.reading import read_text
from tests.acceptance.programs import GUARD, command_line, processes
from tests.server.serving.conftest import Desk
from tests.server.serving.served import Served
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

Look = Callable[[], Holdfast]

OTHER = 'webhook Other { queue: Graves verify_hmac { header: "X-Signature" secret_env: "HOOK_SECRET" } }'


def test_a_change_of_the_file_is_taken_over(desk: Desk) -> None:
    server = desk.serve().ready()
    assert server.deliver("Other", {}).status_code == 404
    desk.write(OTHER)
    server.hears("reloaded app.holdfast")
    assert server.deliver("Other", {}).status_code == 202


def test_sighup_reloads_the_module_too(desk: Desk) -> None:
    server = desk.serve("--no-reload").ready()
    [before] = server.consumers
    desk.write(OTHER, mark="!")
    server.send(signal.SIGHUP)
    server.hears("reloaded app.holdfast")
    assert server.deliver("Other", {}).status_code == 202
    server.deliver("Direct", {"title": "direct"})
    server.deliver("Alerts", {"id": "1", "title": "queued"})
    eventually(lambda: sorted(desk.opened) == ["direct!", "queued!"], "both run the new code")
    eventually(lambda: before not in server.consumers, "the old consumers have left")


def test_what_cannot_work_changes_nothing(desk: Desk) -> None:
    server = desk.serve().ready()
    desk.write("queue Broken { ordering: sideways }")
    server.hears("app.holdfast was not reloaded, and what was served is served on")
    assert "sideways" in server.said
    assert server.deliver("Alerts", {"id": "1", "title": "still"}).status_code == 202
    eventually(lambda: desk.opened == ["still"], "what was served is served on")
    desk.write(OTHER)
    server.hears("reloaded app.holdfast")


def test_a_module_that_cannot_be_read_changes_nothing(desk: Desk) -> None:
    server = desk.serve().ready()
    desk.replace("handlers.py", "this is no Python")
    server.hears("app.holdfast was not reloaded, and what was served is served on")
    assert server.deliver("Direct", {"title": "still"}).json()["result"] == {"opened": "still"}


FATAL = """
    if os.environ.get("HOLDFAST_STAFF"):
        hf.running = lambda grace: os._exit(7)
"""


@pytest.mark.parametrize("is_late", [False, True], ids=["while it is loaded", "after the database was changed"])
def test_consumers_that_cannot_start_change_nothing(desk: Desk, look: Look, is_late: bool) -> None:
    server = desk.serve("--no-reload").ready()
    text = (desk.folder / "app.holdfast").read_text()
    before = read_text(text).spec
    assert before is not None
    more = "" if is_late else 'consumer c { queues: [Graves] handler: "no.such:thing" }'
    changed = text.replace("queue Graves {}", "queue Graves { retention { max_depth: 7 } } " + more)
    (desk.folder / "app.holdfast").write_text(changed)
    if is_late:
        (desk.folder / "handlers.py").write_text((desk.folder / "handlers.py").read_text() + FATAL)
    server.send(signal.SIGHUP)
    server.hears("app.holdfast was not reloaded, and what was served is served on")
    assert ("there is no module 'no' for the handler 'no.such:thing'" in server.said) is not is_late
    assert ("changed queue Graves" in server.said) is is_late
    assert make_plan(look(), before).steps == []
    assert server.deliver("Alerts", {"id": "1", "title": "still"}).status_code == 202
    eventually(lambda: desk.opened == ["still"], "what was served is served on")


def test_a_server_is_told_to_stop_while_consumers_start(
    tmp_path: Path, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for those who will not be needed."""
    monkeypatch.setattr(workers, "STARTING", 3600.0)
    (tmp_path / "app.holdfast").write_text("app Desk {}")
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('begun').touch()\ntime.sleep(3600)\n"
    )
    sources = Sources(str(tmp_path / "app.holdfast"), str(tmp_path / "slow.py"))
    keeping = workers.Workers(workers.WorkerOrders(db, "default", sources, 30.0))
    with ThreadPoolExecutor(2) as pool:
        starting = pool.submit(keeping.replace)
        try:
            eventually((tmp_path / "begun").exists, "the process reads its module")
            pool.submit(keeping.ask_to_stop).result(GUARD)
            with pytest.raises(workers.NotStarted):
                starting.result(GUARD)
            assert keeping.wait(0)
        finally:
            for process in [*processes(os.getpid())]:
                if b"holdfast.server.serving.worker_process" in command_line(process):
                    os.kill(process, signal.SIGKILL)
    with pytest.raises(workers.NotStarted, match="the server stops"):
        keeping.replace()


def test_no_delivery_and_no_message_is_dropped_by_reloads(desk: Desk) -> None:
    """Four senders go on while the spec is exchanged five times; every 202 is one ticket."""
    server = desk.serve().ready()
    senders = [Sender(server, number) for number in range(4)]
    for number in range(5):
        desk.write(OTHER if number % 2 else "", mark=f"-{number}")
        server.send(signal.SIGHUP)
        server.hears("reloaded app.holdfast", times=number + 1)
    sent = [title for sender in senders for title in sender.stop()]
    assert {code for sender in senders for code in sender.codes} == {202}
    eventually(lambda: len(desk.opened) >= len(sent), "all are worked on")
    worked = Counter(line.rpartition("-")[0] or line for line in desk.opened)
    assert {title: worked[title] for title in sent} == dict.fromkeys(sent, 1)


class Sender(threading.Thread):
    """Delivers one after the other until it is stopped."""

    def __init__(self, server: Served, number: int) -> None:
        super().__init__(daemon=True)
        self._server, self._number = server, number
        self._over = threading.Event()
        self._titles: list[str] = []
        self.codes: list[int] = []
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            title = f"t{self._number}.{len(self._titles)}"
            self.codes.append(self._server.deliver("Alerts", {"id": title, "title": title}).status_code)
            self._titles.append(title)

    def stop(self) -> list[str]:
        self._over.set()
        self.join()
        return self._titles
