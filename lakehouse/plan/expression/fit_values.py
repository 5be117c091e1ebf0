"""Convert values from users' functions, one by one, to their declared types.

So a value is the same whether or not it was stored in a table's row in between: a table does not depend on where its
batches end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.plan.expression.schema import base_type, parse_type

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
PLAIN: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "binary": (bytes, bytearray), "date": date, "timestamp": datetime,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TypeFit:
    """A function that converts a value to a Spark type, or raises ValueError if it does not fit. "" is any type."""

    kind: str

    def __call__(self, value: Any) -> Any:
        return _fit_or_null(self.kind)(value) if self.kind else value


@lru_cache(maxsize=256)
def _fit_or_null(type_text: str) -> Callable[[Any], Any]:
    value_fit = _fit_of_type(type_text)
    return lambda value: None if value is None else value_fit(_python_value(value))


def _python_value(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _fit_of_type(type_text: str) -> Callable[[Any], Any]:
    base_name = base_type(type_text)
    if base_name in BITS:
        return lambda value: _fit_integer(value, BITS[base_name])
    if base_name in ("float", "double"):
        return lambda value: _fit_double(value, base_name)
    if base_name == "decimal":
        type_digits = [int(item.name) for item in parse_type(type_text).find_all(exp.Literal)]
        precision, scale = (*type_digits, *(10, 0)[len(type_digits) :])
        return lambda value: _fit_decimal(value, precision, scale)
    if base_name in PLAIN:
        return lambda value: _fit_plain(value, base_name)
    tree = parse_type(type_text)
    if base_name == "struct":
        field_fits = {item.name: _fit_or_null(item.args["kind"].sql("spark")) for item in tree.expressions}
        return lambda value: _fit_struct(value, field_fits)
    inner_fits = [_fit_or_null(item.sql("spark")) for item in tree.expressions]
    if base_name == "array":
        return lambda value: [inner_fits[0](item) for item in _require_type(value, (list, tuple))]
    return lambda value: {
        _require_key(inner_fits[0](k)): inner_fits[1](v) for k, v in _require_type(value, Mapping).items()
    }


def _fit_struct(value: Any, field_fits: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return a struct; a field that is left out is null. Raises ValueError for a field that the type does not have."""
    if unknown_names := _require_type(value, Mapping).keys() - field_fits.keys():
        raise ValueError(f"found the field {min(map(str, unknown_names))!r}, expected {', '.join(field_fits)}")
    return {name: field_fit(value.get(name)) for name, field_fit in field_fits.items()}


def _require_type(value: Any, python_type: Any) -> Any:
    if not isinstance(value, python_type):
        raise ValueError(f"found {value!r}")
    return value


def _require_key(value: Any) -> Any:
    if value is None:
        raise ValueError("a map has no null as a key")
    return value


def _fit_integer(value: Any, bits: int) -> int:
    number = int(_require_type(value, (int, float, Decimal)))
    if number != value or isinstance(value, bool) or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"found {value!r}")
    return number


def _fit_double(value: Any, base_name: str) -> float:
    number = float(_require_type(value, (int, float, Decimal)))
    return float(struct.unpack("f", struct.pack("f", number))[0]) if base_name == "float" else number


def _fit_decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Return an exact decimal of this scale. Raises ValueError for further digits, and does not round them."""
    sign, digits, exponent = Decimal(_require_type(value, (int, Decimal))).as_tuple()
    if digits == (0,) and isinstance(exponent, int):
        return Decimal((0, (0,), -scale))
    zeros = int(exponent) + scale if isinstance(exponent, int) else -1
    if zeros < 0 or len(digits) + zeros > precision:
        raise ValueError(f"found {value!r:.100}")
    return Decimal((sign, (*digits, *(0,) * zeros), -scale))


def _fit_plain(value: Any, base_name: str) -> Any:
    value = _require_type(value, PLAIN[base_name])
    if base_name == "string":
        value.encode("utf-8")  # raises a ValueError for half of a surrogate pair
    if base_name == "timestamp":
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if base_name == "date" and isinstance(value, datetime):
        raise ValueError(f"found {value!r}")
    return bytes(value) if base_name == "binary" else value
