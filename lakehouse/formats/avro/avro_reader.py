"""Avro's values as those of a table's columns: which types of a writer fit a declared type, and the values themselves.

| declared           | accepted                                                                                  |
|--------------------|-------------------------------------------------------------------------------------------|
| any                | null; a field that the writer does not have is null; other fields are left out            |
| integers           | int and long in the type's range, also as times of day and as local and nanosecond times; |
|                    | a decimal without digits after the point, and Debezium's VariableScaleDecimal             |
| float; double      | float; int, float, double                                                                 |
| decimal            | a decimal with at most as many digits before and after the point; int and long, if all    |
|                    | fit; a decimal of more than 38 digits, which is how Kafka Connect's converter writes all  |
|                    | decimals, and Debezium's VariableScaleDecimal, if the digits of the value fit             |
| string             | string, enum                                                                              |
| binary             | bytes, fixed; also a decimal's                                                            |
| date; timestamp    | date; timestamp-millis, timestamp-micros; Debezium's ISO texts; in the years 1 to 9999    |
| struct, array, map | record, array, map; of a map's equal keys the last counts                                 |

A type is judged once, before any value: its units and its digits are never converted with a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakehouse.formats.avro.avro_bytes import (
    ReadBytes,
    fixed_reader,
    read_block_count,
    read_boolean,
    read_branch_index,
    read_bytes,
    read_double,
    read_float,
    read_int,
    read_long,
    read_string,
    skip,
)
from lakehouse.formats.values.connect_value import decimal_of_unscaled
from lakehouse.formats.values.field_places import names_by_place
from lakehouse.formats.values.text_value import (
    INTEGER_BITS,
    check_integer_range,
    parse_date,
    parse_timestamp,
    precision_and_scale,
)
from lakehouse.formats.values.unfit import Unfit, unfit_value
from lakehouse.plan.avro.avro_schema import ISO_DATE, ISO_TIMESTAMP, AvroType
from lakehouse.plan.expression.schema import Column, base_type, field_types, item_type
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

_EPOCH, _EPOCH_DATE = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICROS = {"timestamp-millis": 1000, "timestamp-micros": 1}
_INTEGER_DIGITS = {"int": 10, "long": 19}
_MOMENTS = ("date", *_MICROS)
_PLAIN_READERS: dict[tuple[str, str], ReadBytes] = {
    ("boolean", "boolean"): read_boolean, ("string", "string"): read_string, ("bytes", "binary"): read_bytes,
    ("float", "float"): read_float, ("float", "double"): read_float, ("double", "double"): read_double,
}  # fmt: skip


@lru_cache(maxsize=1024)
def row_reader(avro_type: AvroType, columns: tuple[Column, ...], *, ignores_case: bool = False) -> ReadBytes:
    """Return the function that reads a row of columns: the fields of a record, or the only column's value alone.

    A null in place of the record is None. ignores_case: names of fields may be in another case, as SQL reads them.
    Raises Unfit if a type does not fit a column's.
    """
    record_types = [branch for branch in avro_type.branches if branch.kind == "record"]
    if not record_types and len(columns) == 1:
        return _alone_reader(avro_type, columns[0], ignores_case)
    if len(avro_type.branches) != 1 or not record_types:
        raise Unfit(f"expected a record of {', '.join(column.name for column in columns)}, found {avro_type}")
    types_by_name = {column.name: column.type for column in columns}
    return _with_null(avro_type, _record_reader(record_types[0], types_by_name, ignores_case))


@lru_cache(maxsize=1024)
def bare_reader(avro_type: AvroType, columns: tuple[Column, ...]) -> ReadBytes:
    """Return the function that reads the only column's value, alone or in a record that has a field of its name.

    Names are read in any case. Raises Unfit if a type does not fit the column's.
    """
    (column,) = columns
    is_struct = base_type(column.type) == "struct"
    for record_type in (branch for branch in avro_type.branches if branch.kind == "record"):
        for name, part in zip(record_type.fields, record_type.parts, strict=True):
            # A struct may have a field of the column's name, too.
            can_hold = not is_struct or any(branch.kind == "record" for branch in part.branches)
            if name.lower() == column.name.lower() and can_hold:
                return row_reader(avro_type, columns, ignores_case=True)
    return _alone_reader(avro_type, column, ignores_case=True)


def _alone_reader(avro_type: AvroType, column: Column, ignores_case: bool) -> ReadBytes:
    read_value, name = value_reader(avro_type, column.type, ignores_case), column.name

    def read_alone(data: bytes, place: int) -> tuple[Any, int]:
        value, place = read_value(data, place)
        return (None if value is None else {name: value}), place

    return read_alone


@lru_cache(maxsize=4096)
def value_reader(avro_type: AvroType, declared_type: str, ignores_case: bool = False) -> ReadBytes:
    """Return the function that reads a value of a declared type. Raises Unfit if the types do not fit."""
    if avro_type.kind == "union":
        return _union_reader([_branch_reader(branch, declared_type, ignores_case) for branch in avro_type.parts])
    return _branch_reader(avro_type, declared_type, ignores_case)


def _branch_reader(avro_type: AvroType, declared_type: str, ignores_case: bool) -> ReadBytes:
    base_name = base_type(declared_type)
    if avro_type.kind == "null":
        return lambda data, place: (None, place)
    if base_name in INTEGER_BITS and avro_type.kind in _INTEGER_DIGITS and avro_type.logical not in _MOMENTS:
        read_number = read_int if avro_type.kind == "int" else read_long
        return _read_and_convert(read_number, lambda number: check_integer_range(number, base_name))
    if base_name in INTEGER_BITS and (whole_reader := _whole_reader(avro_type)) is not None:
        return _read_and_convert(whole_reader, lambda number: check_integer_range(int(number), base_name))
    if base_name == "double" and avro_type.kind == "int" and not avro_type.logical:
        return _read_and_convert(read_int, float)
    if base_name == "decimal" and (decimal_reader := _decimal_reader(avro_type, declared_type)) is not None:
        return decimal_reader
    if base_name == "binary" and avro_type.kind == "fixed":
        return fixed_reader(avro_type.size)
    if base_name == "string" and avro_type.kind == "enum":
        return _enum_reader(avro_type.symbols)
    if base_name == "date" and avro_type.logical == "date":
        return _read_and_convert(read_int, _date_of_days)
    if base_name == "date" and avro_type.logical == ISO_DATE:
        return _read_and_convert(read_string, parse_date)
    if base_name == "timestamp" and avro_type.logical in _MICROS:
        micros = _MICROS[avro_type.logical]
        return _read_and_convert(read_long, lambda number: _timestamp_of_count(number * micros))
    if base_name == "timestamp" and avro_type.logical == ISO_TIMESTAMP:
        return _read_and_convert(read_string, parse_timestamp)
    if base_name in ("struct", "array", "map") and avro_type.kind == {"struct": "record"}.get(base_name, base_name):
        return _nested_avro_reader(avro_type, declared_type, ignores_case)
    if (plain_reader := _PLAIN_READERS.get((avro_type.kind, base_name))) is None:
        raise Unfit(f"{avro_type}, declared {declared_type}")
    return plain_reader


def _read_and_convert(read_value: ReadBytes, convert: Callable[[Any], Any]) -> ReadBytes:
    def read_and_convert(data: bytes, place: int) -> tuple[Any, int]:
        value, place = read_value(data, place)
        return convert(value), place

    return read_and_convert


def _union_reader(readers: list[ReadBytes]) -> ReadBytes:
    def read(data: bytes, place: int) -> tuple[Any, int]:
        index, place = read_branch_index(data, place, len(readers))
        return readers[index](data, place)

    return read


def _with_null(avro_type: AvroType, read_record: ReadBytes) -> ReadBytes:
    """Return the reader of a record, or of a union of it and null."""
    if avro_type.kind != "union":
        return read_record
    return _union_reader(
        [read_record if part.kind == "record" else lambda data, place: (None, place) for part in avro_type.parts]
    )


def _whole_reader(avro_type: AvroType) -> ReadBytes | None:
    """Return the reader of a decimal that has, or may have, no digits after the point; None for another type."""
    is_whole = avro_type.logical == "decimal" and avro_type.scale == 0
    return _exact_reader(avro_type, DECIMAL_DIGITS_MAX, 0) if is_whole or _has_own_scale(avro_type) else None


def _has_own_scale(avro_type: AvroType) -> bool:
    """Say whether each value has its own scale: Debezium's VariableScaleDecimal."""
    return avro_type.kind == "record" and set(avro_type.fields) == {"scale", "value"}


def _exact_reader(avro_type: AvroType, precision: int, scale: int) -> ReadBytes:
    """Return the reader of decimals whose values are judged one by one: all their digits must fit."""
    if _has_own_scale(avro_type):
        read_parts = _record_reader(avro_type, {"scale": "int", "value": "binary"}, ignores_case=False)
        return _read_and_convert(read_parts, lambda parts: _variable_decimal(parts, precision, scale))
    own_scale = avro_type.scale
    return _read_and_convert(
        _unscaled_reader(avro_type),
        lambda own_bytes: _variable_decimal({"value": own_bytes, "scale": own_scale}, precision, scale),
    )


def _unscaled_reader(avro_type: AvroType) -> ReadBytes:
    return read_bytes if avro_type.kind == "bytes" else fixed_reader(avro_type.size)


def _decimal_reader(avro_type: AvroType, declared_type: str) -> ReadBytes | None:
    precision, scale = precision_and_scale(declared_type)
    if _has_own_scale(avro_type) or (avro_type.logical == "decimal" and avro_type.precision > DECIMAL_DIGITS_MAX):
        return _exact_reader(avro_type, precision, scale)
    if avro_type.kind in _INTEGER_DIGITS and not avro_type.logical:
        if precision - scale < _INTEGER_DIGITS[avro_type.kind]:
            return None
        read_number = read_int if avro_type.kind == "int" else read_long
        return _read_and_convert(read_number, lambda number: _make_decimal(number * 10**scale, scale))
    if avro_type.logical != "decimal":
        return None
    if avro_type.scale > scale or avro_type.precision - avro_type.scale > precision - scale:
        return None
    zeros, limit = 10 ** (scale - avro_type.scale), 10**precision

    def convert(own_bytes: bytes) -> Decimal:
        if not own_bytes:
            raise unfit_value(f"the bytes of a {avro_type}", "none")
        unscaled = int.from_bytes(own_bytes, "big", signed=True)
        if not -limit < unscaled * zeros < limit:
            raise unfit_value(declared_type, f"a number of {unscaled.bit_length()} bits")
        return _make_decimal(unscaled * zeros, scale)

    return _read_and_convert(_unscaled_reader(avro_type), convert)


def _make_decimal(unscaled: int, scale: int) -> Decimal:
    """Return a decimal by its digits: arithmetic would round it to 28 of them."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _variable_decimal(parts: dict[str, Any], precision: int, scale: int) -> Decimal:
    if not parts["value"] or parts["scale"] is None:
        raise unfit_value("the bytes and the scale of a decimal", "none")
    return decimal_of_unscaled(int.from_bytes(parts["value"], "big", signed=True), parts["scale"], precision, scale)


def _date_of_days(days: int) -> date:
    try:
        return _EPOCH_DATE + timedelta(days=days)
    except OverflowError as error:
        raise unfit_value("date in the years 1 to 9999", f"{days} days since 1970") from error


def _timestamp_of_count(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        raise unfit_value("timestamp in the years 1 to 9999", f"{micros} microseconds since 1970") from error


def _enum_reader(symbols: tuple[str, ...]) -> ReadBytes:
    def read(data: bytes, place: int) -> tuple[str, int]:
        index, place = read_branch_index(data, place, len(symbols))
        return symbols[index], place

    return read


def _nested_avro_reader(avro_type: AvroType, declared_type: str, ignores_case: bool) -> ReadBytes:
    if avro_type.kind == "record":
        return _record_reader(avro_type, field_types(declared_type), ignores_case)
    read_item = value_reader(avro_type.parts[0], item_type(declared_type), ignores_case)
    return _map_reader(read_item) if avro_type.kind == "map" else _array_reader(read_item)


def _record_reader(avro_type: AvroType, types_by_name: dict[str, str], ignores_case: bool) -> ReadBytes:
    """Return the reader of a record's fields by their names. Raises Unfit."""
    steps: list[tuple[str, AvroType, list[tuple[str, ReadBytes]]]] = []
    own_names = names_by_place(avro_type.fields, types_by_name, ignores_case=ignores_case)
    for place, (field_name, part) in enumerate(zip(avro_type.fields, avro_type.parts, strict=True)):
        try:
            readers = [
                (name, value_reader(part, types_by_name[name], ignores_case)) for name in own_names.get(place, ())
            ]
        except Unfit as error:
            raise Unfit(f"field {field_name}: {error}") from error
        steps.append((field_name, part, readers))
    nulls: dict[str, Any] = dict.fromkeys(types_by_name)

    def read(data: bytes, place: int) -> tuple[dict[str, Any], int]:
        row = nulls.copy()
        for field_name, part, readers in steps:
            name, start = field_name, place
            try:
                if not readers:
                    place = skip(part, data, start)
                for name, reader in readers:
                    row[name], place = reader(data, start)
            except Unfit as error:
                raise type(error)(f"field {name}: {error}") from error
        return row, place

    return read


def _array_reader(read_item: ReadBytes) -> ReadBytes:
    def read(data: bytes, place: int) -> tuple[list[Any], int]:
        items = []
        count, place = read_block_count(data, place)
        while count:
            for _ in range(count):
                item, place = read_item(data, place)
                items.append(item)
            count, place = read_block_count(data, place)
        return items, place

    return read


def _map_reader(read_item: ReadBytes) -> ReadBytes:
    def read(data: bytes, place: int) -> tuple[dict[str, Any], int]:
        values = {}
        count, place = read_block_count(data, place)
        while count:
            for _ in range(count):
                key, place = read_string(data, place)
                values[key], place = read_item(data, place)
            count, place = read_block_count(data, place)
        return values, place

    return read
