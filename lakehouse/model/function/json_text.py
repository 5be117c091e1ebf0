"""Spark SQL's functions of JSON, and its VARIANT: a value as JSON has it, with its kind."""

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
from lakehouse.semantics.java_double import java_double

_LONG = 1 << 63
_DIGITS_MAX = 38
_PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class Number(str):
    """A number as it is written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A value of JSON: None, a bool, a `Number`, a text, a list or a dict."""

    value: Any


class _TwiceError(ValueError):
    """An object has two fields of one name."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _TwiceError
    return members


def _not_json(text: str) -> NoReturn:
    raise ValueError(text)


def _parsed(text: str) -> Any:
    """What a text is as JSON. Raises ValueError for one that is none."""
    try:
        return json.loads(
            text, object_pairs_hook=_members, parse_int=_whole, parse_float=Number, parse_constant=_not_json
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # Spark's reader stops after the first value, and may not see it
            raise NeedsSpark(f"the model does not read {text!r:.60} as JSON; run this on Spark.") from error
        raise


def _whole(digits: str) -> Number:
    return Number("0" if digits == "-0" else digits)


def try_parse_json(text: str) -> Variant | None:
    """Return the VARIANT of a text; None for one that is no JSON, or has two fields of one name."""
    try:
        return Variant(_parsed(text))
    except (ValueError, RecursionError):
        return None


def schema_of_variant(variant: Variant) -> str:
    """Return the type of a VARIANT; values of several types in an array are VARIANT."""
    return _schema(variant.value)


def _schema(value: Any) -> str:
    match value:
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case Number():
            return _number_schema(value)
        case str():
            return "STRING"
        case list():
            kinds = {_schema(item) for item in value} or {"VOID"}
            return f"ARRAY<{kinds.pop() if len(kinds) == 1 else 'VARIANT'}>"
    fields = (f"{_field_name(name)}: {_schema(value[name])}" for name in sorted(value))
    return f"OBJECT<{', '.join(fields)}>"


def _field_name(name: str) -> str:
    """A field's name as Spark writes it: in backticks where it is no plain word."""
    is_plain = re.fullmatch(r"\w+", name, re.ASCII) and not re.fullmatch(r"\d+", name, re.ASCII)
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def _number_schema(text: str) -> str:
    if text.lstrip("-").isdecimal() and -_LONG <= int(text) < _LONG:
        return "BIGINT"
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = len((whole + fraction.rstrip("0")).lstrip("0"))
    if _PLAIN.fullmatch(text) and digits <= _DIGITS_MAX:
        scale = len(text.partition(".")[2].rstrip("0"))
        return f"DECIMAL({max(digits, scale, 1)},{scale})"
    return "DOUBLE"


def cast_variant(kind: str) -> Callable[[Variant], Any]:
    """Return a cast of a VARIANT to a type. The cast raises NeedsSpark where the model leaves it to Spark."""

    def cast(variant: Variant) -> Any:
        value = variant.value
        match kind:
            case "map<string, variant>" if isinstance(value, dict):
                return {name: Variant(item) for name, item in value.items()}
            case "array<variant>" if isinstance(value, list):
                return [Variant(item) for item in value]
            case "bigint" if isinstance(value, Number) and _number_schema(value) == "BIGINT":
                return int(value)
            case "double" if isinstance(value, Number):
                return float(value)
            case "string" if isinstance(value, str) and not isinstance(value, Number):
                return value
            case "boolean" if isinstance(value, bool):
                return value
        if value is None:
            return None
        raise NeedsSpark(f"the model does not cast a VARIANT to {kind} here; run this on Spark.")

    return cast


def from_json(text: str, schema: str) -> Any:
    """Return from_json of a map or an array of texts: what is no text inside is JSON; None for what does not fit."""
    kind = schema.replace(" ", "").lower()
    if kind not in ("map<string,string>", "array<string>"):
        raise NeedsSpark(f"the model reads JSON as a map or an array of texts, not as {schema!r}; run this on Spark.")
    try:
        value = _parsed(text)
    except _TwiceError as error:
        raise NeedsSpark("the model does not read two fields of one name; run this on Spark.") from error
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and kind == "array<string>":
        return [_as_text(item) for item in value]
    if isinstance(value, dict) and kind == "map<string,string>":
        return {name: _as_text(item) for name, item in value.items()}
    return None


def _as_text(value: Any) -> Any:
    is_text = isinstance(value, str) and not isinstance(value, Number)
    return value if value is None or is_text else written(value)


def written(value: Any) -> str:
    """Return a value as JSON, compact: a Decimal with its digits, other numbers as Java writes them."""
    match value:
        case Number():
            return str(value) if value.lstrip("-").isdecimal() else java_double(float(value))
        case Decimal():
            return str(value) if value else str(abs(value))
        case dict():
            return "{" + ",".join(f"{quoted(name)}:{written(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case str():
            return quoted(value)
    return json.dumps(value)


def quoted(text: str) -> str:
    """A text as Java writes it: escapes in capitals."""
    written = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\(?:u([0-9a-f]{4})|.)", lambda part: f"\\u{part[1].upper()}" if part[1] else part[0], written)


def to_json(value: Any, options: Mapping[str, str] | None = None) -> str:
    """Return to_json of an array, a map or a struct. NeedsSpark for moments, and for fields that may be left out."""
    if options != {"ignoreNullFields": "false"} and (options or _has_null_member(value)):
        raise NeedsSpark("the model writes null fields with map('ignoreNullFields', 'false') alone; run this on Spark.")
    return _json(value)


def _has_null_member(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(item is None or _has_null_member(item) for item in value.values())
    return isinstance(value, list) and any(map(_has_null_member, value))


def _json(value: Any) -> str:
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case str():
            return quoted(value)
        case float():
            shown = java_double(value)
            return shown if shown[-1].isdigit() else f'"{shown}"'
        case Decimal():
            return str(value)
        case bytes():
            return f'"{base64.b64encode(value).decode("ascii")}"'
        case Mapping():
            return "{" + ",".join(f"{quoted(str(name))}:{_json(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_json, value)) + "]"
        case date() | datetime():
            raise NeedsSpark(f"the model does not write {value!r} as JSON; run this on Spark.")
    raise NeedsSpark(f"the model does not write {value!r:.60} as JSON; run this on Spark.")


STRICT: dict[str, Callable[..., Any]] = {
    "try_parse_json": try_parse_json,
    "schema_of_variant": schema_of_variant,
    "from_json": from_json,
    "to_json": to_json,
}
