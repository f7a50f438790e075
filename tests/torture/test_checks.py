"""Each check with histories made by hand: what may be, and what must not be."""

from holdfast.torture.checks import check
from holdfast.torture.ending import GROUP, STEP, TOPIC, ChannelEnd, SagaEnd
from holdfast.torture.history import CLAIM, ENDED, ERROR, HEAL, MARK, HistoryEvent
from tests.torture.histories import LEASE, Tale, life

UNHEARD = "lost"
"""A call that nobody answered."""


def ordered() -> Tale:
    return Tale(ChannelEnd("q", ordered=True, max_attempts=2))


def topic(*, is_ordered: bool = True) -> Tale:
    groups = [ChannelEnd(f"t/{name}", GROUP, "t", is_ordered, 5) for name in "ab"]
    return Tale(ChannelEnd("t", TOPIC), *groups)


# --- lost, recovered, unexpected --------------------------------------------------------------------------------------


def test_a_good_life() -> None:
    verdict = life(life(Tale(), "m1"), "m2").verdict()
    assert verdict.clean, verdict.findings
    assert (verdict.counts["enqueued"], verdict.counts["done"], verdict.counts["claims"]) == (2, 2, 2)


def test_lost() -> None:
    assert Tale().send("m1").faults() == {"lost": 1}
    assert Tale().send("m1").claim("m1").faults() == {"lost": 1}


def test_lost_although_somebody_may_have_acked_it() -> None:
    """Who keeps what is done would know."""
    tale = Tale().send("m1").claim("m1").end("ack", "m1", outcome=UNHEARD)
    assert tale.faults() == {"lost": 1}
    tale.ends["q"].keeps = False
    assert tale.faults() == {}
    tale.ends["q"].keeps = True
    assert tale.state("m1", "succeeded").faults() == {}


def test_lost_although_its_producer_was_told_nothing() -> None:
    """Who claimed it knows that it was there."""
    tale = Tale().send("m1", outcome=UNHEARD).claim("m1").end("nack", "m1")
    assert tale.faults() == {"lost": 1}
    assert tale.state("m1", "dead").faults() == {}


def test_a_refused_or_unheard_send_is_not_lost() -> None:
    verdict = Tale().send("m1", outcome="fail").send("m2", outcome=UNHEARD).verdict()
    assert verdict.clean
    assert (verdict.counts["refused"], verdict.counts["unknown"], verdict.counts["recovered"]) == (1, 1, 0)


def test_recovered() -> None:
    tale = Tale().send("m1", outcome=UNHEARD).claim("m1").end("ack", "m1").state("m1", "succeeded")
    assert tale.verdict().clean
    assert tale.verdict().counts["recovered"] == 1


def test_unexpected() -> None:
    assert Tale().state("m1", "dead").faults()["unexpected"] == 1
    assert Tale().claim("m1").state("m1", "dead").faults()["unexpected"] == 1


def test_what_a_saga_sends_is_expected() -> None:
    tale = Tale(ChannelEnd("q", STEP, max_attempts=5)).claim("m1").end("ack", "m1").state("m1", "succeeded")
    assert tale.faults() == {}


# --- doubles ----------------------------------------------------------------------------------------------------------


def test_one_key_two_messages() -> None:
    tale = life(Tale(), "m1")
    tale.events[0].items[0].idem = tale.events[1].items[0].idem = "k"
    assert tale.send("m2", idem="k", stored="m1").faults() == {}
    tale.send("m3", idem="k").state("m3", "dead")
    assert tale.faults() == {"duplicate": 1}


def test_one_value_stored_twice() -> None:
    tale = life(Tale(), "m1").send("m2", value="v-m1", outcome=UNHEARD)
    assert tale.faults() == {}
    tale.state("m2", "dead")
    assert tale.faults() == {"duplicate": 1}


def test_claimed_again_after_its_end() -> None:
    tale = life(Tale(), "m1").wait(2 * LEASE).claim("m1", 2, by="bob")
    assert tale.faults() == {"doubled": 1}
    tale.end("ack", "m1", 2, by="bob")
    assert tale.faults()["doubled"] == 2


# --- leases and attempts ----------------------------------------------------------------------------------------------


def test_held_by_two() -> None:
    good = Tale().send("m1").claim("m1").wait(LEASE).claim("m1", 2, by="bob").end("ack", "m1", 2, by="bob")
    assert good.state("m1", "succeeded").faults() == {}
    bad = Tale().send("m1").claim("m1").wait(LEASE // 2).claim("m1", 2, by="bob").end("ack", "m1", 2, by="bob")
    assert bad.state("m1", "succeeded").faults() == {"double lease": 1}


def test_a_renewed_lease_is_held_longer() -> None:
    tale = Tale().send("m1").claim("m1").wait(LEASE // 2).end("extend", "m1").wait(LEASE * 3 // 4)
    tale.claim("m1", 2, by="bob").end("ack", "m1", 2, by="bob").state("m1", "succeeded")
    assert tale.faults() == {"double lease": 1}


def test_an_unheard_nack_may_have_counted() -> None:
    tale = Tale().send("m1").claim("m1").end("nack", "m1", outcome=UNHEARD)
    tale.claim("m1", 2, by="bob").end("ack", "m1", 2, by="bob").state("m1", "succeeded")
    assert tale.faults() == {}


def test_an_attempt_that_was_given_out_twice() -> None:
    tale = Tale().send("m1").claim("m1").wait(LEASE).claim("m1", by="bob").end("ack", "m1", by="bob")
    assert tale.state("m1", "succeeded").faults() == {"claimed twice": 1, "attempts": 1}


def test_an_attempt_that_was_given_back() -> None:
    for outcome in ("ok", UNHEARD):
        tale = Tale().send("m1").claim("m1").end("release", "m1", outcome=outcome).claim("m1", by="bob")
        assert tale.end("ack", "m1", by="bob").state("m1", "succeeded").faults() == {}


def test_a_token_that_was_given_out_twice() -> None:
    tale = Tale().send("m1").claim("m1").end("nack", "m1").claim("m1", 2).end("ack", "m1", 2)
    tale.state("m1", "succeeded")
    for event in tale.events:
        for item in event.items:
            item.token = min(item.token, 1)
    assert tale.faults()["claimed twice"] == 1


def test_attempts_with_a_hole() -> None:
    tale = Tale().send("m1").claim("m1", 2).end("ack", "m1", 2).state("m1", "succeeded")
    assert tale.faults() == {"attempts": 1}
    told = Tale().send("m1").claim("m1", outcome=UNHEARD).wait(LEASE).claim("m1", 2, by="bob")
    assert told.end("ack", "m1", 2, by="bob").state("m1", "succeeded").faults() == {}


def test_a_claim_that_was_tried_again_may_hide_one() -> None:
    """On a network: the first answer got lost, and the client asked once more by itself."""
    tale = life(Tale().send("m1"), "m2").claim("m1", 2, by="bob").end("ack", "m1", 2, by="bob")
    tale.state("m1", "succeeded")
    assert tale.faults() == {"attempts": 1}
    claimed = next(event for event in tale.events if event.op == CLAIM and event.phase == "ok")
    claimed.unheard = 1
    assert tale.faults() == {}


def test_a_server_may_still_be_at_a_claim_that_was_tried_again() -> None:
    """It had to wait for a lock, and got it after the second try was answered."""
    tale = life(Tale(), "m2")
    claimed = next(event for event in tale.events if event.op == CLAIM and event.phase == "ok")
    claimed.unheard = 1
    tale.wait(1).send("m1").claim("m1", 2).end("ack", "m1", 2).state("m1", "succeeded")
    assert tale.faults() == {"attempts": 1}
    final = tale.final()
    final.is_server = True
    assert check(tale.events, final).clean


def test_a_claim_hides_nothing_that_was_sent_later() -> None:
    """Nor anything at all once whoever asked is dead, or was told that it failed; a server may linger."""
    for end in (HistoryEvent(0, "nemesis", ENDED, "ok", note="bob"), HistoryEvent(0, "bob", CLAIM, "info", call=1)):
        tale = Tale().claim("m1", by="bob", outcome=UNHEARD)
        end.at, end.call = tale.now, tale.calls
        tale.events.append(end)
        tale.wait(1).send("m1").claim("m1", 2).end("ack", "m1", 2).state("m1", "succeeded")
        assert tale.faults() == {"attempts": 1}
        final = tale.final()
        final.is_server = True
        assert check(tale.events, final).clean
        final.is_server = False
        tale.events.append(tale.events.pop(1))
        tale.events[-1].at = tale.now
        assert check(tale.events, final).clean


def test_a_claim_hides_nothing_before_the_last_one() -> None:
    tale = Tale().send("m1").claim("m1", outcome=UNHEARD, by="bob")
    tale.events.append(HistoryEvent(tale.now, "nemesis", ENDED, "ok", note="bob"))
    tale.wait(LEASE).claim("m1", 2).end("nack", "m1", 2)
    good = tale.claim("m1", 3).end("nack", "m1", 3)
    assert good.state("m1", "dead").faults() == {}
    assert tale.claim("m1", 5).end("die", "m1", 5).faults() == {"attempts": 1}


def test_more_attempts_than_there_may_be() -> None:
    tale = Tale(ChannelEnd("q", max_attempts=1)).send("m1").claim("m1").end("nack", "m1").claim("m1", 2)
    assert tale.end("ack", "m1", 2).state("m1", "succeeded").faults() == {"attempts": 1}


# --- stale ------------------------------------------------------------------------------------------------------------


def test_a_stale_answer() -> None:
    tale = Tale().send("m1").claim("m1").wait(LEASE).claim("m1", 2, by="bob").end("nack", "m1", outcome="fail")
    tale.end("ack", "m1", 2, by="bob").state("m1", "succeeded")
    assert tale.faults() == {}
    assert tale.verdict().counts["stale refused"] == 1
    bad = Tale().send("m1").claim("m1").wait(LEASE).claim("m1", 2, by="bob").end("ack", "m1").state("m1", "succeeded")
    assert bad.faults() == {"stale accepted": 1}


def test_a_late_answer_before_anyone_else_has_it() -> None:
    tale = Tale().send("m1").claim("m1").wait(3 * LEASE).end("ack", "m1").state("m1", "succeeded")
    assert tale.faults() == {}


def test_a_claim_that_ended_twice() -> None:
    tale = Tale().send("m1").claim("m1").end("nack", "m1").end("release", "m1").state("m1", "dead")
    assert tale.faults() == {"stale accepted": 1}
    renewed = Tale().send("m1").claim("m1").end("ack", "m1").end("extend", "m1").state("m1", "succeeded")
    assert renewed.faults() == {"stale accepted": 1}


def test_a_refusal_may_be_that_of_a_second_try() -> None:
    """The first try was not answered; by the time of the second one the lease was over."""
    tale = Tale().send("m1").claim("m1").end("ack", "m1", outcome="fail").state("m1", "succeeded")
    assert tale.faults() == {"durability": 1}
    tale.events[-1].at += 2 * LEASE
    assert tale.faults() == {}


# --- order and groups -------------------------------------------------------------------------------------------------


def test_in_order() -> None:
    tale = ordered().send("m1", key="k").send("m2", key="k").send("other", key="l")
    tale.claim("m1").claim("other").end("ack", "m1").claim("m2").end("ack", "m2").end("ack", "other")
    for id in ("m1", "m2", "other"):
        tale.state(id, "succeeded")
    assert tale.faults() == {}


def test_out_of_order() -> None:
    tale = ordered().send("m1", key="k").send("m2", key="k").claim("m2").end("ack", "m2").claim("m1").end("ack", "m1")
    assert tale.state("m1", "succeeded").state("m2", "succeeded").faults() == {"out of order": 1}


def test_the_next_one_while_the_first_waits_for_its_retry() -> None:
    tale = ordered().send("m1", key="k").send("m2", key="k").claim("m1").end("nack", "m1").claim("m2").end("ack", "m2")
    tale.claim("m1", 2).end("ack", "m1", 2).state("m1", "succeeded").state("m2", "succeeded")
    assert tale.faults() == {"out of order": 1}


def test_calls_at_the_same_time_have_no_order() -> None:
    tale = ordered().send("m1", key="k").send("m2", key="k")
    tale.events[1].at = tale.events[3].at
    tale.claim("m2").end("ack", "m2").claim("m1").end("ack", "m1").state("m1", "succeeded").state("m2", "succeeded")
    assert tale.faults() == {}


def test_the_next_one_after_a_death() -> None:
    """By its holder's word, or by a lease that just ran out: then the database's clock says when."""
    for pause, faults in ((LEASE, {}), (LEASE // 2, {"out of order": 1})):
        tale = ordered().send("m1", key="k").send("m2", key="k").claim("m1").end("nack", "m1").claim("m1", 2)
        tale.wait(pause).claim("m2").end("ack", "m2").state("m1", "dead").state("m2", "succeeded")
        assert tale.faults() == faults
    tale = ordered().send("m1", key="k").send("m2", key="k").claim("m1").end("die", "m1").claim("m2").end("ack", "m2")
    assert tale.state("m1", "dead").state("m2", "succeeded").faults() == {}


def test_a_group_that_missed_something() -> None:
    tale = topic().send("m1", "t").claim("m1", channel="t/a").end("ack", "m1", channel="t/a")
    tale.state("m1", "succeeded", "t/a")
    assert tale.faults() == {"group": 1}
    tale.state("m1", "dead", "t/b")
    assert tale.faults() == {}


def test_a_group_that_missed_what_nobody_was_told_of() -> None:
    tale = topic().send("m1", "t", outcome=UNHEARD)
    assert tale.faults() == {}
    tale.claim("m1", channel="t/a").end("ack", "m1", channel="t/a").state("m1", "succeeded", "t/a")
    assert tale.faults() == {"group": 1}
    assert tale.state("m1", "dead", "t/b").faults() == {}


def test_a_group_whose_cursor_goes_back() -> None:
    for order, faults in ((["m1", "m2"], {}), (["m2", "m1"], {"passed by": 2})):
        tale = topic(is_ordered=False).send("m1", "t").send("m2", "t")
        for group in ("t/a", "t/b"):
            for id in order:
                tale.claim(id, channel=group).end("ack", id, channel=group).state(id, "succeeded", group)
        assert tale.faults() == faults


def test_a_message_that_somebody_claimed_unheard_comes_later() -> None:
    tale = topic(is_ordered=False).send("m1", "t").send("m2", "t")
    for group in ("t/a", "t/b"):
        tale.claim("m1", channel=group, outcome=UNHEARD, by="bob").claim("m2", channel=group)
        tale.end("ack", "m2", channel=group).wait(LEASE).claim("m1", 2, channel=group)
        tale.end("ack", "m1", 2, channel=group).state("m1", "succeeded", group).state("m2", "succeeded", group)
    assert tale.faults() == {}


def test_groups_see_one_order() -> None:
    tale = topic().send("m1", "t", key="k").send("m2", "t", key="k")
    tale.events[1].at = tale.events[3].at
    for group, ids in (("t/a", ["m1", "m2"]), ("t/b", ["m2", "m1"])):
        for id in ids:
            tale.claim(id, channel=group).end("ack", id, channel=group).state(id, "succeeded", group)
    assert tale.faults() == {"group order": 1}


# --- the end ----------------------------------------------------------------------------------------------------------


def test_what_was_acked_stays_acked() -> None:
    assert life(Tale(), "m1").state("m1", "dead").faults() == {"durability": 1}
    gone = life(Tale(), "m1")
    gone.ends["q"].messages.clear()
    assert gone.faults() == {"durability": 1}
    gone.ends["q"].keeps = False
    assert gone.faults() == {}


def test_stuck() -> None:
    for state in ("pending", "processing"):
        assert Tale().send("m1").state("m1", state).faults() == {"stuck": 1}


def test_ended_too_late() -> None:
    tale = Tale().send("m1").claim("m1")
    tale.events.append(HistoryEvent(tale.now, "nemesis", MARK, "ok", note=HEAL))
    tale.wait(2 * LEASE).end("ack", "m1").state("m1", "succeeded")
    final = tale.final()
    for patience, count in ((0, 0), (3, 0), (1, 1)):
        final.patience = patience
        assert check(tale.events, final).violations["stuck"] == count


def test_enqueued_is_the_sum_of_all_that_became_of_it() -> None:
    tale = life(Tale(), "m1").send("m2", outcome=UNHEARD).claim("m2").end("die", "m2").state("m2", "dead")
    for id, state in (("m3", "pending"), ("m4", "processing"), ("m5", "canceled"), ("m6", "expired")):
        tale.send(id).state(id, state)
    tale.ends["q"].counts = {"pending": 1, "waiting": 0, "processing": 1, "dead": 1}
    assert tale.verdict().violations["conservation"] == 0
    tale.send("m7")
    assert tale.verdict().violations["conservation"] == 1
    tale.claim("m7").end("ack", "m7")
    assert tale.verdict().violations["conservation"] == 1
    tale.ends["q"].keeps = False
    assert tale.verdict().violations["conservation"] == 0


def test_conservation() -> None:
    tale = life(Tale(), "m1").send("m2").claim("m2").end("die", "m2").state("m2", "dead")
    tale.ends["q"].counts = {"pending": 0, "waiting": 0, "processing": 0, "dead": 1}
    assert tale.faults() == {}
    tale.ends["q"].counts["waiting"] = 1
    tale.ends["q"].counts["dead"] = 0
    assert tale.faults() == {"conservation": 2}, "and the sum is right"


def test_an_error_nobody_was_ready_for() -> None:
    tale = Tale()
    tale.events.append(HistoryEvent(1, "ann", ERROR, "fail", note="TypeError()"))
    assert tale.faults() == {"error": 1}


# --- sagas ------------------------------------------------------------------------------------------------------------


def saga(status: str, steps: list[str], timeline: list[tuple[str, str]]) -> dict[str, int]:
    tale = Tale().start_saga("s")
    named = [(name, step, True) for name, step in zip("abc", steps, strict=False)]
    tale.sagas = [SagaEnd("s", status, named, timeline)]
    return tale.faults()


def test_a_saga_that_was_done() -> None:
    assert saga("completed", ["completed"] * 2, [("completed", "a"), ("completed", "b")]) == {}
    assert saga("completed", ["completed", "pending"], [("completed", "a")]) == {"saga": 1}
    assert saga("in_progress", ["completed", "pending"], [("completed", "a")]) == {"saga": 1}
    assert Tale().start_saga("s").faults() == {"saga": 1}
    nobodys = Tale()
    nobodys.sagas = [SagaEnd("s", "completed", [("a", "completed", True)], [("completed", "a")])]
    assert nobodys.faults() == {"saga": 1}
    assert saga("completed", ["completed"], [("completed", "a")] * 2) == {"saga": 1}
    assert saga("completed", ["completed"], [("completed", "a"), ("compensated", "a")]) == {"saga": 1}


def test_a_saga_that_was_undone() -> None:
    there = [("completed", "a"), ("completed", "b")]
    undone = ["compensated", "compensated", "failed"]
    assert saga("compensated", undone, [*there, ("compensated", "b"), ("compensated", "a")]) == {}
    assert saga("compensated", undone, [*there, ("compensated", "a"), ("compensated", "b")]) == {"saga": 1}
    assert saga("compensated", ["completed", "compensated", "failed"], [*there, ("compensated", "b")]) == {"saga": 1}
    assert saga("compensated", undone, [*there, ("compensated", "b"), ("compensated", "b")]) == {"saga": 1}


def test_a_step_that_succeeds_when_its_saga_has_turned_round() -> None:
    ends = ["compensated", "compensated", "failed"]
    for what in ("completed_late", "outcome_unknown"):
        for back, faults in ((["b", "a"], {}), (["a", "b"], {"saga": 1})):
            late = [("completed", "a"), (what, "b"), *(("compensated", step) for step in back)]
            assert saga("compensated", ends, late) == faults
    after = [("completed", "a"), ("compensated", "a"), ("completed_late", "b"), ("compensated", "b")]
    assert saga("compensated", ends, after) == {"saga": 1}
