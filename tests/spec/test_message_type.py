"""Bodies are checked against the type of their queue: strictly, and with the path of what is wrong."""

from pathlib import Path

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.core.expressions import types
from holdfast.spec.message_type import MessageType, expression_type
from holdfast.spec.shapes import read_shape

FIELDS = {
    "payload": '{ incident: { title: string, tags: list<enum(a, "b c")>? } }',
    "x-count": "int?",
    "at": "time",
    "scores": "map<string, float>",
    "class": "bool?",
}
GOOD = '{"payload": {"incident": {"title": "x"}}, "at": 1, "scores": {}%s}'


@pytest.mark.parametrize(
    "body",
    [
        GOOD % "",
        GOOD % ', "x-count": null, "class": true',
        '{"payload": {"incident": {"title": "", "tags": ["a", "b c"]}}, '
        '"at": "2026-01-01T00:00:00+01:00", "scores": {"a": 1}}',
    ],
)
def test_what_fits_is_accepted(body: str) -> None:
    MessageType(FIELDS).check(body.encode())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"payload": {"incident": {"title": 3}}, "at": 1, "scores": {}}', "payload.incident.title: expected `str`"),
        (
            '{"payload": {"incident": {"title": "x", "tags": ["q"]}}, "at": 1, "scores": {}}',
            "payload.incident.tags[0]: ",
        ),
        ('{"payload": {"incident": {"titel": "x"}}, "at": 1, "scores": {}}', "payload.incident: "),
        ('{"at": 1, "scores": {}}', "object missing required field `payload`"),
        (GOOD % ', "x-count": 1.5', "x-count: expected `int | null`, got `float`"),
        (GOOD % ', "x-count": "1"', "x-count: expected `int | null`, got `str`"),
        (GOOD % ', "class": 1', "class: expected `bool | null`"),
        (GOOD % ', "other": 1', "object contains unknown field `other`"),
        ((GOOD % "").replace("1", '"2026-01-01T00:00:00"'), "at: expected `datetime` with a timezone"),
        ((GOOD % "").replace("{}", '{"a": "1"}'), "scores[...]: expected `float`, got `str`"),
        ("[]", "expected `object`, got `array`"),
        ("{", "this is no JSON"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(body: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        MessageType(FIELDS).check(body.encode())
    assert str(refused.value).startswith(said)


def test_it_is_a_type_for_a_queue(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/work.db") as hf:
        hf.queue("mails", message_type=MessageType({"to": "string", "reply-to": "string?"}).python)
        hf.enqueue("mails", {"to": "ada", "reply-to": "bob"})
        with pytest.raises(InvalidInput, match="to"):
            hf.enqueue("mails", {"to": 3})
        (claim,) = hf.claim("mails")
        assert claim.message.body.to == "ada"


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("json", types.JSON),
        ("float?", types.OptionalOf(types.DOUBLE)),
        ("optional<string>", types.OptionalOf(types.STRING)),
        ("map<int, time>", types.MapOf(types.TIME)),
        ("list<bool>", types.ListOf(types.BOOL)),
        ("enum(a, b)", types.EnumOf(("a", "b"))),
        ("{ a: int }", types.ObjectOf({"a": types.INT})),
    ],
)
def test_types_are_known_to_expressions(text: str, of: types.Type) -> None:
    assert expression_type(read_shape(text)) == of


@pytest.mark.parametrize("text", ["", "strin", "list<", "map<json, int>", "enum()", "int int", "{ a }", "enum(a, a)"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no type"):
        read_shape(text)
