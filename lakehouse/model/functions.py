"""Spark's functions in Python, for the model: those whose meaning needs no type that a Python value does not have.

A function that is not here, or that meets a value of which it can't tell what Spark makes, needs Spark. Arguments are
not null, but for the functions of `WITH_NULLS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from lakehouse.errors import NeedsSpark
from lakehouse.model.scalar import modulo, to_string
from lakehouse.semantics.aggregate.aggregate import LONG_MAX, LONG_MIN
from lakehouse.semantics.moment import milliseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
Lambda = Callable[..., Any]


WORDED = (
    "CAST",
    "TRY_CAST",
    "EXTRACT",
    "TRIM",
    "OVERLAY",
    "POSITION",
    "SUBSTRING",
    "SUBSTR",
)  # words between arguments


class BareParser(SparkParser):
    """Parses a call under its own name, with its arguments in their order."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in WORDED
    }


class BareSpark(Spark):
    """Spark's SQL whose functions keep their names."""

    Parser = BareParser


def plain_call(node: exp.Expression) -> tuple[str, list[exp.Expression]]:
    """Return a function's name, in lower case, and its arguments in order; NeedsSpark for one written otherwise."""
    call = sqlglot.parse_one(f"SELECT {node.sql('spark')}", read=BareSpark).expressions[0]
    if not isinstance(call, exp.Anonymous):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return str(call.this).lower(), [
        sqlglot.parse_one(f"SELECT f({part.sql('spark')})", read="spark").expressions[0].expressions[0]
        for part in call.expressions
    ]


def _known(value: Any) -> Any:
    """A value whose text and comparison are the same in Python and in Spark."""
    if isinstance(value, float | Decimal):
        raise NeedsSpark(f"the model does not tell how Spark has {value!r} here; run this on Spark.")
    return value


def _get(items: list[Any], place: int) -> Any:
    return items[place] if 0 <= place < len(items) else None


def _element_at(of: Any, key: Any) -> Any:
    """The value of a map, or an element of a list: counted from 1, or from its end by a negative number."""
    if isinstance(of, Mapping):
        return of.get(key)
    if key == 0:
        raise NeedsSpark("try_element_at with a place of 0 fails in Spark; run this there.")
    return _get(of, key - 1 if key > 0 else len(of) + key)


def _exists(items: list[Any], holds: Lambda) -> bool | None:
    found = [holds(item) for item in items]
    return True if True in found else None if None in found else False


def _positive_rest(a: Any, b: Any) -> int | None:
    """Java's rest, once more after adding b where it is negative: below 0 for two negative numbers."""
    rest = modulo(a, b)
    return rest if rest is None or rest >= 0 else modulo(rest + b, b)


def _pad(text: str, length: int, fill: str, *, left: bool) -> str:
    if len(text) >= length or not fill:
        return text[: max(length, 0)]
    more = (fill * length)[: length - len(text)]
    return more + text if left else text + more


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in map(_known, items):
        if item not in found:
            found.append(item)
    return found


def _slice(items: list[Any], start: int, length: int) -> list[Any]:
    first = start - 1 if start > 0 else len(items) + start
    if start == 0 or length < 0:
        raise NeedsSpark("slice with a start of 0 or a negative length fails in Spark; run this there.")
    return items[first : first + length] if first >= 0 else []


def _sequence(start: int, end: int, step: int | None = None) -> list[int]:
    step = step if step is not None else (1 if end >= start else -1)
    if step == 0 or (end - start) * step < 0:
        raise NeedsSpark("sequence with a step to the other side fails in Spark; run this there.")
    return list(range(start, end + (1 if step > 0 else -1), step))


def _reduced(items: list[Any], start: Any, merge: Lambda) -> Any:
    for item in items:
        start = merge(start, item)
    return start


def _contains(items: list[Any], wanted: Any) -> bool | None:
    found = any(item is not None and _known(item) == _known(wanted) for item in items)
    return True if found else None if None in items else False


def _whole(work: Callable[[Any], int]) -> Callable[[Any], int]:
    def run(value: Any) -> int:
        if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
            raise NeedsSpark(f"the model does not round {value!r} as Spark does; run this on Spark.")
        return max(LONG_MIN, min(LONG_MAX, work(value)))  # a BIGINT, cut off as in Java

    return run


def _number(work: Callable[[float], float]) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        try:
            return work(float(value))
        except (ValueError, OverflowError) as error:
            raise NeedsSpark(f"the model does not compute this of {value!r}; run this on Spark.") from error

    return run


def _extreme(work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        known = [_known(value) for value in values if value is not None]
        return work(known) if known else None

    return run


def _split(text: str, pattern: str, limit: int = -1) -> list[str]:
    literal = pattern[2:-2]
    if not (pattern.startswith("\\Q") and pattern.endswith("\\E")) or "\\E" in literal or not literal:
        raise NeedsSpark("the model splits by a plain text (\\Q...\\E) only; run this on Spark.")
    return text.split(literal, limit - 1 if limit > 0 else -1)


STRICT: dict[str, Callable[..., Any]] = {
    "timestamp_millis": lambda ms: _EPOCH + timedelta(milliseconds=ms),
    "unix_millis": milliseconds,
    "date_from_unix_date": lambda days: _DAY + timedelta(days=days),
    "unix_date": lambda day: (day - _DAY).days,
    "get": _get,
    "split": _split,
    "try_element_at": _element_at,
    "map_keys": list,
    "map_values": lambda of: list(of.values()),
    "map_contains_key": lambda of, key: key in of,
    "array_distinct": _distinct,
    "array_contains": _contains,
    "array_remove": lambda items, one: [item for item in items if item is None or _known(item) != _known(one)],
    "array_union": lambda one, other: _distinct([*one, *other]),
    "array_except": lambda one, other: _distinct([item for item in one if item not in other]),
    "array_intersect": lambda one, other: _distinct([item for item in one if item in other]),
    "slice": _slice,
    "sequence": _sequence,
    "reverse": lambda of: of[::-1],
    "transform": lambda items, work: [work(item) for item in items],
    "filter": lambda items, keep: [item for item in items if keep(item) is True],
    "exists": _exists,
    "aggregate": _reduced,
    "map_filter": lambda of, keep: {k: v for k, v in of.items() if keep(k, v) is True},
    "transform_values": lambda of, work: {k: work(k, v) for k, v in of.items()},
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "lpad": lambda text, length, fill: _pad(text, length, fill, left=True),
    "rpad": lambda text, length, fill: _pad(text, length, fill, left=False),
    "instr": lambda text, part: text.find(part) + 1,
    "repeat": lambda text, times: text * times,
    "chr": lambda code: chr(code % 256) if code >= 0 else "",
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "sqrt": _number(math.sqrt),
    "exp": _number(math.exp),
    "cbrt": _number(math.cbrt),
    "sin": _number(math.sin),
    "cos": _number(math.cos),
    "tan": _number(math.tan),
    "atan": _number(math.atan),
    "sinh": _number(math.sinh),
    "cosh": _number(math.cosh),
    "tanh": _number(math.tanh),
    "degrees": _number(math.degrees),
    "radians": _number(math.radians),
    "pmod": _positive_rest,
}
WITH_NULLS: dict[str, Callable[..., Any]] = {
    "concat_ws": lambda by, *texts: None if by is None else by.join(
        to_string(part) for text in texts for part in (text if isinstance(text, list) else [text]) if part is not None
    ),
    "greatest": _extreme(max),
    "least": _extreme(min),
    "map": lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "size": lambda of: -1 if of is None else len(of),
    "isnull": lambda value: value is None,
    "isnotnull": lambda value: value is not None,
}  # fmt: skip
