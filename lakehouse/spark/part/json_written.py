"""Finds the JSON values that from_json reads wrongly, and rewrites them in a form that it reads right.

| in the text                                        | from_json                                                     |
|----------------------------------------------------|---------------------------------------------------------------|
| a number of a column of texts: 1.50, 1e5           | goes through a double: "1.5", "100000.0"                      |
| 1e-999999999 of a decimal                          | writes its digits out, for hours                              |
| a moment in a form of ISO 8601 that Spark has not  | makes the record a bad one                                    |
| a name that a map's object has twice               | is in the map twice, and is found with its first value        |

To keep a number's text, a copy of the record has the number in quotes, behind a mark, and is read once more. That
costs time only where a column of texts has such a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakehouse.semantics.number_text import EXPONENT_MAX
from lakehouse.semantics.time import iso_text
from lakehouse.spark.expression.json_numbers import MARK, MARKED, OTHER, UNMARKED

LARGE_EXPONENT = r"([0-9.][eE][+-]?)0*[1-9][0-9]{4,}"
ESCAPE = "\\"
# A column's text whose digits from_json may have changed: a number, or a list or an object with a number.
LOOSE = r'(?s)^(?:-?[0-9]+[.][0-9]|0$|"-?Infinity"$|(?=[{\[]).*(?:[0-9][.][0-9]|[:\[,]0|Infinity"))'
# A long text may have a name many times, and the pattern searches the rest of the text from each.
_SEARCHED_MAX = 10_000
# Types of values whose form in the record is inspected, inside of columns, too.
_INSPECTED_TYPES = (StringType, DecimalType, TimestampType, DateType)


def is_flat(kind: StructType) -> bool:
    """Say whether no nested value needs special treatment, and rewriting one column's text spoils no other column."""
    leaves = [leaf for field in kind for leaf in _leaf_types(field.dataType)]
    nested_leaves = [leaf for field in kind if _is_nested(field.dataType) for leaf in _leaf_types(field.dataType)]
    has_both = {DecimalType, BinaryType} <= set(map(type, leaves))  # base64 may look like a number
    return not has_both and not any(isinstance(leaf, _INSPECTED_TYPES) for leaf in nested_leaves)


def is_in_own_form(text: Column, kind: StructType) -> Column:
    """Return whether a record's text may have a value that from_json does not read by the rule; never null."""
    leaf_kinds = {type(leaf) for field in kind for leaf in _leaf_types(field.dataType)}
    tests = []
    if text_names := sorted(_names_of_type(kind, StringType)):
        name_start = f'"(?i:{"|".join(map(re.escape, text_names))})"\\s*:\\s*'
        is_inside = text.rlike(rf"(?s){name_start}(?:{OTHER}|(?=[{{\[]).*?[:\[,]\s*{OTHER})")
        is_somewhere = text.rlike(rf"{name_start}(?:{OTHER}|[{{\[])") & text.rlike(rf"[:\[,]\s*{OTHER}")
        tests.append(F.when(F.length(text) < _SEARCHED_MAX, is_inside).otherwise(is_somewhere))
    if DecimalType in leaf_kinds:
        tests.append(text.rlike(LARGE_EXPONENT))
    if leaf_kinds & {TimestampType, DateType}:
        tests += [text.rlike(f'"{iso_text.OTHER.replace("$", chr(34))}'), text.contains(ESCAPE)]
    return F.coalesce(reduce(lambda a, b: a | b, tests, F.lit(False)), F.lit(False))


def without_large_exponents(text: Column, kind: StructType) -> Column:
    """Return a record's text with shorter exponents, which mean the same for all types and which Java can compute."""
    if not any(isinstance(leaf, DecimalType) for field in kind for leaf in _leaf_types(field.dataType)):
        return text
    shorter_text = F.regexp_replace(text, LARGE_EXPONENT, f"$1{EXPONENT_MAX}")
    return F.when(text.rlike(LARGE_EXPONENT), shorter_text).otherwise(text)


def is_changed(text: Column, value: Column, kind: StructType) -> Column:
    """Return whether a column's text may differ from the record's text, also through `without_large_exponents`."""
    may_differ = value.rlike(LOOSE)
    if any(isinstance(field.dataType, DecimalType) for field in kind):
        may_differ |= text.rlike(LARGE_EXPONENT)
    return may_differ


def mark_numbers(text: Column) -> Column:
    """Return a record's text with its numbers in quotes, behind a mark."""
    return _replace_patterns(text, MARKED)


def unmark_numbers(value: Column) -> Column:
    """Return a value that was read from a marked text as the record writes it."""
    return _replace_patterns(value, UNMARKED)


def is_in_quotes(text: Column, name: str) -> Column:
    """Return whether a record's text has a column's value in quotes, and not as a number."""
    text_struct = StructType([StructField(name, StringType())])
    return ~F.coalesce(F.from_json(mark_numbers(text), text_struct)[name].startswith(MARK), F.lit(True))


def keep_last_entries(value: Column, kind: DataType) -> Column:
    """Return a value in whose maps each key stands once, with its last value. kind: its type."""
    if not has_map(kind):
        return value
    match kind:
        case StructType():
            fields = [keep_last_entries(value[field.name], field.dataType).alias(field.name) for field in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(value, lambda item: keep_last_entries(item, kind.elementType))
        case MapType():
            values = F.transform_values(value, lambda _, item: keep_last_entries(item, kind.valueType))
            # The session's spark.sql.mapKeyDedupPolicy is LAST_WIN.
            return F.map_from_entries(F.map_entries(values if has_map(kind.valueType) else value))
    return value


def has_map(kind: DataType) -> bool:
    """Say whether a type has a map in it."""
    match kind:
        case StructType():
            return any(has_map(field.dataType) for field in kind)
        case ArrayType():
            return has_map(kind.elementType)
    return isinstance(kind, MapType)


def _replace_patterns(text: Column, replacements: Iterable[tuple[str, str]]) -> Column:
    return reduce(lambda replaced_text, replacement: F.regexp_replace(replaced_text, *replacement), replacements, text)


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, ArrayType | MapType | StructType)


def _leaf_types(kind: DataType) -> Iterable[DataType]:
    """Return the innermost types of a type, without those of a map's keys, which are names in JSON."""
    match kind:
        case ArrayType():
            return _leaf_types(kind.elementType)
        case MapType():
            return _leaf_types(kind.valueType)
        case StructType():
            return [leaf for field in kind for leaf in _leaf_types(field.dataType)]
    return [kind]


def _names_of_type(kind: StructType, leaf_type: type[DataType]) -> set[str]:
    """Return the names of columns and fields of a type, or of lists or maps of it."""
    names = set()
    for field in kind:
        inner = field.dataType
        while isinstance(inner, ArrayType | MapType):
            inner = inner.elementType if isinstance(inner, ArrayType) else inner.valueType
        if isinstance(inner, StructType):
            names |= _names_of_type(inner, leaf_type)
        elif isinstance(inner, leaf_type):
            names.add(field.name)
    return names
