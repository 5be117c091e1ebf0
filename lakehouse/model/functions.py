"""Spark's functions in Python, for the model: those whose meaning needs no type that a Python value does not have.

A function that is not here, or that meets a value of which it can't tell what Spark makes, needs Spark. Arguments are
not null, but for the functions of `WITH_NULLS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model import moment_functions, number_functions, text_functions
from lakehouse.model.function import java_text, java_time, json_node, json_text, url
from lakehouse.model.scalar import equal, negated, to_string, whole_rest, wrapped
from lakehouse.plan.refused.sizes import MADE_MAX
from lakehouse.semantics.moment import milliseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
Lambda = Callable[..., Any]


def _known(value: Any) -> Any:
    """A value that Python compares as Spark does: NaN, -0.0 and what is inside of others are left to Spark."""
    if isinstance(value, float) and (math.isnan(value) or (value == 0 and math.copysign(1, value) < 0)):
        raise NeedsSpark(f"the model does not tell how Spark has {value!r} here; run this on Spark.")
    return value


def _together(values: Iterable[Any]) -> list[Any]:
    """Values that are compared with each other, without nulls: of one type, decimals of one scale."""
    known = [_known(value) for value in values if value is not None]
    kinds = {value.as_tuple().exponent if isinstance(value, Decimal) else type(value) for value in known}
    if len(kinds) > 1:
        raise NeedsSpark(f"the model does not cast {known!r:.60} to one type; run this on Spark.")
    return known


def _null_if(value: Any, other: Any) -> Any:
    return None if value is not None and other is not None and equal(value, other) else value


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


def _forall(items: list[Any], holds: Lambda) -> bool | None:
    results = [holds(item) for item in items]
    return False if False in results else None if None in results else True


def _positive_rest(a: Any, b: Any) -> int | None:
    """Java's rest, once more after adding b where it is negative: below 0 for two negative numbers."""
    if not (isinstance(a, int) and isinstance(b, int)):
        raise NeedsSpark("the model's pmod is for integers; run this on Spark.")
    rest = whole_rest(a, b)
    return rest if rest is None or rest >= 0 else whole_rest(wrapped(rest, b, rest + b), b)


def _pad(text: Any, length: int, fill: Any, *, left: bool) -> Any:
    if isinstance(text, bytes) and length < 0:
        raise NeedsSpark("bytes of a negative length fail in Spark; run this there.")
    if length > MADE_MAX:
        return None
    if len(text) >= length or not fill:
        return text[: max(length, 0)]
    more = (fill * length)[: length - len(text)]
    return more + text if left else text + more


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    _together(item for item in items if not isinstance(item, list | Mapping))
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _slice(items: list[Any], start: int, length: int) -> list[Any]:
    first = start - 1 if start > 0 else len(items) + start
    if start == 0 or length < 0:
        raise NeedsSpark("slice with a start of 0 or a negative length fails in Spark; run this there.")
    return items[first : first + length] if first >= 0 else []


def _sequence(start: int, end: int, step: int | None = None) -> list[int] | None:
    """Whole numbers; null where the step goes to the other side, and for too many."""
    step = step if step is not None else (1 if end >= start else -1)
    if step == 0 or (end - start) * step < 0:
        return [start] if start == end else None
    steps = range(start, end + (1 if step > 0 else -1), step)
    return list(steps) if (end - start) // step <= MADE_MAX else None


def _reduced(items: list[Any], start: Any, merge: Lambda) -> Any:
    for item in items:
        start = merge(start, item)
    return start


def _ordered(items: list[Any], compare: Lambda | None = None) -> list[Any]:
    """Values, or the entries of a map, in order; nulls come last. compare: gives a number below, above or 0."""
    if compare is not None:
        return sorted(items, key=cmp_to_key(compare))

    known = [item for item in items if item is not None]
    try:
        return sorted(known, key=_order) + [None] * (len(items) - len(known))
    except TypeError as error:
        raise NeedsSpark(f"the model has no order of {items!r:.60}; run this on Spark.") from error


def _order(item: Any) -> Any:
    """What a value is ordered by: an array or a struct by its parts in turn, of which a null comes first."""
    if isinstance(item, list | Mapping):
        parts = item if isinstance(item, list) else item.values()
        return tuple((False,) if part is None else (True, _order(part)) for part in parts)
    if isinstance(item, float) and math.isnan(item):
        return True, 0.0  # the largest number
    return (False, _known(item)) if isinstance(item, float) else item


def _kinds(item: Any) -> set[type]:
    """The types of the elements of arrays in arrays; none of structs, which are not cast."""
    if isinstance(item, list):
        return {kind for part in item for kind in _kinds(part)}
    return set() if item is None or isinstance(item, Mapping) else {type(item)}


def _sorted_array(items: list[Any], ascending: bool = True) -> list[Any]:
    known = _ordered([item for item in items if item is not None])
    nulls = [None] * (len(items) - len(known))
    return [*nulls, *known] if ascending else [*known[::-1], *nulls]


def _contains(items: list[Any], wanted: Any) -> bool | None:
    found = wanted in _together([*items, wanted])[:-1]
    return True if found else None if None in items else False


def _extreme(work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        known = [value for value in values if value is not None]
        if known and all(isinstance(value, float) for value in known):
            made = work(known, key=lambda value: (math.isnan(value), value))  # NaN is the largest number
            if made == 0 and len({math.copysign(1, value) for value in known if value == 0}) > 1:
                raise NeedsSpark("the model does not tell which zero of two Spark takes; run this on Spark.")
            return made
        if known and all(isinstance(value, list | Mapping) for value in known):
            if len(_kinds(known)) > 1:
                raise NeedsSpark(f"the model does not cast {known!r:.60} to one type; run this on Spark.")
            return work(known, key=_order)
        return work(_together(known)) if known else None

    return run


def _concat(*parts: Any) -> Any:
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return b"".join(parts) if isinstance(parts[0], bytes) else "".join(map(to_string, parts))


def _largest(work: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda items: _extreme(work)(*items)


def _joined(items: list[Any], by: str, null: str | None = None) -> str:
    return by.join(item if item is not None else str(null) for item in items if item is not None or null is not None)


def _united(*maps: Mapping[Any, Any]) -> dict[Any, Any]:
    """One map; of a key that is in several, the last value counts, at the first place."""
    return {name: value for of in maps for name, value in of.items()}


def _of_pairs(pairs: list[Mapping[str, Any]]) -> dict[Any, Any] | None:
    if None in pairs or any(next(iter(pair.values())) is None for pair in pairs):
        return None
    return _united(*({key: value} for key, value in (pair.values() for pair in pairs)))


# Other names of a function, with the same arguments.
SAME = {
    "ucase": "upper", "lcase": "lower", "len": "length", "char_length": "length", "character_length": "length",
    "ceiling": "ceil", "signum": "sign", "pow": "power", "regexp": "rlike", "regexp_like": "rlike",
    "reduce": "aggregate", "char": "chr", "cardinality": "size", "nvl": "coalesce", "ifnull": "coalesce",
    "position": "locate", "mod": "%", "day": "dayofmonth", "substr": "substring", "date_diff": "datediff",
    "negative": "-", "equal_null": "<=>",
}  # fmt: skip
STRICT: dict[str, Callable[..., Any]] = {
    "timestamp_millis": lambda ms: _EPOCH + timedelta(milliseconds=ms),
    "unix_millis": milliseconds,
    "date_from_unix_date": lambda days: _DAY + timedelta(days=days),
    "unix_date": lambda day: (day - _DAY).days,
    "get": _get,
    "array_size": len,
    "length": len,
    "upper": str.upper,
    "lower": str.lower,
    "abs": lambda value: abs(value) if isinstance(value, float) else negated(value) if value < 0 else value,
    **text_functions.STRICT,
    **moment_functions.STRICT,
    **number_functions.STRICT,
    **json_text.STRICT,
    **json_node.STRICT,
    **java_text.STRICT,
    **java_time.STRICT,
    **url.STRICT,
    "concat": _concat,
    "array_max": _largest(max),
    "array_min": _largest(min),
    "array_join": _joined,
    "sort_array": _sorted_array,
    "map_concat": _united,
    "map_from_entries": _of_pairs,
    "zip_with": lambda one, other, work: [work(a, b) for a, b in zip(one, other, strict=True)],
    "forall": _forall,
    "try_element_at": _element_at,
    "map_keys": list,
    "map_entries": lambda of: [{"key": key, "value": value} for key, value in of.items()],
    "array_sort": _ordered,
    "map_values": lambda of: list(of.values()),
    "map_contains_key": lambda of, key: key in of,
    "array_distinct": _distinct,
    "flatten": lambda lists: None if None in lists else [item for one in lists for item in one],
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
    "map_filter": lambda of, keep: {k: v for k, v in of.items() if keep(k, v) is True},
    "transform_values": lambda of, work: {k: work(k, v) for k, v in of.items()},
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "lpad": lambda text, length, fill: _pad(text, length, fill, left=True),
    "rpad": lambda text, length, fill: _pad(text, length, fill, left=False),
    "instr": lambda text, part: text.find(part) + 1,
    "repeat": lambda text, times: text * times if times * max(len(text), 1) <= MADE_MAX else None,
    "chr": lambda code: chr(code % 256) if code >= 0 else "",
    "pmod": _positive_rest,
}
WITH_NULLS: dict[str, Callable[..., Any]] = {
    "concat_ws": lambda by, *texts: None if by is None else by.join(
        to_string(part) for text in texts for part in (text if isinstance(text, list) else [text]) if part is not None
    ),
    "nullif": _null_if,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "map": lambda *parts: None if None in parts[::2] else dict(zip(parts[::2], parts[1::2], strict=True)),
    "size": lambda of: -1 if of is None else len(of),
    **text_functions.WITH_NULLS,
    "aggregate": lambda items, start, merge: None if items is None else _reduced(items, start, merge),
    "pi": lambda: math.pi,
    "isnull": lambda value: value is None,
    "isnotnull": lambda value: value is not None,
}  # fmt: skip
