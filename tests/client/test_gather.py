"""Group commit, with real threads."""

import threading
from collections.abc import Callable, Sequence

import pytest

from holdfast import InvalidInput, Unavailable
from holdfast.client.group_commit import Gather
from holdfast.store.patience import is_again

pytestmark = pytest.mark.unit

PATIENCE = 10


class Apply:
    """A verb of a store that can be held up, remembers its calls and refuses what it is told to."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.threads: list[int] = []
        self.started = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.refuse: Callable[[Sequence[int]], None] = lambda items: None

    def __call__(self, items: Sequence[int]) -> list[str]:
        self.calls.append(list(items))
        self.threads.append(threading.get_ident())
        self.started.set()
        assert self.may_go_on.wait(PATIENCE)
        self.refuse(items)
        return [f"did {item}" for item in items]


class Caller(threading.Thread):
    """One `gather.call` in a thread of its own."""

    def __init__(self, gather: Gather[int, str], items: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.gather, self.items = gather, items
        self.answers: list[str] | None = None
        self.problem: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answers = self.gather.call(self.items)
        except BaseException as problem:
            self.problem = problem

    def outcome(self) -> list[str] | BaseException | None:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.problem or self.answers


@pytest.fixture
def apply() -> Apply:
    return Apply()


@pytest.fixture
def gather(apply: Apply) -> Gather[int, str]:
    return Gather(apply)


def all_waiting_behind_the_first(
    gather: Gather[int, str], apply: Apply, *calls: Sequence[int]
) -> tuple[Caller, list[Caller]]:
    """The first call is inside `apply` while the others have put their items on the list, in order; then all go on."""
    apply.may_go_on.clear()
    first = Caller(gather, [0])
    assert apply.started.wait(PATIENCE)
    others = []
    for items in calls:
        others.append(Caller(gather, items))
        wait_until(lambda: len(gather._waiting) == len(others))
    apply.may_go_on.set()
    return first, others


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE * 1000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never happened")


def test_a_lone_call_runs_in_the_thread_of_its_caller(gather: Gather[int, str], apply: Apply) -> None:
    assert gather.call([1, 2]) == ["did 1", "did 2"]
    assert apply.threads == [threading.get_ident()]


def test_lone_calls_are_not_merged(gather: Gather[int, str], apply: Apply) -> None:
    gather.call([1])
    gather.call([2])
    assert apply.calls == [[1], [2]]


def test_calls_that_wait_at_the_same_time_share_one_apply(gather: Gather[int, str], apply: Apply) -> None:
    first, others = all_waiting_behind_the_first(gather, apply, *([number] for number in range(1, 21)))
    assert first.outcome() == ["did 0"]
    assert [caller.outcome() for caller in others] == [[f"did {number}"] for number in range(1, 21)]
    assert apply.calls == [[0], list(range(1, 21))]


def test_everyone_gets_the_answers_to_its_own_items_in_its_own_order(gather: Gather[int, str], apply: Apply) -> None:
    _, others = all_waiting_behind_the_first(gather, apply, [3, 1, 2], [], [9, 8], [7])
    assert [caller.outcome() for caller in others] == [
        ["did 3", "did 1", "did 2"],
        [],
        ["did 9", "did 8"],
        ["did 7"],
    ]
    assert apply.calls == [[0], [3, 1, 2, 9, 8, 7]]


def test_one_bad_call_does_not_fail_the_others(gather: Gather[int, str], apply: Apply) -> None:
    def refuse(items: Sequence[int]) -> None:
        if 13 in items:
            raise InvalidInput("thirteen")

    apply.refuse = refuse
    _, [before, bad, after] = all_waiting_behind_the_first(gather, apply, [1], [12, 13], [2])
    assert before.outcome() == ["did 1"]
    assert isinstance(bad.outcome(), InvalidInput)
    assert after.outcome() == ["did 2"]


def test_a_database_that_is_away_fails_everyone_after_one_try(gather: Gather[int, str], apply: Apply) -> None:
    def refuse(items: Sequence[int]) -> None:
        if 0 not in items:
            raise Unavailable

    apply.refuse = refuse
    first, others = all_waiting_behind_the_first(gather, apply, [1], [2], [3])
    assert first.outcome() == ["did 0"]
    assert [type(caller.outcome()) for caller in others] == [Unavailable] * 3
    assert apply.calls == [[0], [1, 2, 3]]


def test_a_failing_first_call_does_not_touch_those_behind_it(gather: Gather[int, str], apply: Apply) -> None:
    def refuse(items: Sequence[int]) -> None:
        if 0 in items:
            raise Unavailable

    apply.refuse = refuse
    first, [second] = all_waiting_behind_the_first(gather, apply, [1])
    assert isinstance(first.outcome(), Unavailable)
    assert second.outcome() == ["did 1"]


def test_the_gather_works_on_after_a_failure(gather: Gather[int, str], apply: Apply) -> None:
    def refuse(items: Sequence[int]) -> None:
        raise InvalidInput("no")

    apply.refuse = refuse
    with pytest.raises(InvalidInput):
        gather.call([1])
    apply.refuse = lambda items: None
    assert gather.call([2]) == ["did 2"]


def test_a_shared_transaction_has_a_limit(
    gather: Gather[int, str], apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.group_commit.MOST_AT_ONCE", 3)
    _, others = all_waiting_behind_the_first(gather, apply, [1, 2], [3], [4], [5, 6, 7, 8], [9])
    assert [caller.outcome() for caller in others] == [
        ["did 1", "did 2"],
        ["did 3"],
        ["did 4"],
        ["did 5", "did 6", "did 7", "did 8"],
        ["did 9"],
    ]
    assert apply.calls == [[0], [1, 2, 3], [4], [5, 6, 7, 8], [9]]


def test_several_calls_at_once_get_an_answer_or_a_problem_each(gather: Gather[int, str], apply: Apply) -> None:
    def refuse(items: Sequence[int]) -> None:
        if 13 in items:
            raise InvalidInput("thirteen")

    apply.refuse = refuse
    good, bad, empty = gather.call_each([[1, 2], [13], []])
    assert good == ["did 1", "did 2"]
    assert isinstance(bad, InvalidInput)
    assert empty == []


def test_hundreds_of_threads_each_get_their_own_answer(gather: Gather[int, str], apply: Apply) -> None:
    callers = [Caller(gather, [number, -number]) for number in range(1, 301)]
    assert [caller.outcome() for caller in callers] == [[f"did {n}", f"did {-n}"] for n in range(1, 301)]
    assert sorted(item for call in apply.calls for item in call) == sorted([*range(-300, 0), *range(1, 301)])


def test_a_call_does_not_wait_in_line_for_longer_than_its_patience(apply: Apply) -> None:
    gather = Gather(apply, patience=0.05)
    apply.may_go_on.clear()
    first = Caller(gather, [0])
    assert apply.started.wait(PATIENCE)
    waiting = Caller(gather, [1])
    assert isinstance(waiting.outcome(), Unavailable), "while the first is still under way"
    apply.may_go_on.set()
    assert first.outcome() == ["did 0"]
    assert apply.calls == [[0]]


def test_the_end_of_one_call_s_patience_is_not_that_of_the_others(apply: Apply) -> None:
    """Who was served together with one who had waited for longer is served again, and the store hears of that."""
    gather, again = Gather(apply, patience=3600.0), list[bool]()

    def refuse(items: Sequence[int]) -> None:
        again.append(is_again())
        if 1 in items:
            raise Unavailable

    apply.refuse = refuse
    apply.may_go_on.clear()
    first = Caller(gather, [0])
    assert apply.started.wait(PATIENCE)
    old = Caller(gather, [1])
    wait_until(lambda: len(gather._waiting) == 1)
    young = Caller(gather, [2])
    wait_until(lambda: len(gather._waiting) == 2)
    gather._waiting[0].since -= 3600.0
    apply.may_go_on.set()
    assert first.outcome() == ["did 0"]
    assert isinstance(old.outcome(), Unavailable)
    assert young.outcome() == ["did 2"]
    assert (apply.calls, again) == ([[0], [1, 2], [2]], [False, False, True])
