"""Spark's functions in Python, for the model: those whose result depends on no type that a Python value lacks.

The records of `lakehouse.plan.spark_functions.table` say which functions the model has, and which of them take nulls. A
value for which Spark's result is not certain needs Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.function import java_text, java_time, json_node, json_text, moment, number, text, url
from lakehouse.model.function.scalar import (
    condition_value,
    is_equal,
    negate_number,
    to_string,
    value_at_key,
    whole_rest,
    wrap_result,
)
from lakehouse.plan.spark_functions.guards import MADE_MAX
from lakehouse.semantics.epoch_time import to_milliseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = date(1970, 1, 1)
Lambda = Callable[..., Any]


def _check_comparable(value: Any) -> Any:
    """Return a value that Python compares as Spark does; NeedsSpark for NaN, -0.0 and nested values."""
    if isinstance(value, float) and (math.isnan(value) or (value == 0 and math.copysign(1, value) < 0)):
        raise NeedsSpark(f"the model does not tell how Spark has {value!r} here; run this on Spark.")
    return value


def _comparable_values(values: Iterable[Any]) -> list[Any]:
    """Return the values to compare, without nulls; they must have one type, decimals also one scale."""
    checked_values = [_check_comparable(value) for value in values if value is not None]
    value_kinds = {value.as_tuple().exponent if isinstance(value, Decimal) else type(value) for value in checked_values}
    if len(value_kinds) > 1:
        raise NeedsSpark(f"the model does not cast {checked_values!r:.60} to one type; run this on Spark.")
    return checked_values


def _null_if(value: Any, compared: Any) -> Any:
    return None if value is not None and compared is not None and is_equal(value, compared) else value


def _element_or_null(items: list[Any], index: int) -> Any:
    return items[index] if 0 <= index < len(items) else None


def _element_at(collection: Any, key: Any) -> Any:
    """Return a map's value or a list's element: positions count from 1, negative ones from the end."""
    if isinstance(collection, Mapping):
        return value_at_key(collection, key)
    if key == 0:
        raise NeedsSpark("try_element_at with a place of 0 fails in Spark; run this there.")
    return _element_or_null(collection, key - 1 if key > 0 else len(collection) + key)


def _exists_match(items: list[Any], predicate: Lambda) -> bool | None:
    results = [condition_value(predicate(item)) for item in items]
    return True if True in results else None if None in results else False


def _all_match(items: list[Any], predicate: Lambda) -> bool | None:
    results = [condition_value(predicate(item)) for item in items]
    return False if False in results else None if None in results else True


def _positive_remainder(dividend: Any, divisor: Any) -> int | None:
    """Return Java's remainder; a negative one is taken again after adding the divisor, so it may stay negative."""
    if not (isinstance(dividend, int) and isinstance(divisor, int)):
        raise NeedsSpark("the model's pmod is for integers; run this on Spark.")
    remainder = whole_rest(dividend, divisor)
    return (
        remainder
        if remainder is None or remainder >= 0
        else whole_rest(wrap_result(remainder, divisor, remainder + divisor), divisor)
    )


def _pad_text(text: Any, target_length: int, fill: Any, *, left: bool) -> Any:
    if isinstance(text, bytes) and target_length < 0:
        raise NeedsSpark("bytes of a negative length fail in Spark; run this there.")
    if target_length > MADE_MAX:
        return None
    if len(text) >= target_length or not fill:
        return text[: max(target_length, 0)]
    padding = (fill * target_length)[: target_length - len(text)]
    return padding + text if left else text + padding


def _distinct_items(items: list[Any]) -> list[Any]:
    unique_items: list[Any] = []
    _comparable_values(item for item in items if not isinstance(item, list | Mapping))
    for item in items:
        if item not in unique_items:
            unique_items.append(item)
    return unique_items


def _slice_array(items: list[Any], start: int, length: int) -> list[Any]:
    first_index = start - 1 if start > 0 else len(items) + start
    if start == 0 or length < 0:
        raise NeedsSpark("slice with a start of 0 or a negative length fails in Spark; run this there.")
    return items[first_index : first_index + length] if first_index >= 0 else []


def _number_sequence(start: int, end: int, step: int | None = None) -> list[int] | None:
    """Return whole numbers; null where the step leads away from the end, and for too many numbers."""
    step = step if step is not None else (1 if end >= start else -1)
    if step == 0 or (end - start) * step < 0:
        return [start] if start == end else None
    steps = range(start, end + (1 if step > 0 else -1), step)
    return list(steps) if (end - start) // step <= MADE_MAX else None


def _reduce_items(items: list[Any], accumulator: Any, merge: Lambda) -> Any:
    for item in items:
        accumulator = merge(accumulator, item)
    return accumulator


def _sort_items(items: list[Any], compare: Lambda | None = None) -> list[Any]:
    """Return values, or a map's entries, in order, nulls last. compare: gives a number below 0, above 0, or 0."""
    if compare is not None:
        return sorted(items, key=cmp_to_key(compare))

    non_null_items = [item for item in items if item is not None]
    try:
        return sorted(non_null_items, key=_order) + [None] * (len(items) - len(non_null_items))
    except TypeError as error:
        raise NeedsSpark(f"the model has no order of {items!r:.60}; run this on Spark.") from error


def _order(item: Any) -> Any:
    """Return a sort key: arrays and structs sort by their parts in turn, nulls first."""
    if isinstance(item, list | Mapping):
        parts = item if isinstance(item, list) else item.values()
        return tuple((False,) if part is None else (True, _order(part)) for part in parts)
    if isinstance(item, float) and math.isnan(item):
        return True, 0.0  # NaN sorts as the largest number
    return (False, _check_comparable(item)) if isinstance(item, float) else item


def _kinds(item: Any) -> set[type]:
    """Return the types of the elements of nested arrays; not those of structs, which Spark does not cast."""
    if isinstance(item, list):
        return {kind for part in item for kind in _kinds(part)}
    return set() if item is None or isinstance(item, Mapping) else {type(item)}


def _sort_array(items: list[Any], ascending: bool = True) -> list[Any]:
    sorted_items = _sort_items([item for item in items if item is not None])
    nulls = [None] * (len(items) - len(sorted_items))
    return [*nulls, *sorted_items] if ascending else [*sorted_items[::-1], *nulls]


def _contains_item(items: list[Any], sought_item: Any) -> bool | None:
    is_found = sought_item in _comparable_values([*items, sought_item])[:-1]
    return True if is_found else None if None in items else False


def _extreme_of_values(choose: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        non_null_values = [value for value in values if value is not None]
        if non_null_values and all(isinstance(value, float) for value in non_null_values):
            extreme = choose(non_null_values, key=lambda value: (math.isnan(value), value))  # NaN is the largest number
            if extreme == 0 and len({math.copysign(1, value) for value in non_null_values if value == 0}) > 1:
                raise NeedsSpark("the model does not tell which zero of two Spark takes; run this on Spark.")
            return extreme
        if non_null_values and all(isinstance(value, list | Mapping) for value in non_null_values):
            if len(_kinds(non_null_values)) > 1:
                raise NeedsSpark(f"the model does not cast {non_null_values!r:.60} to one type; run this on Spark.")
            return choose(non_null_values, key=_order)
        return choose(_comparable_values(non_null_values)) if non_null_values else None

    return run


def _concat_values(*parts: Any) -> Any:
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return b"".join(parts) if isinstance(parts[0], bytes) else "".join(map(to_string, parts))


def _extreme_of_array(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda items: _extreme_of_values(choose)(*items)


def _join_texts(items: list[Any], separator: str, null_text: str | None = None) -> str:
    return separator.join(
        item if item is not None else str(null_text) for item in items if item is not None or null_text is not None
    )


def _merge_maps(*maps: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return one map; a key in several maps has its last value, at its first place."""
    return {name: value for source_map in maps for name, value in source_map.items()}


def _map_from_pairs(pairs: list[Mapping[str, Any]]) -> dict[Any, Any] | None:
    if None in pairs or any(next(iter(pair.values())) is None for pair in pairs):
        return None
    return _merge_maps(*({key: value} for key, value in (pair.values() for pair in pairs)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "timestamp_millis": lambda ms: _EPOCH + timedelta(milliseconds=ms),
    "unix_millis": to_milliseconds,
    "date_from_unix_date": lambda days: _DAY + timedelta(days=days),
    "unix_date": lambda day: (day - _DAY).days,
    "get": _element_or_null,
    "array_size": len,
    "length": len,
    "upper": str.upper,
    "lower": str.lower,
    "abs": lambda value: abs(value) if isinstance(value, float) else negate_number(value) if value < 0 else value,
    **text.FUNCTIONS,
    **moment.FUNCTIONS,
    **number.FUNCTIONS,
    **json_text.FUNCTIONS,
    **json_node.FUNCTIONS,
    **java_text.FUNCTIONS,
    **java_time.FUNCTIONS,
    **url.FUNCTIONS,
    "concat": _concat_values,
    "array_max": _extreme_of_array(max),
    "array_min": _extreme_of_array(min),
    "array_join": _join_texts,
    "sort_array": _sort_array,
    "map_concat": _merge_maps,
    "map_from_entries": _map_from_pairs,
    "zip_with": lambda left_items, right_items, function: [
        function(a, b) for a, b in zip(left_items, right_items, strict=True)
    ],
    "forall": _all_match,
    "try_element_at": _element_at,
    "map_keys": list,
    "map_entries": lambda entries: [{"key": key, "value": value} for key, value in entries.items()],
    "array_sort": _sort_items,
    "map_values": lambda entries: list(entries.values()),
    "map_contains_key": lambda entries, key: value_at_key(dict.fromkeys(entries, True), key) is True,
    "array_distinct": _distinct_items,
    "flatten": lambda lists: None if None in lists else [item for inner_items in lists for item in inner_items],
    "array_contains": _contains_item,
    "array_remove": lambda items, one: [
        item for item in items if item is None or _check_comparable(item) != _check_comparable(one)
    ],
    "array_union": lambda items, other_items: _distinct_items([*items, *other_items]),
    "array_except": lambda items, other_items: _distinct_items([item for item in items if item not in other_items]),
    "array_intersect": lambda items, other_items: _distinct_items([item for item in items if item in other_items]),
    "slice": _slice_array,
    "sequence": _number_sequence,
    "reverse": lambda value: value[::-1],
    "transform": lambda items, function: [function(item) for item in items],
    "filter": lambda items, keep: [item for item in items if condition_value(keep(item))],
    "exists": _exists_match,
    "map_filter": lambda entries, keep: {k: v for k, v in entries.items() if condition_value(keep(k, v))},
    "transform_values": lambda entries, function: {k: function(k, v) for k, v in entries.items()},
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "lpad": lambda text, length, fill: _pad_text(text, length, fill, left=True),
    "rpad": lambda text, length, fill: _pad_text(text, length, fill, left=False),
    "instr": lambda text, part: text.find(part) + 1,
    "repeat": lambda text, times: text * times if times * max(len(text), 1) <= MADE_MAX else None,
    "chr": lambda code: chr(code % 256) if code >= 0 else "",
    "pmod": _positive_remainder,
    "concat_ws": lambda by, *texts: None if by is None else by.join(
        to_string(part) for text in texts for part in (text if isinstance(text, list) else [text]) if part is not None
    ),
    "nullif": _null_if,
    "greatest": _extreme_of_values(max),
    "least": _extreme_of_values(min),
    "map": lambda *parts: None if None in parts[::2] else dict(zip(parts[::2], parts[1::2], strict=True)),
    "size": lambda value: -1 if value is None else len(value),
    "aggregate": lambda items, start, merge: None if items is None else _reduce_items(items, start, merge),
    "pi": lambda: math.pi,
    "isnull": lambda value: value is None,
    "isnotnull": lambda value: value is not None,
}  # fmt: skip
