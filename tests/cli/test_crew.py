"""`holdfast consumers` and `pools`, as an operator types them."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import Attachment, Holdfast, Work
from holdfast.client.client import internals
from tests.cli.commands import holdfast, values
from tests.steps import beat


@pytest.fixture
def crew(db: str) -> None:
    """One that works, one that idles, and one that was killed."""
    work = [Work("m1", "emails", 1, 0, "page 3"), Work("m2", "sms", 1, 5)]
    with Holdfast(db) as hf:
        hf.queue("emails")
        tell = internals(hf).store.crew.beat
        tell("default", beat("w1", pool="gpu", queues=["emails", "sms"], saturation=0.8, work=work, valid_for=600))
        tell("default", beat("w2", consumer="printer", state="idle", handled=1234, valid_for=600))
        tell("default", beat("w3", consumer="late", saturation=1, valid_for=1e-6))


def test_consumers_are_a_table(run: Any, crew: None) -> None:
    lines = run("consumers", "list")
    [mailer] = [line for line in lines if "mailer" in line]
    [printer] = [line for line in lines if "printer" in line]
    for words in ("gpu", "working", "emails, sms", "80%", "emails m1 page 3 and 1 more"):
        assert words in mailer
    for words in ("idle", "0%", "1,234"):
        assert words in printer
    assert not any("late" in line for line in lines)
    assert lines[-1] == "Amplification: 1 (saturation of 50% or more)"
    assert run("consumers", "list", "--threshold", "0")[-1] == "Amplification: 2 (saturation of 0% or more)"


def test_the_dead_can_be_asked_for_and_amplify_nothing(run: Any, crew: None) -> None:
    lines = run("consumers", "list", "--all")
    [late] = [line for line in lines if "late" in line]
    assert "dead" in late
    assert lines[-1] == "Amplification: 1 (saturation of 50% or more)"


def test_programs_get_json(run: Any, crew: None) -> None:
    mailer, printer = values(run("consumers", "list", "--json"))
    assert (mailer["id"], mailer["saturation"], mailer["alive"]) == ("w1", 0.8, True)
    assert mailer["work"][0] == {
        "id": "m1",
        "queue": "emails",
        "attempt": 1,
        "since": "1970-01-01T00:00:00Z",
        "progress": "page 3",
    }
    assert (printer["state"], printer["work"]) == ("idle", [])
    assert (mailer["amplification"], printer["amplification"]) == (1, 1)
    assert values(run("consumers", "list", "--json", "--threshold", "0"))[0]["amplification"] == 2


def test_where_nobody_works(run: Any) -> None:
    assert run("consumers", "list") == ["No consumer is running."]
    assert run("consumers", "list", "--json") == []


def test_a_consumer_is_attached_and_detached(run: Any, db: str, crew: None) -> None:
    said = run("consumers", "attach", "mailer", "emails", "--weight", "2.5", "--empty", "hibernate")
    assert said == ["'mailer' takes from 'emails': 1 running."]
    said = run("consumers", "detach", "nobody", "sms")
    assert said == ["'nobody' takes nothing more from 'sms': none of that name is running now."]
    with Holdfast(db) as hf:
        first, second = hf.consumers.attachments()
    assert first == Attachment("mailer", "emails", True, 2.5, "hibernate", first.changed_at_us)
    assert second == Attachment("nobody", "sms", False, None, None, second.changed_at_us)


def test_what_was_attached_is_listed(run: Any, crew: None) -> None:
    assert run("consumers", "attachments") == ["Nothing was attached or detached."]
    run("consumers", "attach", "mailer", "emails", "--weight", "2.5")
    run("consumers", "detach", "printer", "sms")
    lines = run("consumers", "attachments")
    [mailer] = [line for line in lines if "mailer" in line]
    [printer] = [line for line in lines if "printer" in line]
    for words in ("emails", "attached", "2.5"):
        assert words in mailer
    assert "detached" in printer
    [one] = values(run("consumers", "attachments", "printer", "--json"))
    assert (one["consumer"], one["queue"], one["attached"], one["weight"]) == ("printer", "sms", False, None)
    assert run("consumers", "attachments", "nobody", "--json") == []


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["mailer", "typo"], 1, "'typo' was never declared"),
        (["mailer", "emails", "--weight", "0"], 1, "weight must be a number above 0"),
        (["mailer", "emails", "--weight", "nan"], 1, "weight must be a number above 0"),
        (["mailer", "emails", "--empty", "panic"], 2, "'panic' is not one of"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(db: str, crew: None, tmp_path: Path, args: list[str], code: int, says: str) -> None:
    answer = holdfast("consumers", "attach", *args, folder=tmp_path, HOLDFAST_DB=db)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert says in answer.stderr
    with Holdfast(db) as hf:
        assert hf.consumers.attachments() == []
