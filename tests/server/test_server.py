"""The server as a whole: where it may listen, how it stops, and what a dead database or process takes along."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import httpx
import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidInput
from holdfast.server.app import create_app
from holdfast.server.server import Server, is_loopback
from holdfast.server.tokens import Tokens, new_token
from tests.server.servers import hook, running, sign
from tests.servers import PostgresServer
from tests.waiting import LONGEST, eventually

pytestmark = pytest.mark.above_the_stores

ROOT = Path(__file__).parents[2]


class Program:
    """A server in a process of its own."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "tests.server.running_server", f"sqlite:///{path}", "100s"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)
        self.url = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def post(self, name: str, body: bytes, client: httpx.Client | None = None) -> httpx.Response:
        headers = {"content-type": "application/json", "x-signature": sign(body)}
        return (client or httpx).post(f"{self.url}/hook/{name}", content=body, headers=headers, timeout=LONGEST)

    def go_on(self) -> None:
        """What is under way may end."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)

    def end(self) -> int:
        return self.process.wait(LONGEST)


@contextmanager
def program(path: Path) -> Iterator[Program]:
    started = Program(path)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def is_deaf(server: Program) -> bool:
    """Whether it accepts no connection any more."""
    try:
        server.post("orders", b"{}")
    except httpx.ConnectError:
        return True
    except httpx.TransportError:  # It hung up.
        pass
    return False


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "192.0.2.1", "", "no.such.host.invalid"])
def test_without_tokens_it_listens_on_this_machine_only(hf: Holdfast, host: str) -> None:
    with pytest.raises(InvalidInput, match="without tokens everybody"):
        Server(hf, create_app(hf), host=host, port=0)


def test_with_tokens_it_may_listen_everywhere(hf: Holdfast) -> None:
    app = create_app(hf, tokens=Tokens([new_token("a", "admin")[1]]))
    server = Server(hf, app, host="0.0.0.0", port=0)
    assert server.address.startswith("http://0.0.0.0:")
    server._socket.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_what_only_this_machine_reaches(host: str) -> None:
    assert is_loopback(host)


def test_a_port_that_is_taken_is_said(hf: Holdfast) -> None:
    with running(hf) as server, pytest.raises(InvalidInput, match="cannot serve"):
        Server(hf, create_app(hf), port=server.port)


def test_a_database_that_is_away_is_503_and_comes_back(sqlite_path: Path) -> None:
    with (
        Holdfast(f"sqlite:///{sqlite_path}", patience=1) as hf,
        running(hf, hook(), patience=0.5) as server,
    ):
        eventually(lambda: server.post("orders").status_code == 202, "a delivery is in time")
        rival = apsw.Connection(str(sqlite_path))
        rival.set_busy_timeout(60_000)  # Maintenance writes now and then.
        rival.execute("BEGIN EXCLUSIVE")
        response = server.post("orders")
        rival.execute("ROLLBACK")
        rival.close()
        assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
        assert int(response.headers["retry-after"]) > 0
        assert str(sqlite_path) not in response.text
        eventually(lambda: server.post("orders").status_code == 202, "deliveries are accepted again")


def test_a_postgresql_that_is_down_is_503_and_comes_back(private_postgres: PostgresServer) -> None:
    url = private_postgres.url()
    with Holdfast(url, patience=0.5) as hf, running(hf, hook(), patience=5) as server:
        eventually(lambda: server.post("orders").status_code == 202, "a delivery is in time")
        private_postgres.stop("immediate")
        response = server.post("orders")
        assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
        private_postgres.start()
        eventually(lambda: server.post("orders").status_code == 202, "deliveries are accepted again")


def test_sigterm_lets_requests_and_handlers_finish_and_accepts_nothing_new(sqlite_path: Path) -> None:
    with program(sqlite_path) as server, ThreadPoolExecutor(1) as pool:
        assert server.post("worked", b"1").status_code == 202
        assert server.line() == "handler begun"
        under_way = pool.submit(server.post, "slow", b"1")
        assert server.line() == "command begun"
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: is_deaf(server), "it accepts nothing any more")
        assert not under_way.done()
        server.go_on()
        answer = under_way.result()
        assert (answer.status_code, answer.json()["result"]) == (200, "done")
        assert server.line() == "ended"
        assert server.end() == 0
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        assert hf.stats("worked").pending + hf.stats("worked").processing == 0, "the handler finished"


def test_a_second_signal_means_now(sqlite_path: Path) -> None:
    """Only a `def` command that has begun is waited for: its sender hears nothing of how it ends."""
    with program(sqlite_path) as server, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(server.post, "slow", b"1")
        assert server.line() == "command begun"
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: is_deaf(server), "it accepts nothing any more")
        assert not under_way.done()
        server.process.send_signal(signal.SIGINT)  # Two of a kind might come together, and be one.
        problem = under_way.exception()
        assert problem is not None or under_way.result().status_code >= 500
        server.go_on()
        server.end()


def test_after_a_kill_every_202_is_in_the_queue(sqlite_path: Path) -> None:
    accepted: list[str] = []
    with program(sqlite_path) as server:

        def send(worker: int) -> None:
            with httpx.Client() as client:
                for n in range(10_000):
                    try:
                        answer = server.post("orders", f"[{worker}, {n}]".encode(), client)
                    except httpx.HTTPError:
                        return
                    assert answer.status_code == 202
                    accepted.append(answer.json()["id"])

        senders = [threading.Thread(target=send, args=[worker]) for worker in range(8)]
        for sender in senders:
            sender.start()
        eventually(lambda: len(accepted) >= 200, "200 deliveries are accepted")
        server.process.kill()
        for sender in senders:
            sender.join()
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        there = {claim.message.id for claim in hf.claim("orders", n=10_000)}
    assert len(accepted) >= 200
    assert set(accepted) <= there
    assert len(there) <= len(accepted) + 8, "at most what each sender had under way"
