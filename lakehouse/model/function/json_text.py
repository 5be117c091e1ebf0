"""Spark SQL's functions of JSON, and its VARIANT: a JSON value with its type."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse.errors import NeedsSpark
from lakehouse.plan.names.field import in_backticks
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX
from lakehouse.semantics.java_double import java_double
from lakehouse.semantics.surrogates import SURROGATE, escape_surrogates, replace_surrogates

_LONG = 1 << 63
_PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class NumberText(str):
    """A number in its written form."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A JSON value: None, a bool, a `NumberText`, a text, a list or a dict."""

    value: Any


class _TwiceError(ValueError):
    """Raised for an object with two fields of the same name."""


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _TwiceError
    return members


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _parse_json_text(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError for invalid JSON."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_members,
            parse_int=_normalize_whole,
            parse_float=NumberText,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # Spark's reader stops after the first value, and may not notice
            raise NeedsSpark(f"the model does not read {text!r:.60} as JSON; run this on Spark.") from error
        raise


def _normalize_whole(digits: str) -> NumberText:
    return NumberText("0" if digits == "-0" else digits)


def try_parse_json(text: str) -> Variant | None:
    """Return the VARIANT of a text; None for invalid JSON, two fields of one name, and half of a surrogate pair."""
    try:
        json_value = _parse_json_text(text)
        has_half = SURROGATE.search(json.dumps(json_value, ensure_ascii=False)) is not None
    except (ValueError, RecursionError):
        return None
    return None if has_half else Variant(json_value)


def schema_of_variant(variant: Variant) -> str:
    """Return the type of a VARIANT; values of several types in an array are VARIANT."""
    return _schema_of_value(variant.value)


def _schema_of_value(value: Any) -> str:
    match value:
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case NumberText():
            return _number_schema(value)
        case str():
            return "STRING"
        case list():
            item_schemas = {_schema_of_value(item) for item in value} or {"VOID"}
            return f"ARRAY<{item_schemas.pop() if len(item_schemas) == 1 else 'VARIANT'}>"
    member_schemas = (f"{_field_name(name)}: {_schema_of_value(value[name])}" for name in sorted(value))
    return f"OBJECT<{', '.join(member_schemas)}>"


def _field_name(name: str) -> str:
    """Return a field's name as Spark writes it: in backticks unless it is a plain word."""
    is_plain = re.fullmatch(r"\w+", name, re.ASCII) and not re.fullmatch(r"\d+", name, re.ASCII)
    return name if is_plain else in_backticks(name)


def _number_schema(number_text: str) -> str:
    if number_text.lstrip("-").isdecimal() and -_LONG <= int(number_text) < _LONG:
        return "BIGINT"
    whole_digits, _, fraction = number_text.lstrip("-").partition(".")
    digit_count = len((whole_digits + fraction.rstrip("0")).lstrip("0"))
    if _PLAIN.fullmatch(number_text) and digit_count <= DECIMAL_DIGITS_MAX:
        scale = len(number_text.partition(".")[2].rstrip("0"))
        return f"DECIMAL({max(digit_count, scale, 1)},{scale})"
    return "DOUBLE"


def cast_variant(target_type: str) -> Callable[[Variant], Any]:
    """Return a cast of a VARIANT to a type. The cast raises NeedsSpark where the model leaves it to Spark."""

    def cast(variant: Variant) -> Any:
        json_value = variant.value
        match target_type:
            case "map<string, variant>" if isinstance(json_value, dict):
                return {name: Variant(item) for name, item in json_value.items()}
            case "array<variant>" if isinstance(json_value, list):
                return [Variant(item) for item in json_value]
            case "bigint" if isinstance(json_value, NumberText) and _number_schema(json_value) == "BIGINT":
                return int(json_value)
            case "double" if isinstance(json_value, NumberText):
                return float(json_value)
            case "string" if isinstance(json_value, str) and not isinstance(json_value, NumberText):
                return json_value
            case "boolean" if isinstance(json_value, bool):
                return json_value
        if json_value is None:
            return None
        raise NeedsSpark(f"the model does not cast a VARIANT to {target_type} here; run this on Spark.")

    return cast


def from_json(text: str, schema: str) -> Any:
    """Return from_json of a map or an array of texts: other values become JSON; None if the text does not fit."""
    normalized_schema = schema.replace(" ", "").lower()
    if normalized_schema not in ("map<string,string>", "array<string>"):
        raise NeedsSpark(f"the model reads JSON as a map or an array of texts, not as {schema!r}; run this on Spark.")
    try:
        json_value = _parse_json_text(text)
    except _TwiceError as error:
        raise NeedsSpark("the model does not read two fields of one name; run this on Spark.") from error
    except (ValueError, RecursionError):
        return None
    if isinstance(json_value, list) and normalized_schema == "array<string>":
        return [_item_as_text(item) for item in json_value]
    if isinstance(json_value, dict) and normalized_schema == "map<string,string>":
        entries = {replace_surrogates(name): _item_as_text(item) for name, item in json_value.items()}
        if len(entries) < len(json_value):
            raise NeedsSpark("the model does not read two fields of one name; run this on Spark.")
        return entries
    return None


def _item_as_text(value: Any) -> str | None:
    """Return an item: a text as it is, anything else as JSON, in which Spark escapes all surrogates."""
    if value is None:
        return None
    is_text = isinstance(value, str) and not isinstance(value, NumberText)
    return replace_surrogates(value) if is_text else escape_surrogates(to_compact_json(value))


def to_compact_json(value: Any) -> str:
    """Return a value as compact JSON: a Decimal with its digits, other numbers as Java writes them."""
    match value:
        case NumberText():
            return str(value) if value.lstrip("-").isdecimal() else java_double(float(value))
        case Decimal():
            return str(value) if value else str(abs(value))
        case dict():
            return "{" + ",".join(f"{quote_text(name)}:{to_compact_json(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(to_compact_json, value)) + "]"
        case str():
            return quote_text(value)
    return json.dumps(value)


def quote_text(text: str) -> str:
    """Return a text as a JSON string as Java writes it, with escapes in capitals."""
    json_string = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\(?:u([0-9a-f]{4})|.)", lambda part: f"\\u{part[1].upper()}" if part[1] else part[0], json_string)


def to_json(value: Any, options: Mapping[str, str] | None = None) -> str:
    """Return to_json of an array, a map or a struct. NeedsSpark for moments, and for fields that may be left out."""
    if options != {"ignoreNullFields": "false"} and (options or _has_null_member(value)):
        raise NeedsSpark("the model writes null fields with map('ignoreNullFields', 'false') alone; run this on Spark.")
    return _to_json_text(value)


def _has_null_member(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(item is None or _has_null_member(item) for item in value.values())
    return isinstance(value, list) and any(map(_has_null_member, value))


def _to_json_text(value: Any) -> str:
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case str():
            return quote_text(value)
        case float():
            double_text = java_double(value)
            return double_text if double_text[-1].isdigit() else f'"{double_text}"'
        case Decimal():
            return str(value)
        case bytes():
            return f'"{base64.b64encode(value).decode("ascii")}"'
        case Mapping():
            return (
                "{" + ",".join(f"{quote_text(str(name))}:{_to_json_text(item)}" for name, item in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(_to_json_text, value)) + "]"
        case date() | datetime():
            raise NeedsSpark(f"the model does not write {value!r} as JSON; run this on Spark.")
    raise NeedsSpark(f"the model does not write {value!r:.60} as JSON; run this on Spark.")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "try_parse_json": try_parse_json,
    "schema_of_variant": schema_of_variant,
    "from_json": from_json,
    "to_json": to_json,
}
