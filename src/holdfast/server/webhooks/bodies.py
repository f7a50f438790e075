"""Bodies of requests: read up to a limit, and only then understood."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive

from holdfast.server.error_responses import Refusal

MOST_FIELDS = 1_000

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Gone(Exception):
    """Whoever asked has hung up."""


async def read_body(receive: Receive, declared: bytes, most: int) -> bytes:
    """All of the body; 413 as soon as it is clear that it has more than `most` bytes."""
    if declared.isdigit():
        check_size(int(declared[:20]), most)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        check_size(size, most)
        if not message.get("more_body", False):
            return b"".join([*parts, part]) if parts else part
        parts.append(part)


def check_size(size: int, most: int) -> None:
    """413 for a body of more than `most` bytes."""
    if size > most:
        raise Refusal(413, f"the body has more than the {most} bytes that are allowed here")


def read_payload(kind: str, body: bytes, forms: bool) -> Any:
    """The value in a body; 415 if it is of no kind that can be read, 400 if it is not what it says."""
    if kind == "application/json":
        return read_json(body)
    name, _, charset = kind.partition(";")
    name = name.strip().lower()
    if is_json(name):
        if "charset" in charset.lower() and "utf-8" not in charset.lower() and "utf8" not in charset.lower():
            raise Refusal(415, "JSON is UTF-8; send it as application/json")
        return read_json(body)
    if forms and name == "application/x-www-form-urlencoded":
        return _read_form(body)
    raise Refusal(415, "send JSON, with Content-Type: application/json")


def is_json(name: str) -> bool:
    """Whether a type without its parameters, in lower case, is JSON or made of it."""
    return name == "application/json" or (name.startswith("application/") and name.endswith("+json"))


def read_json(body: bytes) -> Any:
    """A JSON value as the standard defines it: one name for one value, and text that is text."""
    try:
        value = _decode(body)
        if _has_twins(body, value):
            raise ValueError("an object has two members of the same name")
    except RecursionError:
        raise Refusal(400, "the body is not JSON that can be read: it is nested too deeply", code="bad_json") from None
    except (ValueError, UnicodeDecodeError) as problem:
        raise Refusal(400, f"the body is not JSON that can be read: {problem}", code="bad_json") from None
    return value


def _has_twins(body: bytes, value: Any) -> bool:
    """Whether a member was lost because another one has its name: readers disagree about which of them counts.

    Written again, the value has as many quotes as before, unless something is missing or was escaped.
    """
    if b"\\" not in body:
        return body.count(b'"') != _encode(value).count(b'"')
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) < len(pairs)

    json.loads(body, object_pairs_hook=look)
    return found


def _read_form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except (ValueError, UnicodeDecodeError):
        raise Refusal(400, "the body is not a form that can be read", code="bad_form") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Refusal(400, "the form has two fields of the same name", code="bad_form")
    return fields
