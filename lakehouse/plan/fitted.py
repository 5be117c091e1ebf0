"""Values from users' functions, converted one by one to their declared type.

So they are the same whether or not they went through a table's row in between: a table does not depend on where its
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

from lakehouse.plan.schema import base_type, parse_type

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
PLAIN: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "binary": (bytes, bytearray), "date": date, "timestamp": datetime,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fitted:
    """A function that converts a value to a Spark type; it raises ValueError if it does not fit. "": any type."""

    kind: str

    def __call__(self, value: Any) -> Any:
        return _fit(self.kind)(value) if self.kind else value


@lru_cache(maxsize=256)
def _fit(kind: str) -> Callable[[Any], Any]:
    fit = _of(kind)
    return lambda value: None if value is None else fit(value)


def _of(kind: str) -> Callable[[Any], Any]:
    base = base_type(kind)
    if base in BITS:
        return lambda value: _integer(value, BITS[base])
    if base in ("float", "double"):
        return lambda value: _double(value, base)
    if base == "decimal":
        digits = [int(item.name) for item in parse_type(kind).find_all(exp.Literal)]
        precision, scale = (*digits, *(10, 0)[len(digits) :])
        return lambda value: _decimal(value, precision, scale)
    if base in PLAIN:
        return lambda value: _plain(value, base)
    tree = parse_type(kind)
    if base == "struct":
        fields = {item.name: _fit(item.args["kind"].sql("spark")) for item in tree.expressions}
        return lambda value: {name: fit(_of_type(value, Mapping).get(name)) for name, fit in fields.items()}
    inner = [_fit(item.sql("spark")) for item in tree.expressions]
    if base == "array":
        return lambda value: [inner[0](item) for item in _of_type(value, (list, tuple))]
    return lambda value: {_key(inner[0](k)): inner[1](v) for k, v in _of_type(value, Mapping).items()}


def _of_type(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"found {value!r}")
    return value


def _key(value: Any) -> Any:
    if value is None:
        raise ValueError("a map has no null as a key")
    return value


def _integer(value: Any, bits: int) -> int:
    number = int(_of_type(value, (int, float, Decimal)))
    if number != value or isinstance(value, bool) or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"found {value!r}")
    return number


def _double(value: Any, base: str) -> float:
    number = float(_of_type(value, (int, float, Decimal)))
    return float(struct.unpack("f", struct.pack("f", number))[0]) if base == "float" else number


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    """An exact decimal of this scale; further digits are not rounded silently."""
    sign, digits, exponent = Decimal(_of_type(value, (int, Decimal))).as_tuple()
    if digits == (0,) and isinstance(exponent, int):
        return Decimal((0, (0,), -scale))
    zeros = int(exponent) + scale if isinstance(exponent, int) else -1
    if zeros < 0 or len(digits) + zeros > precision:
        raise ValueError(f"found {value!r:.100}")
    return Decimal((sign, (*digits, *(0,) * zeros), -scale))


def _plain(value: Any, base: str) -> Any:
    value = _of_type(value, PLAIN[base])
    if base == "string":
        value.encode("utf-8")  # half of a surrogate pair has no bytes: a ValueError
    if base == "timestamp":
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if base == "date" and isinstance(value, datetime):
        raise ValueError(f"found {value!r}")
    return bytes(value) if base == "binary" else value
