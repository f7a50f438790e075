"""Arrays as the server reads them: packed here in one go, because psycopg's own way asks a dumper for every element."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from holdfast.core.message import MessageId

_INT8 = psycopg.postgres.types["int8"]
_UUID = psycopg.postgres.types["uuid"]
_BYTEA = psycopg.postgres.types["bytea"]
_TEXT = psycopg.postgres.types["text"]
_BOOL = psycopg.postgres.types["bool"]
_head = struct.Struct("!iiIii").pack
_int8 = struct.Struct("!q").pack
_length = struct.Struct("!i").pack
_NULL = _length(-1)


class Int8Array(bytes):
    """Whole numbers, packed."""


class UuidArray(bytes):
    """Ids, packed."""


class ByteaArray(bytes):
    """Bodies, packed."""


class BoolArray(bytes):
    """Yes and no, packed."""


class TextArray(tuple[str | None, ...]):
    """Texts, packed only when it is known how the connection encodes them: it may be someone else's."""


class Int8ArrayDumper(Dumper):
    format = Format.BINARY
    oid = _INT8.array_oid

    def dump(self, obj: Int8Array) -> bytes:
        return obj


class UuidArrayDumper(Dumper):
    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: UuidArray) -> bytes:
        return obj


class ByteaArrayDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEA.array_oid

    def dump(self, obj: ByteaArray) -> bytes:
        return obj


class BoolArrayDumper(Dumper):
    format = Format.BINARY
    oid = _BOOL.array_oid

    def dump(self, obj: BoolArray) -> bytes:
        return obj


class TextArrayDumper(Dumper):
    format = Format.BINARY
    oid = _TEXT.array_oid

    def dump(self, obj: TextArray) -> bytes:
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        return _packed(_TEXT.oid, obj, lambda text: text.encode(encoding))


def int8_array(numbers: Collection[int]) -> Int8Array:
    """One dimension, no NULLs; every element is 8 bytes long."""
    parts = [_head(1, 0, _INT8.oid, len(numbers), 1), *map(_int8, numbers)]
    return Int8Array(_length(8).join(parts))


def uuid_array(ids: Sequence[MessageId]) -> UuidArray:
    """One dimension, no NULLs; every element is 16 bytes long."""
    return UuidArray(_length(16).join([_head(1, 0, _UUID.oid, len(ids), 1), *ids]))


def bytea_array(values: Sequence[bytes]) -> ByteaArray:
    """One dimension, no NULLs; every element behind its length."""
    parts = [_head(1, 0, _BYTEA.oid, len(values), 1)]
    for value in values:
        parts += (_length(len(value)), value)
    return ByteaArray(b"".join(parts))


COLUMNS: dict[str, Callable[[Sequence[Any]], object]] = {
    "bigint": lambda values: Int8Array(_packed(_INT8.oid, values, _int8)),
    "uuid": lambda values: UuidArray(_packed(_UUID.oid, values, bytes)),
    "bytea": lambda values: ByteaArray(_packed(_BYTEA.oid, values, bytes)),
    "boolean": lambda values: BoolArray(_packed(_BOOL.oid, values, _bool)),
    "text": TextArray,
}
"""A column of values, any of which may be NULL, by its type."""


def _bool(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _packed(oid: int, values: Sequence[Any], dump: Callable[[Any], bytes]) -> bytes:
    parts = [_head(1, int(None in values), oid, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            raw = dump(value)
            parts += (_length(len(raw)), raw)
    return b"".join(parts)
