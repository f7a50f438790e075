"""Wrong tokens: an address has some for nothing, and then one in a while."""

from collections.abc import Iterator

import httpx
import pytest

from holdfast import Holdfast
from holdfast.server import token_throttle
from holdfast.server.app import ROUTERS
from holdfast.server.token_throttle import FREE, MOST_WAITING, PACE, Guesses, TooManyGuesses, network_of
from holdfast.server.tokens import Tokens, new_token
from tests.server.servers import Running, running

pytestmark = pytest.mark.above_the_stores

TEXT, TOKEN = new_token("ann", "admin")
OTHER, OTHER_TOKEN = new_token("bob", "read")
PATH = "/admin/queues"


class Now:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Now:
    return Now()


@pytest.fixture
def guesses(clock: Now) -> Guesses:
    return Guesses(clock)


def guess(guesses: Guesses, address: str = "192.0.2.1") -> float:
    """One wrong token; how long it had to wait."""
    waited = guesses.delay(address, b"wrong")
    guesses.wrong(address, b"wrong", waited)
    return waited


def exhaust(guesses: Guesses, address: str = "192.0.2.1") -> None:
    assert [guess(guesses, address) for _ in range(FREE)] == [0.0] * FREE


def test_some_are_free_and_then_each_costs_time(guesses: Guesses, clock: Now) -> None:
    exhaust(guesses)
    assert [guess(guesses) for _ in range(3)] == [PACE, 2 * PACE, 3 * PACE], "they wait behind each other"
    clock.now += 3 * PACE
    assert guess(guesses) == PACE
    clock.now += (FREE + 2) * PACE
    exhaust(guesses)


def test_no_more_than_so_many_wait(guesses: Guesses, clock: Now) -> None:
    exhaust(guesses)
    for _ in range(MOST_WAITING):
        guess(guesses)
    with pytest.raises(TooManyGuesses) as refused:
        guesses.delay("192.0.2.1", b"wrong")
    assert refused.value.seconds >= 1
    clock.now += refused.value.seconds
    assert guess(guesses) == MOST_WAITING * PACE


def test_a_right_token_waits_as_well_unless_it_was_right_before_from_there(guesses: Guesses) -> None:
    guesses.right("192.0.2.1", b"known", 0.0)
    exhaust(guesses)
    exhaust(guesses, "192.0.2.2")
    assert guesses.delay("192.0.2.1", b"known") == 0
    assert guesses.delay("192.0.2.2", b"known") == PACE, "it is not known from there"
    waited = guesses.delay("192.0.2.1", b"new")
    assert waited == PACE
    guesses.right("192.0.2.1", b"new", waited)
    assert guesses.delay("192.0.2.1", b"new") == 0
    assert guesses.delay("192.0.2.1", b"wrong") == PACE, "a right one costs nothing"


def test_a_token_that_is_over_is_known_no_longer(guesses: Guesses) -> None:
    guesses.right("192.0.2.1", b"known", 0.0)
    guesses.wrong("192.0.2.1", b"known", 0.0)
    for _ in range(FREE - 1):
        guess(guesses)
    assert guesses.delay("192.0.2.1", b"known") == PACE


def test_addresses_are_counted_apart(guesses: Guesses) -> None:
    exhaust(guesses, "192.0.2.1")
    exhaust(guesses, "192.0.2.2")
    exhaust(guesses, "2001:db8::1")
    exhaust(guesses, "2001:db8:0:1::1")
    assert guess(guesses, "2001:db8::2") == PACE, "64 bits of an address are one's own"
    assert guess(guesses, "::ffff:192.0.2.1") == PACE


def test_an_address_is_counted_by_its_network() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("testclient") == network_of("") == ""


def test_what_is_remembered_is_bounded(guesses: Guesses, clock: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_throttle, "MOST_ADDRESSES", 100)
    monkeypatch.setattr(token_throttle, "MOST_KNOWN", 100)
    for number in range(1000):
        guess(guesses, f"10.0.{number // 256}.{number % 256}")
        guesses.right("192.0.2.1", b"%d" % number, 0.0)
    assert len(guesses._until) == len(guesses._known) == 100
    clock.now += 2 * PACE
    guess(guesses)
    assert len(guesses._until) == 1, "the others are over"


# --- a server ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(hf: Holdfast) -> Iterator[Running]:
    with running(hf, routers=ROUTERS, tokens=Tokens([TOKEN, OTHER_TOKEN]), proxies=["127.0.0.1"]) as found:
        yield found


def headers(token: str | None, sender: str = "192.0.2.1") -> dict[str, str]:
    return {"x-forwarded-for": sender} | ({} if token is None else {"authorization": f"Bearer {token}"})


def ask(server: Running, token: str | None, sender: str = "192.0.2.1") -> httpx.Response:
    return server.http.get(PATH, headers=headers(token, sender))


def test_repeated_401s_of_an_address_take_their_time(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_throttle, "PACE", 1000.0)
    for number in range(FREE):
        assert ask(server, f"wrong-{number}").status_code == 401
    with pytest.raises(httpx.ReadTimeout):
        server.http.get(PATH, headers=headers("wrong-again"), timeout=httpx.Timeout(60, read=1))
    assert ask(server, OTHER, "192.0.2.2").status_code == 200, "another address"
    server.server.stop_now()  # A stop that is patient waits for what is under way.


def test_who_guesses_is_refused_unseen_and_others_are_not_locked_out(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(server, TEXT).status_code == 200
    monkeypatch.setattr(token_throttle, "PACE", 1000.0)
    monkeypatch.setattr(token_throttle, "MOST_WAITING", 0)
    for number in range(FREE):
        assert ask(server, f"wrong-{number}").status_code == 401
    for token in ("wrong-again", OTHER):
        refused = ask(server, token)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many")
        assert int(refused.headers["retry-after"]) > 0
    assert ask(server, TEXT).status_code == 200, "it was right from there before"
    assert ask(server, OTHER, "192.0.2.2").status_code == 200, "another address"
    assert ask(server, None).status_code == 401, "no token is no guess"
    assert server.http.get("/health", headers={"x-forwarded-for": "192.0.2.1"}).status_code == 200


def test_requests_without_a_token_are_no_guesses(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_throttle, "PACE", 1000.0)
    monkeypatch.setattr(token_throttle, "MOST_WAITING", 0)
    for _ in range(3 * FREE):
        assert ask(server, None).status_code == 401
    assert ask(server, OTHER).status_code == 200
