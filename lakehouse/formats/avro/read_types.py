"""The schemas by which a library reads Avro into a table's columns, as far as it can do so exactly.

Values go by their writer's schema. Both schemas here are copies of it: fields get the names of their places (c0, c1),
unread ones have no part in the reader's schema, and logical types that the library would read in its own way are left
out. So nothing is resolved but int to long, int and float to double, and the null of a field that the writer lacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

from lakehouse.formats.avro.avro_columns import written_type
from lakehouse.formats.avro.avro_reader import row_reader
from lakehouse.formats.values.field_places import names_by_place
from lakehouse.formats.values.text_value import INTEGER_BITS
from lakehouse.plan.avro.avro_schema import ISO_TIMESTAMP, AvroType
from lakehouse.plan.avro.schema_json import write_avro
from lakehouse.plan.expression.schema import Column, base_type, field_types, item_type
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

MARK = "mark"  # a long behind the row: the bytes end where the row ends, if it comes out
LISTS_MAX = 3  # inside of each other: for each, the library may reserve room for LENGTH_MAX items before it sees any
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NULL = AvroType("null")
_INTEGERS = ("int", "long")


class NotExact(Exception):
    """The library would not read this type, or not as the rule does."""


@dataclass(frozen=True, slots=True)
class ReadTypes:
    """Two schemas as JSON, and the reader's types of the columns, by their place."""

    writer: str
    reader: str
    columns: tuple[AvroType, ...]


@lru_cache(maxsize=1024)
def read_types(avro_type: AvroType, columns: tuple[Column, ...], *, ignores_case: bool) -> ReadTypes | None:
    """Return the schemas for a row of columns, each with the mark behind it; None if only the rule reads it exactly.

    Raises Unfit if the writer's types do not fit the columns.
    """
    row_reader(avro_type, columns, ignores_case=ignores_case)
    if _lists_in_lists(avro_type) > LISTS_MAX:
        return None
    declared = {column.name: column.type for column in columns}
    try:
        if avro_type.kind == "record":
            writer, reader = _read_record(avro_type, declared, "r", ignores_case)
        elif len(columns) == 1 and avro_type.kind not in ("union", "null"):
            one_field = AvroType("record", "r", fields=(columns[0].name,), parts=(avro_type,))
            writer, reader = _read_record(one_field, declared, "r", ignores_case=False)
        else:
            return None
    except NotExact:
        return None
    long_type = AvroType("long")
    texts = [
        json.dumps(write_avro(replace(item, fields=(*item.fields, MARK), parts=(*item.parts, long_type))))
        for item in (writer, reader)
    ]
    return ReadTypes(texts[0], texts[1], tuple(part.branches[0] for part in reader.parts))


def _read_record(
    avro_type: AvroType, declared: dict[str, str], path: str, ignores_case: bool
) -> tuple[AvroType, AvroType]:
    """Return the copies of a record's type for the writer and for the reader. Raises NotExact."""
    own_names = names_by_place(avro_type.fields, declared, ignores_case=ignores_case)
    if any(len(names) > 1 for names in own_names.values()):
        raise NotExact  # the library reads a field once
    places, types = {name: place for place, name in enumerate(declared)}, list(declared.values())
    readers = [_missing(declared_type) for declared_type in types]
    names, parts, unread = [], [], count()
    for field_place, part in enumerate(avro_type.parts):
        if field_place not in own_names:
            number = next(unread)
            names.append(f"u{number}")
            parts.append(_unread(part, f"{path}_u{number}"))
        else:
            place = places[own_names[field_place][0]]
            own_part, readers[place] = _read_value(part, types[place], f"{path}_{place}", ignores_case)
            names.append(f"c{place}")
            parts.append(own_part)
    reader_names = tuple(f"c{place}" for place in range(len(types)))
    return (
        AvroType("record", path, fields=tuple(names), parts=tuple(parts)),
        AvroType("record", path, fields=reader_names, parts=tuple(readers)),
    )


def _read_value(avro_type: AvroType, declared_type: str, path: str, ignores_case: bool) -> tuple[AvroType, AvroType]:
    """Return the copies of a type for the writer and for the reader, the reader's in a union with null."""
    if len(avro_type.branches) > 1 or (avro_type.kind == "union" and len(avro_type.parts) > 2):
        raise NotExact
    if not avro_type.branches:
        return avro_type, _missing(declared_type)
    writer, reader = _read_branch(avro_type.branches[0], declared_type, path, ignores_case)
    if avro_type.kind == "union":
        own_parts = tuple(part if part.kind == "null" else writer for part in avro_type.parts)
        writer = AvroType("union", parts=own_parts)
    return writer, AvroType("union", parts=(_NULL, reader))


def _read_branch(avro_type: AvroType, declared_type: str, path: str, ignores_case: bool) -> tuple[AvroType, AvroType]:
    base_name, plain = base_type(declared_type), AvroType(avro_type.kind)
    if avro_type.kind in _INTEGERS and base_name in (*INTEGER_BITS, "decimal"):
        return plain, AvroType("long")
    if base_name in ("float", "double"):
        return plain, AvroType(base_name)
    if base_name in INTEGER_BITS or (base_name == "date" and avro_type.kind == "string"):
        raise NotExact  # of a decimal; of a text
    if base_name == "decimal" and avro_type.precision > DECIMAL_DIGITS_MAX:
        raise NotExact  # more digits than the library has
    if base_name == "decimal" and avro_type.kind == "bytes":
        # With its own precision, the library would take the lower 64 bits of a longer number.
        wide = replace(avro_type, precision=DECIMAL_DIGITS_MAX)
        return wide, wide
    if base_name in ("date", "timestamp") and avro_type.kind in _INTEGERS:
        return avro_type, avro_type
    if base_name == "timestamp" and avro_type.logical == ISO_TIMESTAMP:
        return plain, plain
    match avro_type.kind:
        case "boolean" | "string" | "bytes" if base_name not in ("decimal", "timestamp"):
            return plain, plain
        case "enum" if all(map(_SYMBOL.fullmatch, avro_type.symbols)):
            named = AvroType("enum", path, symbols=avro_type.symbols)
            if len(set(avro_type.symbols)) == len(avro_type.symbols):
                return named, named
        case "fixed" if base_name == "binary":
            named = AvroType("fixed", path, size=avro_type.size)
            return named, named
        case "record" if base_name == "struct":
            return _read_record(avro_type, field_types(declared_type), path, ignores_case)
        case "array":
            parts = _read_value(avro_type.parts[0], item_type(declared_type), f"{path}_i", ignores_case)
            return AvroType("array", parts=parts[:1]), AvroType("array", parts=parts[1:])
    raise NotExact  # a map: of equal keys another one may count; a decimal in a fixed: as of precision


def _lists_in_lists(avro_type: AvroType) -> int:
    """Return how many arrays and maps are inside of each other."""
    return max(map(_lists_in_lists, avro_type.parts), default=0) + (avro_type.kind in ("array", "map"))


def _missing(declared_type: str) -> AvroType:
    """Return the reader's type of a field that the writer does not have: that which most writers of it have.

    So the records of those who have it and who don't are read in one way. A text stands for what is nested.
    """
    base_name = base_type(declared_type)
    if base_name in ("struct", "array", "map"):
        return AvroType("union", parts=(_NULL, AvroType("string")))
    if base_name in INTEGER_BITS:
        return AvroType("union", parts=(_NULL, AvroType("long")))
    part = written_type(declared_type, "").branches[0]
    return AvroType(
        "union", parts=(_NULL, replace(part, precision=DECIMAL_DIGITS_MAX) if base_name == "decimal" else part)
    )


def _unread(avro_type: AvroType, path: str) -> AvroType:
    """Return the copy of a type that is read over: its bytes, without the meaning that a library may refuse."""
    parts = tuple(_unread(part, f"{path}_{number}") for number, part in enumerate(avro_type.parts))
    match avro_type.kind:
        case "enum":
            return AvroType("int")
        case "fixed":
            return AvroType("fixed", path, size=avro_type.size)
        case "record":
            return AvroType("record", path, fields=tuple(_places(len(parts))), parts=parts)
        case "union":
            kinds = [part.kind for part in parts if part.kind not in ("record", "fixed")]
            if len(set(kinds)) < len(kinds):
                raise NotExact  # an enum and an int would be two ints
    return AvroType(avro_type.kind, parts=parts)


def _places(length: int) -> Iterator[str]:
    return (f"u{place}" for place in range(length))
