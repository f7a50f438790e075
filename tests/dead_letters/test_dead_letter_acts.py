"""Dead letters in an operator's hands: chosen, counted, edited, replayed in bulk, deleted; and who did it."""

import time
from datetime import UTC, datetime

import pytest

from holdfast import AlreadyReplayed, Holdfast, InvalidInput, NotFound
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, kill

pytestmark = pytest.mark.of_queues

WAYS = pytest.mark.parametrize("delay", [0, 1], ids=["from a lane", "from a row"])


def die(hf: Holdfast, body: object, error: str, queue: str = "q", **options: object) -> str:
    hf.enqueue(queue, body, **options)
    [claim] = hf.claim(queue)
    claim.dead_letter(error)
    return hf.dead_letters.list(queue)[-1].id


@pytest.fixture
def graves(hf: Holdfast, clock: FakeClock) -> dict[str, str]:
    """Four deaths, a second apart."""
    ids = {}
    for body, error, key in (
        ("a", "SMTP 550: no such user", "ada"),
        ("b", "timeout after 30 s", "bob"),
        ("c", "SMTP 421: try later", "ada"),
    ):
        ids[body] = die(hf, body, error, key=key)
        clock.advance(1)
    ids["d"] = die(hf, "d", "SMTP 550", queue="other")
    return ids


def letters(hf: Holdfast, *args: str, **chosen: object) -> list[object]:
    found = [letter.message.body for letter in hf.dead_letters.list(*args, **chosen)]
    assert hf.dead_letters.count(*args, **chosen) == len(found)
    return found


def test_they_are_chosen_by_what_they_have_in_common(hf: Holdfast, clock: FakeClock, graves: dict[str, str]) -> None:
    start = clock() / 1_000_000 - 3
    assert letters(hf) == ["a", "b", "c", "d"]
    assert letters(hf, "q") == ["a", "b", "c"]
    assert letters(hf, error="SMTP") == ["a", "c", "d"]
    assert letters(hf, "q", error="SMTP 550") == ["a"]
    assert letters(hf, key="ada") == ["a", "c"]
    assert letters(hf, since=start + 1) == ["b", "c", "d"]
    assert letters(hf, before=start + 1) == ["a"]
    since = datetime.fromtimestamp(start + 2, UTC)
    assert letters(hf, "q", since=since, key="ada", error="421") == ["c"]
    assert letters(hf, error="%") == letters(hf, error="_MTP") == [], "a text, and no pattern"


@pytest.mark.parametrize(
    "wrong", [{"since": "yesterday"}, {"before": datetime(2026, 1, 1)}, {"error": "\ud800"}, {"key": 7}, {"since": -1}]
)
def test_a_choice_that_makes_no_sense_is_refused(hf: Holdfast, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        hf.dead_letters.list("q", **wrong)


def test_a_body_can_be_mended_before_it_is_replayed(hf: Holdfast) -> None:
    dead = kill(hf, {"to": "nobody"}, key="k", headers={"h": 1})
    hf.dead_letters.replay(dead, body={"to": "somebody"})
    claim = claim_one(hf)
    assert (claim.message.body, claim.message.key, claim.message.headers) == ({"to": "somebody"}, "k", {"h": 1})
    assert hf.dead_letters.list("q")[0].message.body == {"to": "nobody"}, "what died is kept as it was"


def test_a_body_may_become_null(hf: Holdfast) -> None:
    hf.dead_letters.replay(kill(hf, 1), body=None)
    assert claim_one(hf).message.body is None


def test_a_body_that_is_no_json_replays_nothing(hf: Holdfast) -> None:
    dead = kill(hf, 1)
    with pytest.raises(InvalidInput):
        hf.dead_letters.replay(dead, body=float("nan"))
    hf.dead_letters.replay(dead)


def test_many_are_replayed_at_once(hf: Holdfast, graves: dict[str, str]) -> None:
    hf.dead_letters.replay(graves["a"])
    assert hf.dead_letters.count("q", fresh=True) == 2
    assert hf.dead_letters.replay_many("q") == 2
    assert sorted(drain(hf)) == ["a", "b", "c"]
    assert hf.dead_letters.replay_many("q") == 0
    assert hf.dead_letters.replay_many(error="550") == 1
    assert drain(hf, "other") == ["d"]


def test_a_bulk_act_takes_many_pages_and_says_how_far_it_is(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(250))
    hf.dead_letter(hf.claim("q", n=250), "no")
    seen: list[tuple[int, int]] = []
    assert hf.dead_letters.replay_many("q", progress=lambda done, total: seen.append((done, total))) == 250
    assert seen == [(100, 250), (200, 250), (250, 250)]
    assert hf.dead_letters.delete_many("q", progress=lambda done, total: seen.append((done, total))) == 250
    assert seen[3:] == [(100, 250), (200, 250), (250, 250)]


def test_a_rate_spreads_them_over_time(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(6))
    hf.dead_letter(hf.claim("q", n=6), "no")
    moments: list[float] = []
    assert hf.dead_letters.replay_many("q", rate=20, progress=lambda *_: moments.append(time.monotonic())) == 6
    assert len(moments) == 3
    assert moments[-1] - moments[0] >= 0.2, "six at twenty a second, two at a time"


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), "fast", True])
def test_a_rate_that_makes_no_sense_is_refused(hf: Holdfast, rate: object) -> None:
    kill(hf)
    with pytest.raises(InvalidInput, match="rate"):
        hf.dead_letters.replay_many("q", rate=rate)


def test_what_dies_while_a_bulk_act_runs_is_left_alone(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(150))
    hf.dead_letter(hf.claim("q", n=150), "no")
    assert (
        hf.dead_letters.delete_many("q", progress=lambda done, _: kill(hf, f"late {done}") if done == 100 else None)
        == 150
    )
    assert letters(hf) == ["late 100"]


def test_deleted_letters_are_gone_for_good(hf: Holdfast, graves: dict[str, str]) -> None:
    assert hf.dead_letters.delete_many("q", key="ada") == 2
    assert letters(hf) == ["b", "d"]
    with pytest.raises(NotFound):
        hf.dead_letters.replay(graves["a"])
    assert hf.stats("q").dead == 1


def test_the_end_of_a_replay_whose_letter_is_gone_is_no_problem(hf: Holdfast) -> None:
    hf.dead_letters.replay(kill(hf))
    hf.dead_letters.delete_many("q")
    claim_one(hf).ack()
    assert hf.stats("q").pending == 0


def test_retention_is_counted_from_death(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", dead_retention="1d")
    hf.enqueue("q", "old")
    clock.advance(10 * 86_400)
    claim_one(hf).dead_letter("at last")
    clock.advance(86_399)
    hf.queues.sweep("q")
    assert letters(hf) == ["old"]
    clock.advance(1)
    assert hf.queues.sweep("q") == 1
    assert letters(hf) == []


def test_without_retention_they_stay(hf: Holdfast, clock: FakeClock) -> None:
    kill(hf)
    clock.advance(50 * 365 * 86_400)
    hf.queues.sweep("q")
    assert letters(hf) == ["doomed"]


@WAYS
def test_a_letter_knows_how_often_its_work_was_replayed(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.enqueue("q", "cursed", delay=delay)
    clock.advance(delay)
    for turn in range(3):
        claim_one(hf).dead_letter(f"death {turn}")
        newest = hf.dead_letters.list("q")[-1]
        assert newest.replays == turn
        hf.dead_letters.replay(newest.id)


def test_every_act_leaves_a_line(client: OpenClient, clock: FakeClock) -> None:
    hf = client(actor="grace@ops")
    hf.enqueue_many("q", range(3))
    hf.dead_letter(hf.claim("q", n=3), "boom")
    first = hf.dead_letters.list("q")[0].id
    hf.dead_letters.replay(first, body="mended")
    clock.advance(1)
    hf.dead_letters.replay_many("q", error="boom")
    client(actor="heidi").dead_letters.delete_many(key="nobody")
    client(actor="heidi").dead_letters.delete_many()
    lines = [(line.actor, line.act, line.queue, line.about, line.count, line.at_us) for line in hf.audit.list()]
    assert lines == [
        ("heidi", "delete", None, {}, 3, clock()),
        ("grace@ops", "replay", "q", {"queue": "q", "error": "boom", "fresh": True}, 2, clock()),
        ("grace@ops", "replay", "q", {"id": first, "edited": True}, 1, clock() - 1_000_000),
    ]
    newest = hf.audit.list(n=1)[0]
    assert [line.act for line in hf.audit.list(before=newest.id)] == ["replay", "replay"]


def test_a_refused_act_leaves_no_line(hf: Holdfast) -> None:
    dead = kill(hf)
    hf.dead_letters.replay(dead)
    with pytest.raises(AlreadyReplayed):
        hf.dead_letters.replay(dead)
    assert len(hf.audit.list()) == 1


def test_an_unnamed_actor_is_the_user_of_the_machine(hf: Holdfast) -> None:
    hf.dead_letters.replay(kill(hf))
    assert hf.audit.list()[0].actor == hf.actor
    assert "@" in hf.actor


def test_a_tenant_sees_and_touches_only_its_own(hf: Holdfast, client: OpenClient) -> None:
    kill(hf)
    acme = client(tenant="acme")
    assert (
        acme.dead_letters.count(),
        acme.dead_letters.replay_many(),
        acme.dead_letters.delete_many(),
        acme.audit.list(),
    ) == (0, 0, 0, [])
    assert hf.dead_letters.count() == 1
    assert bodies(hf.claim("q")) == []
