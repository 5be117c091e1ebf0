"""Chooses the part that reads a key or a value: Spark's own functions if its format has some, else Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.formats.codec.registered import WriterSchemas
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.record_format import parse_format
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.expression.protobuf_batches import MessageBatches, PlainMessageBatches
from lakehouse.spark.part.avro_part import AvroPart
from lakehouse.spark.part.connect_part import ConnectPart
from lakehouse.spark.part.debezium_avro_part import DebeziumAvroPart
from lakehouse.spark.part.debezium_part import DebeziumPart
from lakehouse.spark.part.json_key_part import JsonKeyPart
from lakehouse.spark.part.json_part import JsonAnyCasePart, JsonPart
from lakehouse.spark.part.json_registered_part import (
    PrefixedJsonAnyCasePart,
    PrefixedJsonKeyPart,
    PrefixedJsonPart,
    ValidatedJsonAnyCasePart,
    ValidatedJsonKeyPart,
    ValidatedJsonPart,
)
from lakehouse.spark.part.record_part import Part, PythonPart


@dataclass(frozen=True)
class AbsentPart(Part):
    """A part that nobody reads: it is null."""

    @property
    def read(self) -> Column:
        return F.struct(*[F.lit(None).cast(column.type).alias(column.name) for column in self.columns])

    @property
    def is_missing(self) -> Column:
        return F.lit(True)


@dataclass(frozen=True)
class PlainPart(Part):
    """A part of one column of text or bytes."""

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return columns[0].type in ("string", "binary")

    @property
    def read(self) -> Column:
        (column,) = self.columns
        return F.struct(F.col(self.name).cast(column.type).alias(column.name))

    @property
    def is_broken(self) -> Column:
        is_text = self.columns[0].type == "string"
        return ~F.is_valid_utf8(F.col(self.name).cast("string")) if is_text else F.lit(False)


@dataclass(frozen=True)
class IntegerPart(Part):
    """A part of one int or bigint, as Kafka's serializers write them."""

    _SIZES: ClassVar[dict[str, int]] = {"int": 4, "bigint": 8}

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return columns[0].type in cls._SIZES

    @property
    def read(self) -> Column:
        (column,) = self.columns
        # A base below 0 means a signed number of 64 bits; the sign of an int has to be carried on.
        is_negative_int = F.lit(column.type == "int") & (F.substring(self.name, 1, 1) >= F.lit(b"\x80"))
        digits = F.concat(F.when(is_negative_int, F.lit("FFFFFFFF")).otherwise(F.lit("")), F.hex(self.name))
        number = F.conv(F.when(~self.is_broken, digits), 16, -10).cast(column.type)
        return F.struct(number.alias(column.name))

    @property
    def is_broken(self) -> Column:
        return F.octet_length(self.name) != self._SIZES[self.columns[0].type]


@dataclass(frozen=True)
class ProtobufPart(PythonPart):
    """A value in Protobuf with a registry's schemas: Python reads many at once."""

    _batches_class: ClassVar[type[MessageBatches]] = MessageBatches

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return name == "value"

    @property
    def read(self) -> Column:
        result_type = StructType(list(self.type)).add("_unfit", "string")
        arrow_type = pa.struct(list(to_arrow_schema(result_type, timezone="UTC")))
        batches = self._batches_class(self.name, self.format, self.columns, self.schemas, arrow_type)

        def decode(batch: pa.Array) -> pa.Array:
            return batches.decode(batch)

        return over_arrow(decode, result_type)(F.col(self.name))


@dataclass(frozen=True)
class PlainProtobufPart(ProtobufPart):
    """A value in Protobuf without a registry."""

    _batches_class: ClassVar[type[MessageBatches]] = PlainMessageBatches


# For each kind of format, the parts that Spark reads itself: the first that can read the columns. Python reads others.
QUICK_PARTS: dict[str, tuple[type[Part], ...]] = {
    "json": (JsonKeyPart, JsonPart),
    "json_any_case": (JsonAnyCasePart,),
    "kafka": (PlainPart, IntegerPart),
    "connect_json": (ConnectPart,),
    "debezium": (DebeziumPart,),
    "debezium_avro": (DebeziumAvroPart, AvroPart),
    "avro": (AvroPart,),
    "avro_any_case": (AvroPart,),
    "json_sr": (PrefixedJsonKeyPart, PrefixedJsonPart),
    "json_sr_any_case": (PrefixedJsonAnyCasePart,),
    "protobuf": (ProtobufPart,),
    "protobuf_any_case": (ProtobufPart,),
    "protobuf_nosr": (PlainProtobufPart,),
    "protobuf_nosr_any_case": (PlainProtobufPart,),
    "json_sr_valid": (ValidatedJsonKeyPart, ValidatedJsonPart),
    "json_sr_any_case_valid": (ValidatedJsonAnyCasePart,),
    "none": (AbsentPart,),
}


def make_part(name: str, format_name: str, columns: tuple[PlanColumn, ...], schemas: WriterSchemas) -> Part:
    """Return the part of records with this name, `key` or `value`, in a format."""
    format = parse_format(format_name)
    quick_parts = QUICK_PARTS.get(format.kind, ()) if format.is_plain else ()
    part_class = next((part for part in quick_parts if part.can_read(name, columns)), PythonPart)
    return part_class(name, format_name, columns, schemas)
