"""Attachments: changed while consumers run, kept for those that start later, and heard at once by those that sleep."""

from __future__ import annotations

import threading

import pytest

from holdfast import Attachment, Holdfast, UnknownQueue
from holdfast.client.client import internals
from holdfast.consumers.rules import attached
from holdfast.consumers.steps.consumers import CREW
from tests.clock import FakeClock
from tests.steps import OpenClient, listening

pytestmark = pytest.mark.of_queues


def test_changes_are_kept_and_seen_by_others(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.consumers.attach("mailer", "sms", weight=2, empty="terminate")
    clock.advance(1)
    hf.consumers.detach("mailer", "emails")
    hf.consumers.attach("printer", "letters")
    sms = Attachment("mailer", "sms", True, 2.0, "terminate", clock() - 1_000_000)
    emails = Attachment("mailer", "emails", False, None, None, clock())
    letters = Attachment("printer", "letters", True, None, None, clock())
    assert rival.consumers.attachments() == [emails, sms, letters]
    assert rival.consumers.attachments("mailer") == [emails, sms]
    assert rival.consumers.attachments("nobody") == []


def test_what_an_attach_does_not_say_stays(hf: Holdfast) -> None:
    hf.consumers.attach("mailer", "q", weight=3)
    hf.consumers.attach("mailer", "q", empty="hibernate")
    hf.consumers.attach("mailer", "q")
    [found] = hf.consumers.attachments()
    assert (found.attached, found.weight, found.empty) == (True, 3, "hibernate")
    hf.consumers.attach("mailer", "q", weight=0.5, empty="poll")
    [found] = hf.consumers.attachments()
    assert (found.weight, found.empty) == (0.5, "poll")


def test_a_detach_forgets_what_an_attach_said(hf: Holdfast) -> None:
    hf.consumers.attach("mailer", "q", weight=3, empty="poll")
    hf.consumers.detach("mailer", "q")
    hf.consumers.detach("mailer", "q")
    [found] = hf.consumers.attachments()
    assert (found.attached, found.weight, found.empty) == (False, None, None)
    hf.consumers.attach("mailer", "q")
    [found] = hf.consumers.attachments()
    assert (found.attached, found.weight, found.empty) == (True, None, None)


def test_a_consumers_queues_are_its_codes_and_the_changes(hf: Holdfast, rival: Holdfast) -> None:
    declared = [Attachment("mailer", "emails", weight=3), Attachment("mailer", "sms")]
    hf.consumers.detach("mailer", "sms")
    hf.consumers.attach("mailer", "emails", empty="terminate")
    hf.consumers.attach("mailer", "letters")
    found = attached(declared, internals(rival).store.crew.attachments("default", "mailer"))
    assert [(one.queue, one.weight, one.empty) for one in found] == [("emails", 3, "terminate"), ("letters", 1, None)]


def test_a_queue_comes_to_life_when_a_consumer_is_attached_to_it(hf: Holdfast, client: OpenClient) -> None:
    with pytest.raises(UnknownQueue):
        client(strict=True).consumers.attach("mailer", "new")
    assert (hf.queues.list(), hf.consumers.attachments()) == ([], [])
    hf.consumers.attach("mailer", "new")
    assert hf.queues.list() == ["new"]


def test_a_queue_that_is_no_more_wanted_need_not_exist(client: OpenClient) -> None:
    """Nobody has to declare a queue in order to take a consumer off it."""
    strict = client(strict=True)
    strict.consumers.detach("mailer", "gone")
    assert (strict.queues.list(), [one.queue for one in strict.consumers.attachments()]) == ([], ["gone"])


# --- the bell ---------------------------------------------------------------------------------------------------------


def test_no_queue_has_the_number_of_the_crew(hf: Holdfast) -> None:
    for name in ("first", "second"):
        hf.queue(name)
        channel = internals(hf).store.channels.find("default", name)
        assert channel is not None
        assert channel.id > CREW


@pytest.mark.parametrize("verb", ["attach", "detach"])
def test_a_change_wakes_the_crew_elsewhere_and_no_one_else(hf: Holdfast, rival: Holdfast, verb: str) -> None:
    """A sleeper of another client, which knows nothing of the change; and one that waits for messages of a queue."""
    hf.queue("q")
    queue = internals(hf).store.channels.find("default", "q")
    assert queue is not None
    crew, claimer = (
        listening(internals(rival).store.wakeup.bell(), CREW),
        listening(internals(rival).store.wakeup.bell(), queue.id),
    )
    heard: list[bool] = []
    sleeper = threading.Thread(target=lambda: heard.append(crew.wait([queue.id, CREW], 100)))
    sleeper.start()
    getattr(hf.consumers, verb)("mailer", "q")
    sleeper.join(100)
    assert heard == [True]
    assert not claimer.wait([queue.id], 0.3)
    for bell in (crew, claimer):
        bell.close()


def test_messages_do_not_wake_who_waits_for_changes_only(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q")
    bell = listening(internals(rival).store.wakeup.bell(), CREW)
    hf.enqueue("q", 1)
    assert not bell.wait([CREW], 0.3)
    bell.close()


def test_a_change_between_two_naps_is_not_missed(hf: Holdfast, rival: Holdfast) -> None:
    """Whoever has a bell first, then reads, then sleeps, sleeps through nothing."""
    hf.queue("q")
    bell = listening(internals(rival).store.wakeup.bell(), CREW)
    before = rival.consumers.attachments()
    hf.consumers.attach("mailer", "q")
    assert (before, bell.wait([CREW], 100)) == ([], True)
    assert len(rival.consumers.attachments()) == 1
    bell.close()
