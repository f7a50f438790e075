"""The parts of a run: histories that survive, a recorded client, addresses, the proxy, the chart."""

import copy
import itertools
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, LeaseLost
from holdfast.client.client import internals
from holdfast.errors import InvalidInput, QueueFull, StoreError, StoreFull, Unavailable
from holdfast.settings import Settings
from holdfast.torture import address
from holdfast.torture.chart import draw
from holdfast.torture.checks import check
from holdfast.torture.history import CLAIM, INVOKE, OK, SEND, HistoryEvent, HistoryLog, Item, Memory, read_folder
from holdfast.torture.nemesis import FAULTS, OF_POSTGRES, OF_SQLITE, OF_SQS, ProxyProcess, possible
from holdfast.torture.plan import TICKS, TorturePlan
from holdfast.torture.producing import send_late
from holdfast.torture.recording import introduce, outcome_of, recorded
from holdfast.torture.soak import Gauge, SoakSample
from tests.torture.histories import Tale, life

# --- histories --------------------------------------------------------------------------------------------------------

WRITER = """
import os, sys
from pathlib import Path
from holdfast.torture.history import HistoryLog, Item

log = HistoryLog(Path(sys.argv[1]))
for number in range(1000):
    log.note("send", "invoke", [Item(id=str(number))], call=number)
os.kill(os.getpid(), 9)
"""


def test_a_history_survives_its_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path / "a.log")])
    assert done.returncode == -9
    assert [event.items[0].id for event in read_folder(tmp_path)] == [str(number) for number in range(1000)]


def test_a_late_transaction_is_sent_from_when_it_began(sqlite_path: Path) -> None:
    """On PostgreSQL its messages have their place since then, before what others publish while it is open."""
    events, ticks = list[HistoryEvent](), itertools.count()
    with Holdfast(f"sqlite:///{sqlite_path}") as hf:
        hf.topic(TICKS)
        enqueue, began = hf.enqueue, list[int]()

        def noticed(*given: Any, **named: Any) -> Any:
            began.append(next(ticks))
            return enqueue(*given, **named)

        hf.enqueue = noticed  # type: ignore[method-assign]
        send_late(hf, Memory("keeper", events, lambda: next(ticks)), ("one", "two"), lambda _: None, 0.0)
    assert [(event.op, event.phase, event.at < began[0]) for event in events] == [
        (SEND, INVOKE, True),
        (SEND, OK, False),
    ]


def test_a_history_goes_on_in_another_file_when_one_may_not_grow(tmp_path: Path) -> None:
    log = HistoryLog(tmp_path / "a.log")
    for number in range(100):
        log.note(SEND, OK, [Item(id=str(number))])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "a.log").stat().st_size + 20, hard))
    try:
        for number in range(100, 140):
            log.note(SEND, OK, [Item(id=str(number))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert [event.items[0].id for event in read_folder(tmp_path)] == [str(number) for number in range(140)]
    assert {event.who for event in read_folder(tmp_path)} == {"a"}
    still_open = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert not [path for path in still_open if path.startswith(str(tmp_path))]


# --- a recorded client ------------------------------------------------------------------------------------------------


def test_a_client_that_is_recorded(url: str) -> None:
    events: list[HistoryEvent] = []
    with recorded(Settings(url), Memory("me", events)) as hf:
        hf.queue("q", lease=60, history="1d")
        introduce(hf, ["q"])
        hf.enqueue_many("q", ["a", "b", "c", "d"])
        for _ in range(2):
            hf.enqueue("q", "once", idempotency_key="k")
        claims = hf.claim("q", n=10)
        hf.nack(claims[:2], "no", delay=0)
        again = hf.claim("q", n=10, ack=claims[2:])
        hf.extend(again)
        stale = copy.copy(again[0])
        hf.release(again[:1])
        with pytest.raises(LeaseLost):
            hf.ack([stale, *again[1:]])
        hf.ack(hf.claim("q"))
        states = {item.id: hf.status(item.id) for event in events for item in event.items if event.phase == OK}
    tale = Tale()
    tale.events = events
    tale.ends["q"].messages = {id: str(status.state) for id, status in states.items() if status is not None}
    verdict = check(events, tale.final())
    assert verdict.findings == []
    told = {name: verdict.counts[name] for name in ("enqueued", "repeated", "claims", "acked", "stale refused", "done")}
    assert told == {"enqueued": 5, "repeated": 1, "claims": 8, "acked": 5, "stale refused": 1, "done": 5}
    assert [event.phase for event in events[:2]] == [INVOKE, OK]
    assert all(item.until > item.since > 0 for event in events if event.op == CLAIM for item in event.items if item.id)


def test_a_consumer_that_is_recorded(url: str) -> None:
    events: list[HistoryEvent] = []
    with recorded(Settings(url), Memory("me", events)) as hf:
        hf.queue("q", history="1d")
        introduce(hf, ["q"])
        hf.consumer("q", name="all", empty="terminate")(lambda message: message.body)
        hf.enqueue_many("q", [f"m{number}" for number in range(50)])
        hf.run()
        assert hf.stats("q").queue_depth == 0
    tale = Tale()
    tale.events = events
    sent = next(event for event in events if event.op == SEND)
    tale.ends["q"].messages = {item.id: "succeeded" for item in sent.items}
    assert check(events, tale.final()).findings == []
    assert check(events, tale.final()).counts["acked"] == 50


def test_what_surely_did_nothing() -> None:
    assert {outcome_of(problem) for problem in (StoreFull(), InvalidInput(), QueueFull())} == {"fail"}
    assert {outcome_of(problem) for problem in (Unavailable(), StoreError(), KeyboardInterrupt())} == {"info"}


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_and_room_again(tmp_path: Path) -> None:
    for engine in ("apsw", "stdlib"):
        with Holdfast(f"sqlite:///{tmp_path}/{engine}.db?engine={engine}") as hf:
            hf.queue("q")
            assert internals(hf).store.faults.fill(True)
            with pytest.raises(StoreFull):
                hf.enqueue_many("q", ["x" * 1000] * 1000)
            assert internals(hf).store.faults.fill(False)
            hf.enqueue_many("q", ["x" * 1000] * 100)
            assert internals(hf).store.faults.end_sessions("anyone") == 0
            assert internals(hf).store.faults.size() > 0


def test_sessions_that_end_are_our_own(postgres_url: str) -> None:
    named, theirs = (address.named(postgres_url, tenant, "direct") for tenant in ("run-1", "run-10"))
    with Holdfast(named) as hf, Holdfast(postgres_url) as other, Holdfast(theirs) as another_run:
        assert (hf.queues.list(), other.queues.list(), another_run.queues.list()) == ([], [], [])
        assert internals(other).store.faults.end_sessions(address.sessions_of("run-1")) >= 1
        while internals(other).store.faults.end_sessions(
            address.sessions_of("run-1")
        ):  # They were told, and go when they can.
            pass
        assert (internals(hf).store.faults.unheard(), internals(another_run).store.faults.unheard()) == (0, 0)
        assert hf.queues.list() == [], "it comes back by itself"
        assert another_run.queues.list() == []
        assert (internals(hf).store.faults.unheard(), internals(another_run).store.faults.unheard()) == (1, 0)
        assert not internals(other).store.faults.fill(True)
        assert internals(other).store.faults.size() > 0


def test_which_faults_are_possible() -> None:
    assert {*OF_SQLITE, *OF_POSTGRES, *OF_SQS} == FAULTS.keys()
    assert possible("sqlite:///x.db", None) == [*OF_SQLITE]
    assert possible("postgresql://a@b/c", "true", "sqs") == [*OF_POSTGRES, *OF_SQS]
    assert {"restart", "cut"}.isdisjoint(possible("postgresql:///c", None))


@pytest.mark.parametrize(
    ("url", "place", "through"),
    [
        (
            "postgresql://a:b%40@db.example/c",
            ("db.example", 5432),
            "postgresql://a:b%40@db.example:9/c?hostaddr=127.0.0.1",
        ),
        (
            "postgresql://[::1]:7/c?sslmode=require",
            ("::1", 7),
            "postgresql://[::1]:9/c?sslmode=require&hostaddr=127.0.0.1",
        ),
        ("postgresql:///c", None, None),
        ("postgresql://a,b/c", None, None),
        ("postgresql:///c?host=x", None, None),
        ("sqlite:///x.db", None, None),
    ],
)
def test_a_server_through_a_proxy(url: str, place: tuple[str, int] | None, through: str | None) -> None:
    assert address.server(url) == place
    if through is not None:
        assert address.through(url, 9) == through
    assert address.named("sqlite:///x.db", "t", "one") == "sqlite:///x.db"


def test_the_proxy_carries_and_cuts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()

        def echo() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(100):
                    connection.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        proxy = ProxyProcess(f"postgresql://{host}:{port}/x")
        there = address.urlsplit(proxy.url).port
        assert there is not None
        try:
            for order, heard in (("cut", b"hello"), ("swallow", b"hello")):
                with socket.create_connection(("127.0.0.1", there), timeout=60) as client:
                    client.sendall(b"hello")
                    assert client.recv(100) == heard
                    proxy.tell(order)
                    assert ended(client)
        finally:
            proxy.close()
            listener.shutdown(socket.SHUT_RDWR)


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_a_chart() -> None:
    plan = TorturePlan(url="sqlite:///x.db", tenant="t", seed=3)
    gauge = Gauge(plan)
    assert "</svg>" in draw(gauge, plan)
    assert gauge.thirds() == {}
    gauge.readings = [SoakSample(float(at), 100.0, 40.0, 200.0, 2.0 * at, 4.0 if at else 0.0) for at in range(5)]
    drawn = draw(gauge, plan)
    assert drawn.count("<polyline") == 5
    assert ">40<" in drawn
    assert ">4.0<" in drawn
    assert (gauge.thirds()["lasting"], gauge.thirds()["database"]) == ((200.0, 200.0), (0.0, 8.0))
    assert "seed 3" in drawn


def test_the_time_after_a_fault() -> None:
    tale = life(Tale(), "m1")
    tale.events.append(HistoryEvent(tale.now, "nemesis", "fault", OK, note="kill: worker-1"))
    verdict = life(tale.wait(2_000_000), "m2").verdict()
    assert verdict.faults == {"kill": 1}
    assert 2.0 < verdict.silence["kill"] < 2.1
