"""A spec is exchanged while it is served: nothing is dropped, and what cannot work changes nothing."""

from __future__ import annotations

import signal
import threading
from collections import Counter

from tests.acceptance.programs import soon
from tests.serving.conftest import Desk
from tests.serving.served import Served

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
    soon(lambda: sorted(desk.opened) == ["direct!", "queued!"], "both run the new code")
    soon(lambda: before not in server.consumers, "the old consumers have left")


def test_what_cannot_work_changes_nothing(desk: Desk) -> None:
    server = desk.serve().ready()
    desk.write("queue Broken { ordering: sideways }")
    server.hears("app.holdfast was not reloaded, and what was served is served on")
    assert "sideways" in server.said
    assert server.deliver("Alerts", {"id": "1", "title": "still"}).status_code == 202
    soon(lambda: desk.opened == ["still"], "what was served is served on")
    desk.write(OTHER)
    server.hears("reloaded app.holdfast")


def test_a_module_that_cannot_be_read_changes_nothing(desk: Desk) -> None:
    server = desk.serve().ready()
    (desk.folder / "handlers.py").write_text("this is no Python")
    server.hears("app.holdfast was not reloaded, and what was served is served on")
    assert server.deliver("Direct", {"title": "still"}).json()["result"] == {"opened": "still"}


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
    soon(lambda: len(desk.opened) >= len(sent), "all are worked on")
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
