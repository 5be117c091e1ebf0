"""The names of fields in a topic, where columns have others: "deleted string from '__deleted'", inside structs, too.

A column's name is a letter, then letters, digits and underscores; a field of a topic may have any name. Python says
both. SQL, in which a name in backticks is any text, makes one of the other: what can't stand in a column's name is
written as its bytes in UTF-8, `price_x2028_EUR_x29_` for "price (EUR)".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from lakehouse.errors import PlanError

# A name in backticks; or the beginning of what names a field, with that name.
_FROM = re.compile(r"`(?:[^`]|``)*`|(?<!\w)from\s*('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", re.IGNORECASE)
_MARK = "field "
# What Delta has in no name, nor Parquet; and what a type's text is made of.
_NOT_INSIDE = re.compile(r"[ ,;{}()=<>:`'\"\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"(?:_|(?<![A-Za-z0-9_]))x((?:[0-9a-f]{2})+)_")
_UNESCAPED = re.compile(r"[^A-Za-z0-9_]+|^_+|^[0-9]|(?:(?<=_)|^)x(?=(?:[0-9a-f]{2})+[^A-Za-z0-9])")


def marked(text: str) -> tuple[str, list[str]]:
    """Return a schema's text in which a comment with a number stands for each `from '...'`, and the fields' names."""
    fields: list[str] = []

    def mark(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0]
        fields.append(part[1][1:-1].replace(part[1][0] * 2, part[1][0]))
        return f"COMMENT '{_MARK}{len(fields) - 1}'"

    return _FROM.sub(mark, text), fields


def field_of(column: exp.ColumnDef, fields: list[str]) -> str | None:
    """Return the name of a column's field if it has another, and take the mark away. Other constraints stay."""
    for constraint in column.constraints:
        comment = constraint.args.get("kind")
        name = comment.name if isinstance(comment, exp.CommentColumnConstraint) else ""
        if name.startswith(_MARK) and len(column.constraints) == 1:
            column.set("constraints", None)
            return fields[int(name.removeprefix(_MARK))]
    return None


def in_topic(kind: exp.DataType, fields: list[str], what: str) -> exp.DataType:
    """Take the names of fields out of a type, and return it with these instead of its own. Raises PlanError."""
    other: exp.DataType = kind.copy()
    for own, there in zip(_members(kind), _members(other), strict=True):
        field_of(there, fields)
        if (name := field_of(own, fields)) is not None:
            there.set("this", exp.to_identifier(name, quoted=True))
        if own.constraints:
            raise PlanError(f"{what}: {own.sql('spark')!r} is not a field and its type.")
    check_inside(kind, what)
    for struct in _structs(other):
        check_fields([item.name for item in struct.expressions], what)
    return other


def check_fields(names: list[str], what: str) -> None:
    """Raise PlanError for two columns that are read from one field."""
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{what}: the field {name!r} is read twice. Read it once, and select it under both names.")


def check_inside(kind: exp.DataType, what: str) -> None:
    """Raise PlanError for a name inside a struct that no table can have: Delta's and Parquet's rules."""
    for struct in _structs(kind):
        check_names([item.name for item in struct.expressions], what)


def check_names(names: list[str], what: str) -> None:
    """Raise PlanError for a name of a struct's field that no table can have, or two that differ in case at most."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or _NOT_INSIDE.search(name):
            raise PlanError(
                f"{what}: a struct has a field {name!r}: expected no blanks, no control characters and none of "
                f",;{{}}()=<>:`'\" in its name. Give it another one; where it is a topic's, in the schema: "
                f'"struct<{suggested(name)}: string from {quoted(name)}>".'
            )
        if (other := seen.get(name.lower())) is not None:
            raise PlanError(
                f"{what}: a struct has fields {other!r} and {name!r}, which are the same name, since case is ignored. "
                f"Give one another name; where it is a topic's, in the schema: "
                f'"struct<{suggested(name)}_2: string from {quoted(name)}>".'
            )
        seen[name.lower()] = name


def suggested(field: str) -> str:
    """Return a name that a column may have for a field."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", field).strip("_").lstrip("0123456789_")
    return name[:63] or "field"


def quoted(field: str) -> str:
    """Return the name of a field as a schema's text has it."""
    return "'" + field.replace("'", "''") + "'"


def column_name(field: str) -> str:
    """Return the column's name that SQL gives to a field. No two fields have one; a name that is possible stays."""
    return _UNESCAPED.sub(_escaped, field).removeprefix("_") if _UNESCAPED.search(field) else field


def escaped_name(field: str) -> str:
    """Return a column's name for a field whose own name would be possible, but means something else to all records."""
    return f"x{field[0].encode().hex()}_{field[1:]}"


def field_name(column: str) -> str:
    """Return the name that `column_name` has made a column's name of."""
    return _ESCAPE.sub(lambda part: bytes.fromhex(part[1]).decode("utf-8", "replace"), column)


def is_escaped(column: str) -> bool:
    """Say whether a column's name is made of another."""
    return _ESCAPE.search(column) is not None


def field_type(kind: exp.DataType) -> exp.DataType:
    """Return a type with the names that `column_name` has made others of."""
    other: exp.DataType = kind.copy()
    for item in _members(other):
        item.set("this", exp.to_identifier(field_name(item.name), quoted=True))
    return other


def _escaped(part: re.Match[str]) -> str:
    return f"_x{part[0].encode('utf-8', 'replace').hex()}_"


def _structs(kind: exp.DataType) -> Iterator[exp.DataType]:
    return (part for part in kind.find_all(exp.DataType) if part.this == exp.DataType.Type.STRUCT)


def _members(kind: exp.DataType) -> list[exp.ColumnDef]:
    return list(kind.find_all(exp.ColumnDef))
