"""Bytes in a registry's wire format: the byte 0, the id of the schema in 4 bytes, then the value.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format.
The schemas of a topic's writers are known by their ids; a lake keeps them: `lakehouse.lake.record.writer_schemas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

PREFIX_LENGTH = 5
ID_MAX = (1 << 31) - 1
# Libraries in Java reserve room for as many bytes or items as a value says before they see whether these are there, and
# 22 bytes can say billions. So they get a limit, and no longer record is read: Kafka's usual one is a thirtieth.
LENGTH_MAX = 33_554_432
NOTHING_TO_WRITE_BY = "no schema of the topic's writers is known by which it could be written"
_MAGIC, _GUID_MAGIC = 0, 1


class WriterSchemas(Mapping[int, WriterSchema]):
    """The schemas of the writers of a topic's keys or values, by their ids; never changed, so equal to itself alone."""

    def __init__(self, schemas: Mapping[int, WriterSchema] | None = None) -> None:
        self._schemas = dict(schemas or {})

    def __getitem__(self, id: int) -> WriterSchema:
        return self._schemas[id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"WriterSchemas({sorted(self._schemas)})"


NO_SCHEMAS = WriterSchemas()
FindSchemas = Callable[[str, str], WriterSchemas]  # by the topic, and "key" or "value"


def find_no_schemas(topic: str, part_name: str) -> WriterSchemas:
    """Return no schema: for topics whose formats need none."""
    return NO_SCHEMAS


def schema_id(data: bytes) -> int | None:
    """Return the id of the schema of a record's key or value; None if the bytes have none."""
    if len(data) < PREFIX_LENGTH or data[0] != _MAGIC:
        return None
    id = int.from_bytes(data[1:PREFIX_LENGTH], "big")
    return id if 0 < id <= ID_MAX else None


def split_registered(data: bytes, schemas: WriterSchemas) -> tuple[int, WriterSchema]:
    """Return the id and the schema of a value that begins after PREFIX_LENGTH bytes. Raises Unfit."""
    id = require_schema_id(data)
    if (schema := schemas.get(id)) is None:
        raise Unfit(f"schema {id}: the registry has no schema of that id")
    return id, schema


def require_schema_id(data: bytes) -> int:
    """Return the id of the schema of a value that begins after PREFIX_LENGTH bytes. Raises Unfit for another prefix."""
    if (id := schema_id(data)) is None:
        raise _unfit_prefix(data)
    return id


def with_prefix(id: int, data: bytes) -> bytes:
    """Return a value with its prefix."""
    return bytes([_MAGIC]) + id.to_bytes(4, "big") + data


def encode_by_newest(schemas: WriterSchemas, encode: Callable[[WriterSchema], bytes]) -> bytes:
    """Return what `encode` makes by the newest schema of the topic's writers by which it can, with its prefix.

    encode: called for each schema, from the newest on, until one is possible. It gives the bytes after the prefix, or
    raises Unfit, or UnfitSchema for a schema whose own reason tells less than one about the text.
    Raises Unfit with the first reason.
    """
    reasons: list[str] = []
    schema_reasons: list[str] = []
    for id in sorted(schemas, reverse=True):
        try:
            return with_prefix(id, encode(schemas[id]))
        except Unfit as error:
            reasons.append(f"schema {id}: {error}")
        except UnfitSchema as error:
            schema_reasons.append(f"schema {id}: {error}")
    raise Unfit([*reasons, *schema_reasons, NOTHING_TO_WRITE_BY][0])


def _unfit_prefix(data: bytes) -> Unfit:
    expected = "expected the byte 0, a schema's id of 4 bytes and a value"
    if not data:
        return Unfit(f"{expected}, found no byte")
    if data[0] == _MAGIC and len(data) >= PREFIX_LENGTH:
        return Unfit(f"{expected}, found the id {int.from_bytes(data[1:PREFIX_LENGTH], 'big')}: an id of 8 bytes?")
    if data[0] == _GUID_MAGIC:
        return Unfit(f"{expected}, found the byte 1: a schema's GUID, which is not read")
    start = f"0x{data[:16].hex()}"
    if data[:1] in b'{["':
        return Unfit(f"{expected}, found {start}: it looks like JSON")
    advice = "If the id is in a header (__key_schema_id, __value_schema_id), let the producer write it into the bytes"
    return Unfit(f"{expected}, found {start}. {advice}")


def prefix_hint(data: bytes, binary_language: str = "Avro") -> str:
    """Return, for bytes of another format, a hint that they have a registry's prefix; empty if they have none.

    binary_language: the language to name where they do not look like JSON.
    """
    if (id := schema_id(data)) is None:
        return ""
    language = "JSON" if data[PREFIX_LENGTH:].lstrip()[:1] in (b"{", b"[", b'"') else binary_language
    return f" (the byte 0 and then {id}: a value in {language} with a registry's schema {id}?)"
