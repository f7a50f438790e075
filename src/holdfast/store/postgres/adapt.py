"""How our types travel: ids as 16 bytes, numbers as 8, columns of values as arrays."""

from __future__ import annotations

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

from holdfast.core.message import MessageId
from holdfast.store.postgres.arrays import (
    BoolArray,
    BoolArrayDumper,
    ByteaArray,
    ByteaArrayDumper,
    Int8Array,
    Int8ArrayDumper,
    TextArray,
    TextArrayDumper,
    UuidArray,
    UuidArrayDumper,
)


class RawUuid(Loader):
    """Ids stay 16 bytes; they become text only when a user looks at them."""

    format = Format.BINARY

    def load(self, data: Buffer) -> MessageId:
        return MessageId(data)


class RawUuidDumper(Dumper):
    """And go back as they are."""

    format = Format.BINARY
    oid = psycopg.postgres.types["uuid"].oid

    def dump(self, obj: MessageId) -> bytes:
        return obj


def adapt(adapters: AdaptersMap) -> None:
    """Our types, on a connection of ours or a cursor on someone else's."""
    adapters.register_loader("uuid", RawUuid)
    adapters.register_dumper(MessageId, RawUuidDumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(Int8Array, Int8ArrayDumper)
    adapters.register_dumper(UuidArray, UuidArrayDumper)
    adapters.register_dumper(ByteaArray, ByteaArrayDumper)
    adapters.register_dumper(BoolArray, BoolArrayDumper)
    adapters.register_dumper(TextArray, TextArrayDumper)
