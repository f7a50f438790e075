"""What a topic and a group promise, and where a group begins."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast import InvalidInput
from holdfast.core.message import id_bytes
from holdfast.topics.rules.declaration import (
    GroupSpec,
    Start,
    TopicSpec,
    address,
    group_spec,
    parts,
    reader_name,
    start_of,
    topic_spec,
)

pytestmark = pytest.mark.unit

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_a_topic_keeps_a_day_unless_told_otherwise() -> None:
    assert topic_spec({}) == TopicSpec(retention=86_400, min_retention=None, no_subscribers="keep")
    assert topic_spec({"retention": "7d", "min_retention": "1h"}) == TopicSpec(retention=604_800, min_retention=3600)


def test_messages_are_kept_for_their_retention_unless_told_otherwise() -> None:
    assert topic_spec({"retention": "7d"}).kept_for == 604_800
    assert topic_spec({"retention": "7d", "min_retention": None}).kept_for == 604_800
    assert topic_spec({"retention": "7d", "min_retention": 0}).kept_for == 0
    assert topic_spec({"retention": 0}).kept_for == 0


def test_retention_is_the_longer_one() -> None:
    assert topic_spec({"retention": 60, "min_retention": 60}).min_retention == 60
    with pytest.raises(InvalidInput, match="must not be longer"):
        topic_spec({"retention": 60, "min_retention": 61})


@pytest.mark.parametrize("name", ["lease", "ordering", "max_age", "patterns"])
def test_a_topic_has_no_settings_of_readers(name: str) -> None:
    with pytest.raises(InvalidInput, match="topic\\(\\) has no setting"):
        topic_spec({name: 1})  # type: ignore[misc]


def test_a_message_on_its_way_in_meets_the_topics_bounds_only() -> None:
    way_in = topic_spec({"max_size": 7, "idempotency_window": 5}).as_queue()
    assert (way_in.max_size, way_in.idempotency_window, way_in.max_depth, way_in.ordered) == (7, 5, None, False)


def test_a_group_has_the_settings_of_a_reader() -> None:
    spec = group_spec(("a.*",), {"lease": 5, "max_attempts": 2, "concurrency": 3})
    assert (spec.lease, spec.max_attempts, spec.concurrency, spec.patterns) == (5, 2, 3, ("a.*",))
    assert (spec.history, GroupSpec().patterns) == (0, ())


@pytest.mark.parametrize("name", ["history", "max_age", "max_depth", "start"])
def test_what_is_no_setting_of_a_group_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="subscribe\\(\\) has no setting"):
        group_spec((), {name: 1})  # type: ignore[misc]


def test_an_address_is_topic_and_group() -> None:
    assert address("orders", "email") == "orders/email"
    assert parts("orders/email") == ("orders", "email")
    assert parts("orders.eu") is None
    assert (reader_name("orders.eu/email"), reader_name("plain")) == ("orders.eu/email", "plain")


@pytest.mark.parametrize("name", ["/", "a/", "/a", "a/b/c", "a /b", "a/ b", "", "x" * 201 + "/a", None, 7])
def test_what_is_no_address_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^queue "):
        reader_name(name, "queue")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("latest", Start("latest")),
        ("earliest", Start("earliest")),
        (0, Start("time", at=0)),
        (1.5, Start("time", at=1_500_000)),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), Start("time", at=2_000_000)),
        (datetime(1970, 1, 1, 1, 0, 2, tzinfo=timezone(timedelta(hours=1))), Start("time", at=2_000_000)),
        (ID, Start("id", id=id_bytes(ID))),
    ],
)
def test_where_a_group_begins(given: Any, meant: Start) -> None:
    assert start_of(given) == meant


@pytest.mark.parametrize("given", ["", "now", "Latest", None, True, [], {}, -1, 1e12, float("nan"), b"latest"])
def test_where_it_cannot_begin(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^start must be"):
        start_of(given)


def test_a_time_without_a_zone_is_no_time() -> None:
    with pytest.raises(InvalidInput, match="no time zone"):
        start_of(datetime(2026, 1, 1))


def test_text_as_long_as_an_id_must_be_one() -> None:
    with pytest.raises(InvalidInput, match="ids look like"):
        start_of("x" * len(ID))
