"""Asking and answering over processes, which are killed in the middle."""

from collections.abc import Callable

import pytest

from holdfast import Holdfast, State
from tests.acceptance.children import Family
from tests.waiting import eventually

on_both = pytest.mark.parametrize("url", ["sqlite-apsw", "postgres"], indirect=True)


@on_both
def test_an_answerer_is_killed_in_the_middle_and_the_next_one_answers(
    family: Family, url: str, connect: Callable[..., Holdfast]
) -> None:
    hf = connect(url)
    hf.queue("q", lease=1, backoff=None)
    asker, first = family.start("asker", url=url, queue="q"), family.start("answerer", url=url, queue="q")
    asker.say("ask", body="slow")
    assert first.hear() == ["slow", 1]
    first.kill()
    second = family.start("answerer", url=url, queue="q")
    assert second.hear() == ["slow", 2]
    answer = asker.hear()
    assert (answer["asked"], answer["attempt"], answer["by"]) == ("slow", 2, second.pid)
    assert asker.ask("ask", body="more")["asked"] == "more"
    assert hf.queues.list() == ["q"]


@on_both
def test_two_askers_threads_and_a_forked_child_get_their_own_answers(
    family: Family, url: str, connect: Callable[..., Holdfast]
) -> None:
    askers = [family.start("asker", url=url, queue="q") for _ in range(2)]
    family.start("answerer", url=url, queue="q")
    for asker in askers:
        asker.say("ask_many", count=100)
    for asker in askers:
        assert [answer["asked"] for answer in asker.hear()] == list(range(100))
    for asker in askers:
        asker.say("fork", body=[asker.pid])
    of_children = [asker.hear() for asker in askers]
    assert [answer["asked"] for answer in of_children] == [[asker.pid] for asker in askers]
    own = [asker.ask("ask", body=asker.pid) for asker in askers]
    assert [answer["asked"] for answer in own] == [asker.pid for asker in askers]
    assert len({answer["at"] for answer in [*own, *of_children]}) == 4, "a reply queue for each process"


@on_both
def test_an_answer_to_a_killed_asker_harms_nobody(family: Family, url: str, connect: Callable[..., Holdfast]) -> None:
    hf = connect(url)
    hf.queue("q")
    asker, answerer = family.start("asker", url=url, queue="q"), family.start("answerer", url=url, queue="q")
    asker.say("ask", body="late", headers={"test": 1})
    assert answerer.hear() == ["late", 1]
    asker.kill()
    [sent] = hf.messages.search("q", headers={"test": 1})
    eventually(lambda: hf.status(sent.id).state is State.SUCCEEDED, "it was answered")  # type: ignore[union-attr]
    assert hf.dead_letters.count() == 0
