"""Header fields by name, and which of them are stored."""

import pytest

from holdfast.server.webhooks.headers import Fields, stored_headers

pytestmark = pytest.mark.above_the_stores


def test_each_has_its_value() -> None:
    fields = Fields([(b"host", b"localhost"), (b"x-a", b"1")])
    assert fields == {b"host": b"localhost", b"x-a": b"1"}
    assert (fields.single(b"host"), fields.single(b"x-b")) == (b"localhost", None)


def test_one_that_came_several_times_is_joined_and_is_no_single_one() -> None:
    fields = Fields([(b"x-a", b"1"), (b"host", b"localhost"), (b"x-a", b"2"), (b"x-a", b"3")])
    assert fields == {b"x-a": b"1, 2, 3", b"host": b"localhost"}
    assert (fields.single(b"x-a"), fields.single(b"host")) == (None, b"localhost")


def test_neither_secrets_nor_the_signature_are_stored() -> None:
    fields = Fields([(b"x-event", b"\xe9"), (b"x-sum", b"1"), (b"cookie", b"a=b"), (b"x-api-key", b"k")])
    assert stored_headers(fields, None, b"x-sum") == {"x-event": "\xe9"}
    assert stored_headers(fields, None, None) == {"x-event": "\xe9", "x-sum": "1"}


def test_an_allow_list_allows_no_secret() -> None:
    fields = Fields([(b"x-event", b"1"), (b"x-sum", b"1"), (b"authorization", b"Bearer x")])
    assert stored_headers(fields, frozenset({"x-event", "authorization"}), b"x-sum") == {"x-event": "1"}
