"""Values that from_avro has read, as values of the declared types: see `lakehouse.formats.avro.read_types`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from lakehouse.formats.values.text_value import INTEGER_BITS
from lakehouse.plan.avro.avro_schema import AvroType
from lakehouse.plan.expression.schema import base_type, field_types, item_type
from lakehouse.spark.expression.arrow_functions import spark_type
from lakehouse.spark.expression.moment_text import NO_MOMENT, parse_moment
from lakehouse.spark.expression.years import is_outside_years


@dataclass(frozen=True, slots=True)
class AvroValue:
    """A value of the declared type, and what has to be checked of it.

    faults: conditions under which it does not fit. texts: columns, of texts or arrays of them, that must be UTF-8.
    is_raw: whether it is what from_avro gave, unchanged.
    """

    value: Column
    faults: tuple[Column, ...] = ()
    texts: tuple[Column, ...] = ()
    is_raw: bool = True


def does_not_fit(values: Iterable[AvroValue]) -> Column:
    """Return whether any of the values does not fit; never null."""
    values = tuple(values)
    faults = [F.coalesce(fault, F.lit(False)) for value in values for fault in value.faults]
    if texts := [text for value in values for text in value.texts]:
        faults.append(~F.is_valid_utf8(F.concat_ws("\0", *texts)))
    return reduce(or_, faults, F.lit(False))


def avro_value(raw: Column, avro_type: AvroType, declared_type: str) -> AvroValue:
    """Return a value of the declared type. raw: the value of the reader's type, which is not a union here."""
    base_name = base_type(declared_type)
    match base_name:
        case "bigint" | "boolean" | "binary" | "float" | "double":
            return AvroValue(raw)
        case "string":
            return AvroValue(raw, texts=() if avro_type.kind == "enum" else (raw,))
        case "timestamp" if avro_type.kind == "string":  # Debezium's ZonedTimestamp
            moment = parse_moment(raw, declared_type)
            is_moment = ~raw.rlike(NO_MOMENT) & ~is_outside_years(moment, TimestampType())
            fault = raw.isNotNull() & ~F.coalesce(moment.isNotNull() & is_moment, F.lit(False))
            return AvroValue(moment, faults=(fault,), texts=(raw,), is_raw=False)
        case "date" | "timestamp":
            return AvroValue(raw, faults=(is_outside_years(raw, spark_type(declared_type)),))
    if base_name in INTEGER_BITS or base_name == "decimal":
        value = raw.try_cast(declared_type)
        return AvroValue(value, faults=(raw.isNotNull() & value.isNull(),), is_raw=False)
    if avro_type.kind == "record":
        return _struct_value(raw, avro_type, declared_type)
    if avro_type.kind == "array":
        return _array_value(raw, avro_type, declared_type)
    return AvroValue(F.lit(None).cast(declared_type), is_raw=False)  # the writer has no such field


def _struct_value(raw: Column, avro_type: AvroType, declared_type: str) -> AvroValue:
    members = [
        (name, avro_value(raw[field], part.branches[0], member_type))
        for (name, member_type), field, part in zip(
            field_types(declared_type).items(), avro_type.fields, avro_type.parts, strict=True
        )
    ]
    value = F.struct(*[member.value.alias(name) for name, member in members])
    return AvroValue(
        F.when(raw.isNotNull(), value).cast(declared_type),
        tuple(fault for _, member in members for fault in member.faults),
        tuple(text for _, member in members for text in member.texts),
        is_raw=False,
    )


def _array_value(raw: Column, avro_type: AvroType, declared_type: str) -> AvroValue:
    item_avro, declared_item = avro_type.parts[0].branches[0], item_type(declared_type)
    item = avro_value(F.lit(None), item_avro, declared_item)  # to see what has to be done with each
    if item.is_raw and not item.faults:
        return AvroValue(raw, texts=(_texts_of_items(raw, item_avro, declared_item),) if item.texts else ())
    faults = (F.exists(raw, lambda item_raw: does_not_fit([avro_value(item_raw, item_avro, declared_item)])),)
    if item.is_raw:
        return AvroValue(raw, faults)
    values = F.transform(raw, lambda item_raw: avro_value(item_raw, item_avro, declared_item).value)
    return AvroValue(values.cast(declared_type), faults, is_raw=False)


def _texts_of_items(raw: Column, item_avro: AvroType, declared_item: str) -> Column:
    """Return the texts of an array's items, which are texts or arrays of them, in one array."""
    if base_type(declared_item) != "array":
        return raw
    items = F.filter(raw, lambda item_raw: item_raw.isNotNull())
    return F.flatten(F.transform(items, lambda item_raw: avro_value(item_raw, item_avro, declared_item).texts[0]))
