"""Fields of a topic whose names differ from the columns': "deleted string from '__deleted'", also inside structs.

A column's name is a letter, then letters, digits and underscores; a field of a topic may have any name. A declaration
in Python gives both names. SQL allows any text in backticks, and derives the column's name from it: characters that are
not allowed are written as their bytes in UTF-8, `price_x2028_EUR_x29_` for "price (EUR)".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from lakehouse.errors import PlanError

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
# A name in backticks; or `from` with the name of a field.
_FROM = re.compile(r"`(?:[^`]|``)*`|(?<!\w)from\s*('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", re.IGNORECASE)
_MARK = "field "
# Characters that Delta and Parquet do not allow in names, and those of a type's syntax.
_NOT_INSIDE = re.compile(r"[ ,;{}()=<>:`'\"\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"(?:_|(?<![A-Za-z0-9_]))x((?:[0-9a-f]{2})+)_")
_UNESCAPED = re.compile(r"[^A-Za-z0-9_]+|^_+|^[0-9]|(?:(?<=_)|^)x(?=(?:[0-9a-f]{2})+[^A-Za-z0-9])")


def mark_fields(text: str) -> tuple[str, list[str]]:
    """Return a schema's text with each `from '...'` replaced by a numbered comment, and the names of the fields."""
    fields: list[str] = []

    def mark(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0]
        fields.append(part[1][1:-1].replace(part[1][0] * 2, part[1][0]))
        return f"COMMENT '{_MARK}{len(fields) - 1}'"

    return _FROM.sub(mark, text), fields


def take_field_name(column: exp.ColumnDef, fields: list[str]) -> str | None:
    """Return the name of a column's field if it differs, and remove its mark. Other constraints stay."""
    for constraint in column.constraints:
        comment = constraint.args.get("kind")
        comment_text = comment.name if isinstance(comment, exp.CommentColumnConstraint) else ""
        if comment_text.startswith(_MARK) and len(column.constraints) == 1:
            column.set("constraints", None)
            return fields[int(comment_text.removeprefix(_MARK))]
    return None


def type_in_topic(column_type: exp.DataType, fields: list[str], subject: str) -> exp.DataType:
    """Remove the marks of fields from a type, and return the type with the names of the fields. Raises PlanError."""
    topic_type: exp.DataType = column_type.copy()
    for own_member, topic_member in zip(_struct_members(column_type), _struct_members(topic_type), strict=True):
        take_field_name(topic_member, fields)
        if (name := take_field_name(own_member, fields)) is not None:
            topic_member.set("this", exp.to_identifier(name, quoted=True))
        if own_member.constraints:
            raise PlanError(f"{subject}: {own_member.sql('spark')!r} is not a field and its type.")
    check_inside(column_type, subject)
    for struct in _struct_types(topic_type):
        check_fields([struct_member.name for struct_member in struct.expressions], subject)
    return topic_type


def check_fields(names: list[str], subject: str) -> None:
    """Raise PlanError for two columns that are read from the same field."""
    for name in names:
        if names.count(name) > 1:
            raise PlanError(
                f"{subject}: the field {name!r} is read twice. Read it once, and select it under both names."
            )


def check_inside(kind: exp.DataType, subject: str) -> None:
    """Raise PlanError for a name inside a struct that Delta or Parquet does not allow."""
    for struct in _struct_types(kind):
        check_names([struct_member.name for struct_member in struct.expressions], subject)


def check_names(names: list[str], subject: str) -> None:
    """Raise PlanError for a forbidden name of a struct's field, or for two names that differ at most in case."""
    names_by_lower: dict[str, str] = {}
    for name in names:
        if not name or _NOT_INSIDE.search(name):
            raise PlanError(
                f"{subject}: a struct has a field {name!r}: expected no blanks, no control characters and none of "
                f",;{{}}()=<>:`'\" in its name. Give it another one; where it is a topic's, in the schema: "
                f'"struct<{suggest_name(name)}: string from {quote_field(name)}>".'
            )
        if (earlier_name := names_by_lower.get(name.lower())) is not None:
            raise PlanError(
                f"{subject}: a struct has fields {earlier_name!r} and {name!r}, which are the same name, since case is "
                f"ignored. Give one another name; where it is a topic's, in the schema: "
                f'"struct<{suggest_name(name)}_2: string from {quote_field(name)}>".'
            )
        names_by_lower[name.lower()] = name


def suggest_name(field: str) -> str:
    """Return a possible column's name for a field."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", field).strip("_").lstrip("0123456789_")
    return name[:63] or "field"


def quote_field(field: str) -> str:
    """Return the name of a field as written in a schema's text."""
    return "'" + field.replace("'", "''") + "'"


def in_backticks(name: str) -> str:
    """Return a name of any characters, or a path, as Spark SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def column_name(field: str) -> str:
    """Return the column's name that SQL derives from a field's name. It is unique; an allowed name stays."""
    return _UNESCAPED.sub(_escape_part, field).removeprefix("_") if _UNESCAPED.search(field) else field


def escaped_name(field: str) -> str:
    """Return a column's name for a field whose own name would be possible, but means something else to all records."""
    return f"x{field[0].encode().hex()}_{field[1:]}"


def field_name(column: str) -> str:
    """Return the field's name from which `column_name` derived a column's name."""
    return _ESCAPE.sub(lambda part: bytes.fromhex(part[1]).decode("utf-8", "replace"), column)


def quoted_name(column: str) -> str:
    """Return a column's name as it is written in SQL, which reads a name without backticks in upper case."""
    is_plain = re.fullmatch(r"[A-Z][A-Z0-9_]*", column) is not None
    return column if is_plain else in_backticks(field_name(column))


def name_fields_in_text(text: str, source_text: str) -> str:
    """Return a message with the names of fields. Words that its source, in SQL, has itself are data, and stay."""
    return re.sub(r"[A-Za-z0-9_]+", lambda word: word[0] if word[0] in source_text else field_name(word[0]), text)


def is_escaped(column: str) -> bool:
    """Say whether a column's name is derived from another name."""
    return _ESCAPE.search(column) is not None


def type_with_field_names(column_type: exp.DataType) -> exp.DataType:
    """Return a type with the original names of its fields, see `field_name`."""
    renamed_type: exp.DataType = column_type.copy()
    for struct_member in _struct_members(renamed_type):
        struct_member.set("this", exp.to_identifier(field_name(struct_member.name), quoted=True))
    return renamed_type


def _escape_part(part: re.Match[str]) -> str:
    return f"_x{part[0].encode('utf-8', 'replace').hex()}_"


def _struct_types(kind: exp.DataType) -> Iterator[exp.DataType]:
    return (part for part in kind.find_all(exp.DataType) if part.this == exp.DataType.Type.STRUCT)


def _struct_members(kind: exp.DataType) -> list[exp.ColumnDef]:
    return list(kind.find_all(exp.ColumnDef))
