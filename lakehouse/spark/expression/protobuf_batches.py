"""Batches of values in Protobuf: many messages at once, by `lakehouse.formats.protobuf.proto_arrow`.

Records are read in groups of one message type. The rule reads all others, record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.formats.codec.protobuf_codec import own_schema
from lakehouse.formats.codec.registered import LENGTH_MAX, PREFIX_LENGTH, WriterSchemas, schema_id
from lakehouse.formats.decode import part_decoder, row_or_unfit
from lakehouse.formats.protobuf.proto_indexes import FIRST, read_indexes
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.protobuf.proto_schema import ProtoSchema
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

if TYPE_CHECKING:
    from lakehouse.formats.protobuf.proto_arrow import ArrowReader


@dataclass(frozen=True)
class MessageBatches:
    """Batches of the bytes of a value.

    arrow_type: a struct of the columns, and of "_unfit".
    """

    name: str
    format: str
    columns: tuple[Column, ...]
    schemas: WriterSchemas
    arrow_type: pa.StructType

    def decode(self, batch: pa.Array) -> pa.Array:
        """Return a batch of bytes as a struct of the columns, and of the reason why they do not fit."""
        values = batch.to_pylist()
        places_by_prefix: dict[bytes | None, list[int]] = {}
        for place, value in enumerate(values):
            places_by_prefix.setdefault(self._prefix(value), []).append(place)
        arrays: list[pa.Array] = []
        order: list[int] = []
        left_places: list[int] = []
        for prefix, places in places_by_prefix.items():
            is_left = self._decode_quickly([values[place] for place in places], prefix, arrays)
            if is_left is None:
                left_places += places
                continue
            left_places += [place for place, left in zip(places, is_left, strict=True) if left]
            order += [-1 if left else place for place, left in zip(places, is_left, strict=True)]
        if left_places:
            decode = part_decoder(self.name, self.format, self.columns, self.schemas)
            arrays.append(pa.array([row_or_unfit(decode, values[place]) for place in left_places], self.arrow_type))
            order += left_places
        if len(arrays) == 1 and order == list(range(len(values))):
            return arrays[0]
        index_by_place = {place: index for index, place in enumerate(order) if place >= 0}
        indexes = pa.array([index_by_place[place] for place in range(len(values))], pa.int64())
        return pa.concat_arrays(arrays).take(indexes) if arrays else pa.nulls(0, self.arrow_type)

    def _prefix(self, value: bytes | None) -> bytes | None:
        """Return the bytes before a message; None for a value that is left to the rule."""
        if value is None or len(value) > LENGTH_MAX:
            return None
        if value[PREFIX_LENGTH : PREFIX_LENGTH + 1] == b"\0":  # nearly always
            return value[: PREFIX_LENGTH + 1]
        try:
            return value[: read_indexes(value, PREFIX_LENGTH)[1]]
        except Unfit:
            return None

    def _reader(self, prefix: bytes) -> ArrowReader | None:
        """Return the reader of the messages behind a prefix; None if the rule reads them, or has the reason."""
        schema = self.schemas.get(schema_id(prefix) or 0)
        return None if schema is None else _registered_reader(schema, prefix, self._fields, self._ignores_case)

    @property
    def _ignores_case(self) -> bool:
        return parse_format(self.format).traits.ignores_case

    def _decode_quickly(self, values: list[bytes], prefix: bytes | None, arrays: list[pa.Array]) -> list[bool] | None:
        """Append the columns of values to arrays; return which of them are left to the rule, None for all."""
        if prefix is None or (reader := self._reader(prefix)) is None:
            return None
        from lakehouse.formats.protobuf.proto_arrow import NotQuick

        reasons = self.arrow_type.field("_unfit")
        topic_type = pa.struct(
            [
                pa.field(column.name, self.arrow_type.field(own.name).type)
                for own, column in zip(self.columns, self._fields, strict=True)
            ]
        )
        try:
            struct, is_left = reader.read([value[len(prefix) :] for value in values], topic_type)
        except NotQuick:
            return None
        children = [
            *(struct.field(place) for place in range(topic_type.num_fields)),
            pa.nulls(len(values), reasons.type),
        ]
        arrays.append(pa.StructArray.from_arrays(children, fields=list(self.arrow_type)))
        return [bool(left) for left in is_left]

    @property
    def _fields(self) -> tuple[Column, ...]:
        return tuple(column.in_topic for column in self.columns)


@dataclass(frozen=True)
class PlainMessageBatches(MessageBatches):
    """Batches of values that are a message alone, without an id."""

    def _prefix(self, value: bytes | None) -> bytes | None:
        return None if value is None or len(value) > LENGTH_MAX else b""

    def _reader(self, prefix: bytes) -> ArrowReader | None:
        return _plain_reader(parse_format(self.format), self._fields, self._ignores_case)


@lru_cache(maxsize=256)
def _registered_reader(
    schema: WriterSchema, prefix: bytes, columns: tuple[Column, ...], ignores_case: bool
) -> ArrowReader | None:
    try:
        indexes, _ = read_indexes(prefix, PREFIX_LENGTH)
        return _quick_reader(schema.proto_schema, indexes, columns, ignores_case)
    except (Unfit, UnfitSchema):
        return None


@lru_cache(maxsize=256)
def _plain_reader(format: RecordFormat, columns: tuple[Column, ...], ignores_case: bool) -> ArrowReader | None:
    try:
        return _quick_reader(own_schema(format, columns), FIRST, columns, ignores_case)
    except (Unfit, UnfitSchema):
        return None


def _quick_reader(
    schema: ProtoSchema, indexes: tuple[int, ...], columns: tuple[Column, ...], ignores_case: bool
) -> ArrowReader | None:
    """Return the reader of a message type; None if only the rule reads it. Raises Unfit, UnfitSchema."""
    from lakehouse.formats.protobuf.proto_arrow import ArrowReader, NotQuick

    try:
        return ArrowReader(schema, schema.message(indexes), columns, ignores_case=ignores_case)
    except NotQuick:
        return None
