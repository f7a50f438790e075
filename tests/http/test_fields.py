"""Header fields by name."""

from holdfast.http.fields import Fields


def test_each_has_its_value() -> None:
    fields = Fields([(b"host", b"localhost"), (b"x-a", b"1")])
    assert fields == {b"host": b"localhost", b"x-a": b"1"}
    assert (fields.single(b"host"), fields.single(b"x-b")) == (b"localhost", None)


def test_one_that_came_several_times_is_joined_and_is_no_single_one() -> None:
    fields = Fields([(b"x-a", b"1"), (b"host", b"localhost"), (b"x-a", b"2"), (b"x-a", b"3")])
    assert fields == {b"x-a": b"1, 2, 3", b"host": b"localhost"}
    assert (fields.single(b"x-a"), fields.single(b"host")) == (None, b"localhost")
