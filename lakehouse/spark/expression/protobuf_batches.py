"""Batches of values in Protobuf: many messages at once, by `lakehouse.formats.protobuf.proto_arrow`.

Records are read in groups of one message type. What can't be read so, the rule reads, record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.formats.decode import decode_part
from lakehouse.formats.protobuf.proto_indexes import read_indexes
from lakehouse.formats.registered import LENGTH_MAX, PREFIX_LENGTH, WriterSchemas, schema_id
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.plan.schema import Column

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
        places_by_prefix: dict[bytes, list[int]] = {}
        for place, value in enumerate(values):
            places_by_prefix.setdefault(_prefix(value), []).append(place)
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
            arrays.append(pa.array([self._decode_one(values[place]) for place in left_places], self.arrow_type))
            order += left_places
        if len(arrays) == 1 and order == list(range(len(values))):
            return arrays[0]
        index_by_place = {place: index for index, place in enumerate(order) if place >= 0}
        indexes = pa.array([index_by_place[place] for place in range(len(values))], pa.int64())
        return pa.concat_arrays(arrays).take(indexes) if arrays else pa.nulls(0, self.arrow_type)

    def _decode_quickly(self, values: list[bytes], prefix: bytes, arrays: list[pa.Array]) -> list[bool] | None:
        """Append the columns of values to arrays; return which of them are left to the rule, None for all."""
        schema = self.schemas.get(schema_id(prefix) or 0)
        ignores_case = parse_format(self.format).traits.ignores_case
        if schema is None or (reader := _reader(schema, prefix, self._fields, ignores_case)) is None:
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

    def _decode_one(self, value: bytes | None) -> dict[str, Any] | None:
        try:
            return None if value is None else decode_part(self.name, self.format, self.columns, value, self.schemas)
        except Unfit as error:
            return {"_unfit": str(error)}


def _prefix(value: bytes | None) -> bytes:
    """Return the bytes before a message; none for a value that is left to the rule."""
    if value is None or len(value) > LENGTH_MAX:
        return b""
    if value[PREFIX_LENGTH : PREFIX_LENGTH + 1] == b"\0":  # nearly always
        return value[: PREFIX_LENGTH + 1]
    try:
        return value[: read_indexes(value, PREFIX_LENGTH)[1]]
    except Unfit:
        return b""


@lru_cache(maxsize=256)
def _reader(schema: WriterSchema, prefix: bytes, columns: tuple[Column, ...], ignores_case: bool) -> ArrowReader | None:
    """Return the reader of the messages behind a prefix; None if the rule reads them, or has the reason."""
    from lakehouse.formats.protobuf.proto_arrow import ArrowReader, NotQuick

    try:
        indexes, _ = read_indexes(prefix, PREFIX_LENGTH)
        proto_schema = schema.proto_schema
        return ArrowReader(proto_schema, proto_schema.message(indexes), columns, ignores_case=ignores_case)
    except (NotQuick, Unfit, UnfitSchema):
        return None
