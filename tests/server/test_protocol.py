"""H3, H4, H5: too much, too slow, and requests that two readers could understand in two ways. On raw sockets."""

import contextlib
import gzip
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator

import httpx
import msgspec
import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidInput
from holdfast.server.limits import ServerLimits
from holdfast.server.protocol.request_head import Request, RequestRefused
from tests.server.servers import Running, everything, hook, running, sign
from tests.waiting import eventually, leave_time

pytestmark = pytest.mark.above_the_stores

LIMITS = ServerLimits(
    headers=20,
    header_bytes=8_000,
    body_bytes=100_000,
    header_seconds=60,
    body_seconds=60,
    idle_seconds=60,
    connections=60,
)
SHORT = msgspec.structs.replace(LIMITS, header_seconds=0.5, body_seconds=0.7)
"""For tests whose senders are too slow. All others may take their time, however slow the machine is."""


@pytest.fixture(scope="module")
def shared(shared_hf: Holdfast) -> Iterator[Running]:
    with running(shared_hf, hook(max_size=50_000, accept_replays=True), limits=LIMITS) as found:
        yield found


@pytest.fixture
def server(shared: Running) -> Iterator[Running]:
    yield shared
    assert shared.post("orders").status_code == 202, "the server is well"
    shared.hf.queue("orders")
    shared.hf.queues.purge("orders")


@pytest.fixture
def impatient(hf: Holdfast) -> Iterator[Running]:
    with running(hf, hook(max_size=50_000, accept_replays=True), limits=SHORT) as found:
        yield found


def request(body: bytes = b"{}", *more: bytes, length: int | None = None) -> bytes:
    lines = [
        b"POST /hook/orders HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/json",
        b"X-Signature: " + sign(body).encode(),
        *([] if length == -1 else [b"Content-Length: %d" % (len(body) if length is None else length)]),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body: bytes, size: bytes | None = None, end: bytes = b"\r\n0\r\n\r\n") -> bytes:
    head = request(body, b"Transfer-Encoding: chunked", length=-1).removesuffix(body)
    return head + (b"%x" % len(body) if size is None else size) + b"\r\n" + body + end


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer[9:12])


def pending(server: Running) -> int:
    server.hf.queue("orders")
    return server.hf.stats("orders").pending


# --- H3: too much -----------------------------------------------------------------------------------------------------


def test_h3_a_declared_length_above_the_limit_is_413_before_anything_is_sent(server: Running) -> None:
    for length in (50_001, 100_001, 10**9, 10**18):
        with server.connect() as connection:
            connection.sendall(request(length=length).removesuffix(b"{}"))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_h3_the_servers_limit_holds_on_every_path(server: Running) -> None:
    answer = server.raw(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n")
    assert status(answer) == 413


def test_h3_an_endless_body_without_a_length_is_413_and_memory_stays_flat(server: Running) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent = 0
    with server.connect() as connection:
        connection.sendall(request(b"", b"Transfer-Encoding: chunked", length=-1))
        piece = b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n"
        try:
            while sent < 1 << 30:
                connection.sendall(piece)
                sent += 65_536
        except OSError:
            pass
    assert sent < 1 << 28, "it was hung up on long before"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_h3_the_answer_to_a_body_that_is_too_long_can_be_read(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(request(b"x" * 60_000))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
    assert status(server.raw(chunked(b"x" * 200_000))) == 413


def test_h3_what_was_answered_is_not_answered_again(server: Running, hf: Holdfast) -> None:
    limits = msgspec.structs.replace(LIMITS, body_seconds=2)
    with running(hf, hook(max_size=50_000), limits=limits) as other, other.connect() as connection:
        connection.sendall(request(b"", length=60_000))
        answer = connection.recv(65_536)
        assert status(answer) == 413
        assert everything(connection) == b"", "the rest never came, and that is no second answer"
    with server.connect() as connection:
        connection.sendall(request(b"", b"Transfer-Encoding: chunked", length=-1))
        for _ in range(2):
            with contextlib.suppress(OSError):  # It does not listen for long behind an answer.
                connection.sendall(b"%x\r\n" % 60_000 + b"x" * 60_000 + b"\r\n")
                answer = connection.recv(65_536) or answer
        assert answer.count(b"HTTP/1.1") == 1
        assert b"HTTP" not in everything(connection)


def test_h3_a_body_of_a_byte_a_time_is_408_at_the_deadline(impatient: Running) -> None:
    answer = drip(impatient, request(b"", length=100), b" ")
    assert status(answer) == 408
    assert b'"timeout"' in answer


def drip(server: Running, begin: bytes, piece: bytes, before: bytes = b"") -> bytes:
    """Sends a beginning, perhaps behind a whole delivery, and a piece now and then until there is an answer."""

    def answer() -> bytes:
        with server.connect() as connection:
            with contextlib.suppress(ConnectionError):
                if before:
                    connection.sendall(before)
                    assert connection.recv(65_536)[:13] in (b"HTTP/1.1 202 ", b"")
                connection.sendall(begin)
            return until_answered(connection, piece)

    found: bytes = eventually(answer, "an answer: who does not even begin in time gets none")
    return found


def until_answered(connection: socket.socket, piece: bytes) -> bytes:
    connection.settimeout(0.05)
    for _ in range(2_000):
        with contextlib.suppress(OSError):  # It may be closed by now, and its answer can be read all the same.
            connection.sendall(piece)
        try:
            return connection.recv(65_536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
    raise AssertionError("never answered")


def test_h3_too_many_headers_are_431(server: Running) -> None:
    assert status(server.raw(request(b"{}", *(b"X-%d: 1" % n for n in range(30))))) == 431
    assert status(server.raw(request(b"{}", *(b"X-%d: 1" % n for n in range(10_000))))) == 431


def test_h3_headers_that_are_too_long_are_431(server: Running) -> None:
    assert status(server.raw(request(b"{}", b"X-Long: " + b"x" * 9_000))) == 431
    assert status(server.raw(b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 431
    assert status(server.raw(b"GET / HTTP/1.1\r\nX-Endless: " + b"x" * 300_000)) == 431
    assert status(server.raw(b"GET /" + b"x" * 300_000)) == 431


def test_h3_a_gzip_bomb_is_never_unpacked(server: Running) -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    answer = server.raw(request(bomb, b"Content-Encoding: gzip", b"Connection: close"))
    assert status(answer) == 415


def trailing(*trailers: bytes) -> bytes:
    """A delivery in chunks, up to its last byte but one line end."""
    return chunked(b"{}", end=b"\r\n0\r\n" + b"".join(b"%b\r\n" % trailer for trailer in trailers))


def refused(server: Running, begin: bytes, piece: bytes) -> int:
    """Sends up to four megabytes, and says how they were answered. In the end the connection is closed."""
    with server.connect() as connection:
        connection.sendall(begin)
        try:
            for _ in range(4_000_000 // len(piece)):
                connection.sendall(piece)
        except OSError:
            pass
        return status(everything(connection) or b"HTTP/1.1 000 ")


ENDLESS = {
    "trailers": (trailing(), b"X-Trailer: " + b"x" * 1_000 + b"\r\n", 431),
    "one trailer": (trailing() + b"X-Trailer: ", b"x" * 1_000, 431),
    "short trailers": (trailing(), b"X:\r\n" * 10, 431),
    "an extension": (chunked(b"").partition(b"\r\n\r\n")[0] + b"\r\n\r\n1;", b"x" * 1_000, 413),
    "extensions": (chunked(b"").partition(b"\r\n\r\n")[0] + b"\r\n\r\n", b"1;" + b"x" * 200 + b"\r\n \r\n", 413),
    "tiny chunks": (chunked(b"").partition(b"\r\n\r\n")[0] + b"\r\n\r\n", b"1\r\n \r\n" * 100, 413),
    "zeros of a size": (chunked(b"").partition(b"\r\n\r\n")[0] + b"\r\n\r\n", b"0" * 1_000, 400),
    "empty lines": (b"\r\n", b"\r\n" * 1_000, 400),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_h3_every_byte_is_counted_whatever_it_stands_for(server: Running, name: str) -> None:
    begin, piece, expected = ENDLESS[name]
    size = 2 * LIMITS.header_bytes
    with server.connect() as connection:
        connection.sendall(begin + piece * (size // len(piece)))
        assert status(connection.recv(65_536)) == expected, "twice the headers' limit is enough"
    assert refused(server, begin, piece) in (expected, 0), "the answer may be lost on the way; the connection is closed"


def test_h3_too_many_trailers_are_431(server: Running) -> None:
    some = [b"X-%d: 1" % n for n in range(LIMITS.headers)]
    assert status(server.raw(trailing(*some, b"Y: 1") + b"\r\n")) == 431
    answer = server.raw(trailing(*some) + b"\r\n" + request(b"{}", b"Connection: close"))
    assert answer.count(b"HTTP/1.1 202 ") == 2


def test_h3_chunks_with_extensions_and_trailers_are_read_however_they_are_cut(server: Running) -> None:
    whole = chunked(b'{"n":', b"5;name=value;other", b"\r\n2\r\n1}\r\n0;end\r\nX-Trailer: y\r\n\r\n").replace(
        sign(b'{"n":').encode(), sign(b'{"n":1}').encode()
    )
    head = whole.index(b"\r\n\r\n") + 4
    for cut in range(head, len(whole), 3):
        with server.connect() as connection:
            connection.sendall(whole[:cut])
            leave_time(0.005)  # Most likely the server reads the two parts apart.
            connection.sendall(whole[cut:])
            assert status(connection.recv(65_536)) == 202
    bodies = [claim.message.body for claim in server.hf.claim("orders", n=500)]
    assert len(bodies) == len(range(head, len(whole), 3))
    assert all(body["payload"] == {"n": 1} for body in bodies)
    assert not any("x-trailer" in body["headers"] for body in bodies)


# --- H4: too slow, or gone --------------------------------------------------------------------------------------------


def test_h4_slowloris_headers_that_never_end_are_408(impatient: Running) -> None:
    begin = b"POST /hook/orders HTTP/1.1\r\nHost: localhost\r\n"
    assert status(drip(impatient, begin, b"X-A: b\r\n")) == 408


@pytest.mark.parametrize("begin", [b"POST /hook/orders HTTP/1.1\r\nX-A: ", request(b"", length=100)])
def test_h4_a_connection_that_was_good_once_has_deadlines_too(impatient: Running, begin: bytes) -> None:
    assert status(drip(impatient, begin, b"x", before=request())) == 408


def test_h4_idle_connections_are_closed_and_others_are_served(impatient: Running) -> None:
    idle = [impatient.connect() for _ in range(40)]
    eventually(lambda: is_served(impatient), "another one, who begins in time")
    assert all(everything(connection) == b"" for connection in idle)
    for connection in idle:
        connection.close()


def is_served(server: Running) -> bool:
    try:
        return server.post("orders").status_code == 202
    except httpx.TransportError:
        return False


def test_h4_above_the_number_of_connections_it_is_503_and_room_comes_back(server: Running) -> None:
    held = [server.connect() for _ in range(LIMITS.connections + 10)]
    refused: list[socket.socket] = eventually(lambda: at_least(10, held), "those above the limit are answered")
    answers = [connection.recv(65_536) for connection in refused]
    assert all(status(answer) == 503 and b"retry-after" in answer for answer in answers)
    for connection in held:
        connection.close()
    eventually(lambda: not server.server._http.state.connections, "all connections are closed")


def at_least(count: int, connections: list[socket.socket]) -> list[socket.socket]:
    """Those that there is something to read from, if they are so many."""
    readable = select.select(connections, [], [], 0)[0]
    return readable if len(readable) >= count else []


def test_h4_who_hangs_up_in_the_middle_leaves_nothing(server: Running) -> None:
    whole = request(b'{"n": 1}')
    for end in range(0, len(whole), 7):
        with server.connect() as connection:
            connection.sendall(whole[:end])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert pending(server) == 0
    eventually(lambda: not server.server._http.state.connections, "all connections are closed")
    eventually(lambda: not server.server._http.state.tasks, "nothing is at work")


def test_h4_who_resets_during_the_enqueue_leaves_all_or_nothing(server: Running) -> None:
    def send() -> None:
        with server.connect() as connection:
            connection.sendall(request(b'{"n": 1}'))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    threads = [threading.Thread(target=send) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.post("orders", '{"n": 1}').status_code == 202
    assert all(claim.message.body["payload"] == {"n": 1} for claim in server.hf.claim("orders", n=100))


# --- H5: one request or two? ------------------------------------------------------------------------------------------

INNER = request(b'{"smuggled": 1}')
SMUGGLING = {
    "length and chunks": request(b"0\r\n\r\n" + INNER, b"Transfer-Encoding: chunked", length=5),
    "chunks and length": chunked(b"{}").replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n", 1) + INNER,
    "two lengths": request(b"{}", b"Content-Length: 200") + INNER,
    "two equal lengths": request(b"{}", b"Content-Length: 2") + INNER,
    "a list of lengths": request(b"{}" + INNER).replace(b"Content-Length: ", b"Content-Length: 2, "),
    "a signed length": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: +2") + INNER,
    "a negative length": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: -2") + INNER,
    "a length in hex": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: 0x2") + INNER,
    "a huge length": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: 99999999999999999999999") + INNER,
    "a length with many zeros": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: " + b"0" * 5_000)
    + INNER,
    "a length hidden by zeros": request(b"{}").replace(b"Content-Length: 2", b"Content-Length: %022d" % 10**9) + INNER,
    "a bare CR": request(b"{}").replace(b"Host: localhost\r\n", b"Host: localhost\rX: y\r\n") + INNER,
    "a bare LF": request(b"{}").replace(b"Host: localhost\r\n", b"Host: localhost\nX: y\n") + INNER,
    "a folded header": request(b"{}", b"X-A: b\r\n c: d") + INNER,
    "a space before the colon": request(b"{}", b"X-A : b") + INNER,
    "a space in the length": request(b"{}").replace(b"Content-Length: 2", b"Content-Length : 2") + INNER,
    "a NUL": request(b"{}", b"X-A: b\x00c") + INNER,
    "an unknown coding": request(b"{}", b"Transfer-Encoding: xchunked", length=-1) + INNER,
    "two codings": request(b"{}", b"Transfer-Encoding: chunked, identity", length=-1) + INNER,
    "a bad chunk size": chunked(b"{}", b"2x") + INNER,
    "a chunk size with a sign": chunked(b"{}", b"+2") + INNER,
    "a huge chunk size": chunked(b"{}", b"ffffffffffffffffff") + INNER,
    "a bad end of a chunk": chunked(b"{}", end=b"xx0\r\n\r\n") + INNER,
    "a chunk that ends in LF": chunked(b"{}", end=b"\n0\n\n") + INNER,
    "an upgrade": request(b"{}", b"Upgrade: h2c", b"Connection: Upgrade") + INNER,
    "connect": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + INNER,
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "http/0.9": b"GET /\r\n" + INNER,
    "no method": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + INNER,
    "a name with a space": request(b"{}", b"X A: b") + INNER,
    "two spaces in the first line": request(b"{}").replace(b"POST /", b"POST  /") + INNER,
    "another protocol": request(b"{}").replace(b"HTTP/1.1", b"RTSP/1.0", 1) + INNER,
    "no http": request(b"{}").replace(b" HTTP/1.1", b" http/1.1", 1) + INNER,
    "http/0.9 by name": request(b"{}").replace(b"HTTP/1.1", b"HTTP/0.9", 1) + INNER,
    "http/2.0 by name": request(b"{}").replace(b"HTTP/1.1", b"HTTP/2.0", 1) + INNER,
    "http/1.2": request(b"{}").replace(b"HTTP/1.1", b"HTTP/1.2", 1) + INNER,
    "http/3.0": request(b"{}").replace(b"HTTP/1.1", b"HTTP/3.0", 1) + INNER,
    "a coding before chunks": chunked(b"{}").replace(b": chunked", b": gzip, chunked") + INNER,
    "a coding in a header of its own": chunked(b"{}").replace(b"Tr", b"Transfer-Encoding: gzip\r\nTr", 1) + INNER,
    "only another coding": chunked(b"{}").replace(b": chunked", b": gzip") + INNER,
    "chunks twice": chunked(b"{}").replace(b": chunked", b": chunked, chunked") + INNER,
    "chunks in http/1.0": chunked(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0", 1) + INNER,
    "a trailer that ends in LF": chunked(b"{}", end=b"\r\n0\r\nX: y\n\r\n") + INNER,
    "a trailer without a colon": chunked(b"{}", end=b"\r\n0\r\nGET / HTTP/1.1\r\n\r\n") + INNER,
    "an extension with a bare CR": chunked(b"{}", b"2;a=\rb") + INNER,
    "an extension that ends in LF": chunked(b"{}", b"2;a=b\n") + INNER,
    "a relative path": request(b"{}").replace(b" /hook", b" hook", 1) + INNER,
    "an address of another kind": request(b"{}").replace(b" /hook", b" ftp://localhost/hook", 1) + INNER,
    "a user in the address": request(b"{}").replace(b" /hook", b" http://a@localhost/hook", 1) + INNER,
}

CODINGS_AND_VERSIONS = {
    "http/2": 505,
    "http/0.9": 505,
    "http/0.9 by name": 505,
    "http/2.0 by name": 505,
    "http/1.2": 505,
    "http/3.0": 505,
    "a coding before chunks": 501,
    "a coding in a header of its own": 501,
    "only another coding": 400,
    "chunks twice": 400,
    "chunks in http/1.0": 400,
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_h5_what_can_be_read_in_two_ways_is_400_and_the_end(server: Running, name: str) -> None:
    answer = server.raw(SMUGGLING[name])
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert status(answer) == CODINGS_AND_VERSIONS.get(name, status(answer)), answer
    assert status(answer) in (400, 413, 501, 505), answer
    assert b"connection: close" in answer.lower()
    assert not [claim for claim in server.hf.claim("orders", n=9) if "smuggled" in str(claim.message.body)]


def test_h5_what_is_right_is_one_message_each(server: Running) -> None:
    answer = server.raw(request(b"1") + chunked(b"2") + request(b"3", b"Connection: close"))
    assert answer.count(b"HTTP/1.1 202 ") == 3
    assert [claim.message.body["payload"] for claim in server.hf.claim("orders", n=9)] == [1, 2, 3]


def refusal_of(head: bytes, cut: int) -> int | None:
    """How a head is refused that comes in two pieces."""
    request = Request()
    try:
        for begin, end in ((0, cut), (cut, len(head))):
            line = head[:end].partition(b"\r\n")[0]
            request.feed(head[begin:end], line)
        request.finish(line, LIMITS)
    except RequestRefused as problem:
        return problem.status
    return None


@pytest.mark.parametrize("line", [b"GET / HTTP/2.0", b"GET / HTTP/0.9", b"GET / HTTP/1.2", b"GET /"])
def test_h5_another_version_is_505_however_it_is_cut(line: bytes) -> None:
    data = line + b"\r\nHost: localhost\r\n\r\n"
    for cut in range(1, len(data)):
        assert refusal_of(data, cut) == 505, cut
        assert refusal_of(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", cut) is None


def test_h5_garbage_behind_a_request_does_not_take_its_answer(server: Running) -> None:
    answer = server.raw(request(b"1") + b"GARBAGE\x00\r\n\r\n")
    assert status(answer) == 202
    assert pending(server) == 1


def test_h5_a_signature_in_a_trailer_is_none(server: Running) -> None:
    signature = b"X-Signature: " + sign(b"{}").encode()
    unsigned = chunked(b"{}", end=b"\r\n0\r\n" + signature + b"\r\n\r\n").replace(signature + b"\r\n", b"", 1)
    assert unsigned.count(signature) == 1
    with server.connect() as connection:  # In one piece,
        connection.sendall(unsigned)
        assert status(connection.recv(65_536)) == 401
    with server.connect() as connection:  # and with the trailer apart.
        head, _, end = unsigned.partition(b"0\r\n" + signature)
        connection.sendall(head)
        leave_time(0.05)  # Most likely the server reads the two parts apart.
        connection.sendall(b"0\r\n" + signature + end)
        assert status(connection.recv(65_536)) == 401
    assert pending(server) == 0


@pytest.mark.parametrize("name", ["headers", "header_bytes", "body_bytes", "header_seconds", "connections"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        ServerLimits(**{name: 0})
