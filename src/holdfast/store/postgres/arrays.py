"""Arrays as the server reads them: packed here in one go, because psycopg's own way asks a dumper for every element."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from holdfast.core.message import MessageId

_INT8 = psycopg.postgres.types["int8"]
_UUID = psycopg.postgres.types["uuid"]
_BYTEA = psycopg.postgres.types["bytea"]
_head = struct.Struct("!iiIii").pack
_int8 = struct.Struct("!q").pack
_length = struct.Struct("!i").pack


class Int8Array(bytes):
    """Whole numbers, packed."""


class UuidArray(bytes):
    """Ids, packed."""


class ByteaArray(bytes):
    """Bodies, packed."""


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
