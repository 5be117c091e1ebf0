"""Values of Kafka Connect in JSON: what is meant by a number or a text is in the schema beside it, or is declared.

A value alone does not say it: "MTIzNA==" may be a decimal's bytes or a text, and 1767225600000 is a moment in
milliseconds, or another in microseconds. So nothing is guessed.

| column    | its JSON value                            | read by                                                      |
|-----------|-------------------------------------------|--------------------------------------------------------------|
| decimal   | a number                                  | its digits, rounded half up to the column's scale            |
|           | a text                                    | Connect's Decimal: the bytes of the unscaled value, with the |
|           |                                           | scale of the schema, else of the column; a text in the       |
|           |                                           | schema, or `decimals` "string": digits                       |
|           | {"scale": ..., "value": ...}              | the value's bytes with this scale: VariableScaleDecimal      |
| numbers   | a decimal's bytes, as a schema or a scale | its digits: Oracle's NUMBER, MySQL's BIGINT UNSIGNED         |
|           | beside them says                          |                                                              |
| string    | bytes, as the schema says                 | unfit: base64 is no text of the database                     |
| timestamp | a whole number                            | the unit of the schema's semantic type, else of `times`      |
|           | a text                                    | ISO 8601: ZonedTimestamp, IsoTimestamp                       |
| date      | a whole number                            | days, or as `times` says                                     |
|           | a text                                    | ISO 8601: IsoDate                                            |
| others    | as in JSON                                | see `lakehouse.formats.values.json_value`                    |

A decimal of bytes or digits that the column can't hold exactly is unfit. A name of a field is compared exactly first,
then in any case. Rules: Debezium's documentation, "Data types" of each connector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.formats.values.extended_json import ExactNumber
from lakehouse.formats.values.json_key import is_around_struct
from lakehouse.formats.values.json_text import JsonNumber, Members, write_parsed
from lakehouse.formats.values.json_value import (
    json_for_reason,
    json_reader,
    require_list,
    require_members,
    require_text,
)
from lakehouse.formats.values.text_value import (
    NOT_FINITE,
    fit_decimal,
    parse_binary,
    parse_date,
    parse_decimal,
    parse_timestamp,
    precision_and_scale,
)
from lakehouse.formats.values.unfit import Unfit, clip_text, unfit_value
from lakehouse.plan.expression.schema import Column, base_type, parse_type
from lakehouse.plan.names.debezium_options import UNITS
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX
from lakehouse.semantics.number_text import exact_decimal
from lakehouse.semantics.surrogates import replace_surrogates

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_UNIT_OF_SEMANTIC_TYPE = {
    "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
    "org.apache.kafka.connect.data.Timestamp": "millis",
    "io.debezium.time.Date": "days",
    "org.apache.kafka.connect.data.Date": "days",
}
_MOMENT_TEXTS = {
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
}
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_SCALE = re.compile("[+-]?[0-9]{1,100}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DATE = date(1970, 1, 1)

ReadValue = Callable[[Any], Any]
# Gives, of a value's schema or None, the function that reads such values: what a schema says is looked up once.
Reader = Callable[[Any], ReadValue]


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """The options for values without a schema. decimals: "", "precise" or "string". units: of UNITS, by field."""

    decimals: str = ""
    units: Mapping[str, str] = field(default_factory=dict, hash=False)


class Fields:
    """The fields of a struct, found by their exact name or else in any case; of a repeated name, the last counts."""

    __slots__ = ("_by_lower_name", "_by_name")

    def __init__(self, members: Members) -> None:
        self._by_name = dict(members)
        self._by_lower_name: dict[str, list[str]] | None = None

    def get(self, name: str) -> Any:
        """Return the value of a field; None if there is none. Raises Unfit if several have it in other cases."""
        if name in self._by_name:
            return self._by_name[name]
        if self._by_lower_name is None:
            self._by_lower_name = {}
            for own_name in self._by_name:
                self._by_lower_name.setdefault(own_name.lower(), []).append(own_name)
        names = self._by_lower_name.get(name.lower())
        if names is None:
            return None
        if len(names) > 1:
            raise Unfit(f"expected one field {name}, found {', '.join(names)}; name the one: \"... from 'name'\"")
        return self._by_name[names[0]]


class FieldSchemas(Fields):
    """The schemas of a struct's fields, and the functions that read the fields' values by them."""

    __slots__ = ("_functions",)

    def __init__(self, members: Members) -> None:
        super().__init__(members)
        self._functions: dict[tuple[str, str, str, str], ReadValue] = {}

    def value_reader(self, name: str, type_text: str, decimals: str, unit: str) -> ReadValue:
        """Return the function that reads a field's values as a type. Raises Unfit as `get`."""
        function_key = (name, type_text, decimals, unit)
        if function_key not in self._functions:
            self._functions[function_key] = connect_reader(type_text, decimals, unit)(self.get(name))
        return self._functions[function_key]


def split_payload(parsed_value: Any) -> tuple[Any, Any]:
    """Return the schema and the value of {"schema": ..., "payload": ...}; else None and the value itself."""
    if isinstance(parsed_value, Members) and len(parsed_value) == 2:
        parts = dict(parsed_value)
        if parts.keys() == {"schema", "payload"} and isinstance(parts["schema"], Members | None):
            return parts["schema"], parts["payload"]
    return None, parsed_value


def fields_of_schema(schema: Any) -> FieldSchemas | None:
    """Return the schemas of a struct's fields by their names; None if it has none."""
    fields = dict(schema).get("fields") if isinstance(schema, Members) else None
    if not isinstance(fields, list):
        return None
    names = ((dict(item).get("field"), item) for item in fields if isinstance(item, Members))
    return FieldSchemas(Members((name, item) for name, item in names if isinstance(name, str)))


def read_fields(
    members: Members,
    columns: tuple[Column, ...],
    field_schemas: FieldSchemas | None,
    declared: DeclaredValues,
    was_sent: Callable[[str, Any], bool] | None = None,
) -> dict[str, Any]:
    """Return the row of columns in a struct; an absent field is null. Raises Unfit.

    field_schemas: those of the struct's fields, if it has a schema. was_sent: says of a field whether its value is one,
    or only says that there is one: then it is null.
    """
    row: dict[str, Any] = {}
    fields = Fields(members)
    for column in columns:
        name = column.name
        value = fields.get(name)
        if value is not None:
            try:
                if was_sent is None or was_sent(name, value):
                    meaning = (column.type, declared.decimals, declared.units.get(name, ""))
                    if field_schemas is None:
                        read = connect_reader(*meaning)(None)
                    else:
                        read = field_schemas.value_reader(name, *meaning)
                    value = read(value)
                else:
                    value = None
            except Unfit as error:
                raise Unfit(f"field {name}: {error}") from error
        row[name] = value
    return row


def read_row(
    payload: Any, columns: tuple[Column, ...], schema: Any, declared: DeclaredValues, *, is_key: bool = False
) -> dict[str, Any]:
    """Return the row in a struct, or of the only column in a value alone. schema: beside it, or None. Raises Unfit."""
    if isinstance(payload, Members) and not (len(columns) == 1 and _is_alone(payload, columns[0], schema, is_key)):
        return read_fields(payload, columns, fields_of_schema(schema), declared)
    if len(columns) > 1:
        names = ", ".join(column.name for column in columns)
        raise Unfit(f"expected an object of {names}, found {clip_text(write_parsed(payload))}")
    (column,) = columns
    field_schemas = FieldSchemas(Members([(column.name, schema)])) if schema is not None else None
    return read_fields(Members([(column.name, payload)]), columns, field_schemas, declared)


def _is_alone(members: Members, column: Column, schema: Any, is_key: bool) -> bool:
    """Say whether an object is the value of the only column, and does not stand around it.

    A map is, if the schema says that it is one. A key that is a struct is by the rule of `json_key`.
    """
    base_name = base_type(column.type)
    if base_name == "struct" and is_key:
        return not is_around_struct(members, column, str.lower)
    return base_name == "map" and is_written_as(schema, "map")


@lru_cache(maxsize=1024)
def connect_reader(type_text: str, decimals: str, unit: str) -> Reader:
    """Return the reader of a type, for parsed values that are not null; what it gives raises Unfit."""
    base_name = base_type(type_text)
    match base_name:
        case "decimal":
            precision, scale = precision_and_scale(type_text)
            return lambda schema: lambda value: _read_decimal(value, schema, precision, scale, decimals)
        case "timestamp":
            return lambda schema: lambda value: _read_connect_timestamp(value, schema, unit)
        case "date":
            return lambda schema: lambda value: _read_date(value, schema, unit)
        case "binary":
            return lambda schema: lambda value: _read_binary(value, schema)
        case "struct" | "array" | "map":
            return _nested_connect_reader(parse_type(type_text), decimals, unit)
    json_reads = json_reader(type_text)
    if base_name in _NUMBERS:
        return lambda schema: lambda value: json_reads(_plain_number(value, schema))
    if base_name == "string":
        return lambda schema: lambda value: json_reads(_require_no_bytes(value, schema))
    return lambda schema: json_reads


def _nested_connect_reader(type_tree: exp.DataType, decimals: str, unit: str) -> Reader:
    base_name = base_type(type_tree.sql("spark"))
    if base_name == "struct":
        columns = tuple(Column(node.name, node.args["kind"].sql("spark")) for node in type_tree.expressions)
        declared = DeclaredValues(decimals, dict.fromkeys((column.name for column in columns), unit))
        return lambda schema: _struct_reader(columns, fields_of_schema(schema), declared)
    item_reader = connect_reader(type_tree.expressions[-1].sql("spark"), decimals, unit)
    if base_name == "array":
        return lambda schema: _array_reader(item_reader(_part(schema, "items")))
    return lambda schema: _map_reader(item_reader(_part(schema, "values")))


def _struct_reader(
    columns: tuple[Column, ...], field_schemas: FieldSchemas | None, declared: DeclaredValues
) -> ReadValue:
    return lambda value: read_fields(require_members(value, "an object"), columns, field_schemas, declared)


def _array_reader(read_item: ReadValue) -> ReadValue:
    return lambda value: [None if item is None else read_item(item) for item in require_list(value, "an array")]


def _map_reader(read_item: ReadValue) -> ReadValue:
    return lambda value: {
        replace_surrogates(name): None if item is None else read_item(item)
        for name, item in require_members(value, "an object")
    }


def _part(schema: Any, name: str) -> Any:
    return dict(schema).get(name) if isinstance(schema, Members) else None


def _semantic_type(schema: Any) -> str:
    name = _part(schema, "name")
    return name if isinstance(name, str) else ""


def type_of_meaning(schema: Any) -> str:
    """Return the type of a column that holds what a field's schema means; "" where the values themselves say it."""
    name = _semantic_type(schema)
    if (unit := _UNIT_OF_SEMANTIC_TYPE.get(name)) is not None:
        return "date" if unit == "days" else "timestamp"
    if name != _DECIMAL:
        return _MOMENT_TEXTS.get(name, "")
    with suppress(Unfit):
        scale = _scale(_part(_part(schema, "parameters"), "scale"))
        if 0 <= scale <= DECIMAL_DIGITS_MAX:
            return f"decimal({DECIMAL_DIGITS_MAX}, {scale})"
    return ""


def _read_decimal(value: Any, schema: Any, precision: int, scale: int, decimals: str) -> Decimal:
    type_text = f"decimal({precision}, {scale})"
    if isinstance(value, ExactNumber):
        return _decimal_of_digits(value, precision, scale)
    if isinstance(value, JsonNumber):
        return parse_decimal(value, precision, scale)
    if isinstance(value, Members):
        parts = dict(value)
        unscaled = parts.get("value")
        if parts.keys() != {"scale", "value"} or not isinstance(unscaled, str) or isinstance(unscaled, JsonNumber):
            raise unfit_value(f"{type_text}: a number, or an object of scale and value", json_for_reason(value))
        return decimal_of_unscaled(_unscaled(unscaled), _scale(parts["scale"]), precision, scale)
    if not _is_text(value):
        raise unfit_value(type_text, json_for_reason(value))
    own_scale = scale_of_bytes(schema, decimals, scale)
    if own_scale is not None:
        return decimal_of_unscaled(_unscaled(value), own_scale, precision, scale)
    if has_digits(schema, decimals):
        return _decimal_of_digits(value, precision, scale)
    if value in NOT_FINITE:
        raise Unfit(f"expected {type_text}, found {value}: a decimal has no such value. Declare double, which has")
    raise Unfit(
        f"a text may be the bytes of a {type_text} or its digits, and no schema says which: let the converter write it "
        "(schemas.enable=true), or, of a change log, declare decimals='precise' or decimals='string' (Debezium's "
        f"decimal.handling.mode); found {clip_text(json_for_reason(value))}"
    )


def _decimal_of_digits(text: str, precision: int, scale: int) -> Decimal:
    parse_decimal(text, precision, scale)  # its digits fit, rounded: then an exact one can be made
    return _exact_decimal(exact_decimal(text), precision, scale)


def scale_of_bytes(schema: Any, decimals: str, scale: int) -> int | None:
    """Return the scale of the bytes that a text is; None if it is none. scale: of the column. Raises Unfit."""
    if _semantic_type(schema) == _DECIMAL:
        return _scale(_part(_part(schema, "parameters"), "scale"))
    return scale if schema is None and decimals == "precise" else None


def has_digits(schema: Any, decimals: str) -> bool:
    """Say whether a text that is not a decimal's bytes is its digits."""
    return is_written_as(schema, "string") or (schema is None and decimals == "string")


def unit_of_number(schema: Any, unit: str) -> str:
    """Return the unit in which a number is a moment; empty if nothing says it. unit: the declared one, or empty."""
    return _UNIT_OF_SEMANTIC_TYPE.get(_semantic_type(schema), unit)


def is_written_as(schema: Any, type_name: str) -> bool:
    """Say whether a schema is one of this type: "string", "bytes"."""
    return bool(_part(schema, "type") == type_name)


def _plain_number(value: Any, schema: Any) -> Any:
    """Return a decimal's bytes as a number of JSON, so that a whole one fits a whole column; else the value itself."""
    if isinstance(value, Members) and (parts := dict(value)).keys() == {"scale", "value"} and _is_text(parts["value"]):
        unscaled, scale = _unscaled(parts["value"]), _scale(parts["scale"])
    elif _is_text(value) and _semantic_type(schema) == _DECIMAL:
        unscaled, scale = _unscaled(value), _scale(_part(_part(schema, "parameters"), "scale"))
    else:
        return value
    _require_short(unscaled, "a number")
    return JsonNumber(_digits_of(unscaled, scale))


def _digits_of(unscaled: int, scale: int) -> str:
    """Return the digits of a number with so many of them after the point; without a point if it is whole."""
    if scale > 0 and unscaled % 10**scale:
        return f"{Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)):f}"
    return str(unscaled // 10**scale if scale > 0 else unscaled * 10**-scale)


def _require_no_bytes(value: Any, schema: Any) -> Any:
    if is_written_as(schema, "bytes"):
        declared_type = "decimal" if _semantic_type(schema) == _DECIMAL else "binary"
        found_text = f"bytes ({_semantic_type(schema) or 'of the schema'})"
        raise Unfit(f"expected string, found {found_text}: declare {declared_type}; {json_for_reason(value)}")
    return value


def _unscaled(text: str) -> int:
    data = parse_binary(text)
    if not data:
        raise unfit_value("the bytes of a decimal", "none")
    return int.from_bytes(data, "big", signed=True)


def _scale(value: Any) -> int:
    is_whole = _SCALE.fullmatch(value) is not None if isinstance(value, str) else type(value) is int
    if not is_whole:
        raise unfit_value("the scale of a decimal", json_for_reason(value))
    scale = int(value)
    if not -1000 <= scale <= 1000:
        raise unfit_value("the scale of a decimal, -1000 to 1000", str(scale))
    return scale


def decimal_of_unscaled(unscaled: int, own_scale: int, precision: int, scale: int) -> Decimal:
    """Return a decimal of a column's scale; own_scale: how many of its digits are after the point. Raises Unfit."""
    _scale(own_scale)
    _require_short(unscaled, f"decimal({precision}, {scale})")
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    return _exact_decimal(Decimal((sign, digits, -own_scale)), precision, scale)


def _require_short(unscaled: int, expected: str) -> None:
    if unscaled.bit_length() > 4096:
        raise unfit_value(expected, f"a number of {unscaled.bit_length()} bits")


def _exact_decimal(number: Decimal, precision: int, scale: int) -> Decimal:
    """Return a decimal with the column's scale. Raises Unfit if a digit of it would be lost."""
    with suppress(Unfit):
        if (fitted_number := fit_decimal(number, precision, scale)) == number:
            return fitted_number
    raise unfit_value(f"decimal({precision}, {scale}) without a loss", f"{number:f}"[:200])


def _read_connect_timestamp(value: Any, schema: Any, unit: str) -> datetime:
    semantic_type = _semantic_type(schema)
    if not isinstance(value, JsonNumber):
        return parse_timestamp(require_text(value, "timestamp"))
    own_unit = unit_of_number(schema, unit)
    if not own_unit:
        raise Unfit(
            "a number may be milliseconds, microseconds or nanoseconds, and no schema says which: let the converter "
            'write it (schemas.enable=true), or, of a change log, declare times={"...": "millis"}, or "micros", or '
            f'"nanos"; found {clip_text(json_for_reason(value))}'
        )
    if own_unit == "days":
        raise unfit_value("timestamp", f"a date, {semantic_type or 'in days'}: {json_for_reason(value)}")
    try:
        return _EPOCH + timedelta(microseconds=_whole(value, "timestamp") * UNITS[own_unit] // UNITS["micros"])
    except OverflowError as error:
        raise unfit_value(f"timestamp in the years 1 to 9999, in {own_unit}", json_for_reason(value)) from error


def _read_date(value: Any, schema: Any, unit: str) -> date:
    if not isinstance(value, JsonNumber):
        return parse_date(require_text(value, "date"))
    own_unit = unit_of_number(schema, unit or "days")
    if own_unit != "days" and not unit:
        raise unfit_value("date", f"a timestamp, {_semantic_type(schema)}: {json_for_reason(value)}")
    try:
        return _EPOCH_DATE + timedelta(days=_whole(value, "date") * UNITS[own_unit] // UNITS["days"])
    except OverflowError as error:
        raise unfit_value(f"date in the years 1 to 9999, in {own_unit}", json_for_reason(value)) from error


def _read_binary(value: Any, schema: Any) -> bytes:
    if not _is_text(value) or is_written_as(schema, "string"):
        raise unfit_value("base64 (Debezium's binary.handling.mode is bytes)", json_for_reason(value))
    return parse_binary(value)


def _whole(value: JsonNumber, type_name: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise unfit_value(f"{type_name}: a whole number", json_for_reason(value)) from None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, JsonNumber)
