"""What from_json can't read as it is written: where it is, and the same in a form that from_json can.

| in the text                                        | from_json                                                     |
|----------------------------------------------------|---------------------------------------------------------------|
| a number of a column of texts: 1.50, 1e5           | goes through a double: "1.5", "100000.0"                      |
| 1e-999999999 of a decimal                          | writes its digits out, for hours                              |
| a moment in a form of ISO 8601 that Spark has not  | makes the record a bad one                                    |

A number in a text is kept by putting it into quotes, behind a mark, in a copy of the record that is read once more. So
it costs something only where a column of texts has such a value.
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

from lakehouse.semantics import iso_text
from lakehouse.semantics.number_text import EXPONENT_MAX
from lakehouse.spark.guard.json_numbers import MARK, MARKED, OTHER, UNMARKED

LARGE_EXPONENT = r"([0-9.][eE][+-]?)0*[1-9][0-9]{4,}"
ESCAPE = "\\"
# A column's text that from_json may have made of other digits: a number, or something that has one.
LOOSE = r'(?s)^(?:-?[0-9]+[.][0-9]|0$|"-?Infinity"$|(?=[{\[]).*(?:[0-9][.][0-9]|[:\[,]0|Infinity"))'
# A name may stand in a text as often as it is long, and from each one would look through the rest.
_LOOKED_THROUGH = 10_000
# Leaves whose form in the record is looked at, inside of columns too.
_LOOKED_AT = (StringType, DecimalType, TimestampType, DateType)


def is_flat(kind: StructType) -> bool:
    """Say whether only columns themselves have what is read in a way of its own, and changing one spoils no other."""
    leaves = [leaf for field in kind for leaf in _leaves(field.dataType)]
    nested = [leaf for field in kind if _is_nested(field.dataType) for leaf in _leaves(field.dataType)]
    both = {DecimalType, BinaryType} <= set(map(type, leaves))  # base64 may look like a number
    return not both and not any(isinstance(leaf, _LOOKED_AT) for leaf in nested)


def in_own_form(text: Column, kind: StructType) -> Column:
    """Say whether a record's text may have a value that from_json does not read as the rule does; never null."""
    leaves = {type(leaf) for field in kind for leaf in _leaves(field.dataType)}
    tests = []
    if names := sorted(_names(kind, StringType)):
        of = f'"(?i:{"|".join(map(re.escape, names))})"\\s*:\\s*'
        inside = text.rlike(rf"(?s){of}(?:{OTHER}|(?=[{{\[]).*?[:\[,]\s*{OTHER})")
        somewhere = text.rlike(rf"{of}(?:{OTHER}|[{{\[])") & text.rlike(rf"[:\[,]\s*{OTHER}")
        tests.append(F.when(F.length(text) < _LOOKED_THROUGH, inside).otherwise(somewhere))
    if DecimalType in leaves:
        tests.append(text.rlike(LARGE_EXPONENT))
    if leaves & {TimestampType, DateType}:
        tests += [text.rlike(f'"{iso_text.OTHER.replace("$", chr(34))}'), text.contains(ESCAPE)]
    return F.coalesce(reduce(lambda a, b: a | b, tests, F.lit(False)), F.lit(False))


def without_large_exponents(text: Column, kind: StructType) -> Column:
    """Return a record's text with exponents that mean the same for all types, and that Java can compute."""
    if not any(isinstance(leaf, DecimalType) for field in kind for leaf in _leaves(field.dataType)):
        return text
    shorter = F.regexp_replace(text, LARGE_EXPONENT, f"$1{EXPONENT_MAX}")
    return F.when(text.rlike(LARGE_EXPONENT), shorter).otherwise(text)


def is_changed(text: Column, value: Column, kind: StructType) -> Column:
    """Say whether a column's text may differ from what stands in a record's text, by `without_large_exponents` too."""
    changed = value.rlike(LOOSE)
    if any(isinstance(field.dataType, DecimalType) for field in kind):
        changed |= text.rlike(LARGE_EXPONENT)
    return changed


def marked(text: Column) -> Column:
    """Return a record's text with its numbers in quotes, behind a mark."""
    return _replaced(text, MARKED)


def unmarked(value: Column) -> Column:
    """Return what was read from a marked text as it was written."""
    return _replaced(value, UNMARKED)


def in_quotes(text: Column, name: str) -> Column:
    """Say whether a column's value is a text in a record's text, and no number."""
    alone = StructType([StructField(name, StringType())])
    return ~F.coalesce(F.from_json(marked(text), alone)[name].startswith(MARK), F.lit(True))


def moment(text: Column, kind: str) -> Column:
    """Return a text as a timestamp or a date; null if it is none."""
    return F.coalesce(text.try_cast(kind), F.when(text.rlike(f"^{iso_text.OTHER}"), plain(text)).try_cast(kind))


def plain(text: Column) -> Column:
    """As `lakehouse.semantics.iso_text.plain`."""
    return _replaced(F.btrim(text, F.lit(iso_text.BLANKS)), iso_text.FORMS)


def _replaced(text: Column, replacements: Iterable[tuple[str, str]]) -> Column:
    return reduce(lambda made, replacement: F.regexp_replace(made, *replacement), replacements, text)


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, ArrayType | MapType | StructType)


def _leaves(kind: DataType) -> Iterable[DataType]:
    """The types of a type that have none inside; the keys of a map are names in JSON."""
    match kind:
        case ArrayType():
            return _leaves(kind.elementType)
        case MapType():
            return _leaves(kind.valueType)
        case StructType():
            return [leaf for field in kind for leaf in _leaves(field.dataType)]
    return [kind]


def _names(kind: StructType, of: type[DataType]) -> set[str]:
    """The names of columns and fields that are, or are lists or maps of, a type."""
    names = set()
    for field in kind:
        inner = field.dataType
        while isinstance(inner, ArrayType | MapType):
            inner = inner.elementType if isinstance(inner, ArrayType) else inner.valueType
        if isinstance(inner, StructType):
            names |= _names(inner, of)
        elif isinstance(inner, of):
            names.add(field.name)
    return names
