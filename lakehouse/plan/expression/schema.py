"""Names and types: the names that are allowed, and schemas written as in Spark ("city string, n bigint")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import sqlglot
from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.plan.names.field import (
    IDENTIFIER,
    check_fields,
    field_name,
    is_escaped,
    mark_fields,
    quote_field,
    suggest_name,
    take_field_name,
    type_in_topic,
    type_with_field_names,
)
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.type_words import fault_of_types
from lakehouse.plan.refused.types import check_parameters
from lakehouse.plan.written.parse import SQLGLOT_FAULTS

Item = TypeVar("Item")

ESCAPED = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")  # a name that SQL has derived from any text: see `names.field`
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

# ksqlDB's pseudo columns; every stream has them, so a schema can't redefine them.
PSEUDO_COLUMNS = {"rowtime": "bigint", "rowpartition": "int", "rowoffset": "bigint"}

# The type of a position: see `lakehouse.semantics.position`.
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
ORDINALS_TYPE = "array<bigint>"
POSITION_TYPE = (
    "struct<tick: bigint, order_time: bigint, topic: string, partition: int, offset: bigint, "
    f"ordinals: {ORDINALS_TYPE}>"
)

PRIMITIVE_TYPES = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "binary", "date",
    "timestamp",
)  # fmt: skip
NESTED_TYPES = ("struct", "array", "map")
NESTING_MAX = 40  # types inside of each other: what is deeper takes a parser minutes, or more than its stack
# Types of other systems -> Spark's.
OTHER_TYPES = {
    "varchar": "string", "char": "string", "text": "string", "str": "string", "uuid": "string", "integer": "int",
    "int64": "bigint", "long": "bigint", "int32": "int", "short": "smallint", "byte": "tinyint", "real": "float",
    "bool": "boolean", "bytes": "binary", "bytea": "binary", "datetime": "timestamp",
    "timestamptz": "timestamp", "timestamp_ntz": "timestamp", "json": "string",
    "list": "array<string>", "record": "struct<a: int>",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and its type as Spark SQL text ("bigint", "decimal(10, 2)", "struct<a: int>").

    field, field_type: the name and the type in the topic, if the names there differ; else None.
    """

    name: str
    type: str
    field: str | None = None
    field_type: str | None = None

    def __str__(self) -> str:
        field_text = "" if self.field is None else f" from {quote_field(self.field)}"
        return f"{self.name} {self.type}{field_text}{f' as {self.field_type}' if self.field_type else ''}"

    @property
    def plain(self) -> Column:
        """The column without its names in the topic."""
        return Column(self.name, self.type) if self.is_renamed else self

    @property
    def in_topic(self) -> Column:
        """The column with its names in the topic."""
        if not self.is_renamed:
            return self
        return Column(self.name if self.field is None else self.field, self.field_type or self.type)

    @property
    def is_renamed(self) -> bool:
        """True if the column has other names in the topic."""
        return self.field is not None or self.field_type is not None

    @property
    def logic(self) -> str:
        """The field that a value is read from, and its type."""
        return str(self).removeprefix(f"{self.name} ")


def check_name(name: str, subject: str) -> str:
    """Return `name` if it can be a table's, a stream's or a column's name; raise PlanError otherwise."""
    if not isinstance(name, str) or not (IDENTIFIER.fullmatch(name) or (is_escaped(name) and ESCAPED.fullmatch(name))):
        raise PlanError(
            f"{subject} {name!r:.200}: expected a letter, then at most 62 letters, digits or underscores "
            "(a leading underscore marks lakehouse's own columns). Choose another name."
        )
    return name


def check_column(name: str, type_text: str, subject: str) -> str:
    """Return `name` if it can be a column's name in a schema; else raise PlanError with a way to read the field."""
    if IDENTIFIER.fullmatch(name):
        return name
    raise PlanError(
        f"{subject} {name!r:.200}: a column's name is a letter, then at most 62 letters, digits or underscores. A "
        f'field of the topic may have any name: give it one here, "{suggest_name(name)} {type_text} from '
        f'{quote_field(name)}".'
    )


def check_topic(name: str) -> str:
    """Return `name` if Kafka allows it as a topic's name; raise PlanError otherwise."""
    if not isinstance(name, str) or not TOPIC.fullmatch(name) or name in {".", ".."}:
        raise PlanError(f"topic {name!r}: Kafka allows at most 249 letters, digits, '.', '_' and '-'.")
    return name


def check_partitions(partitions: int | None, topic: str) -> int | None:
    """Return the number of partitions if it is possible for a topic; raise PlanError otherwise."""
    is_number = isinstance(partitions, int) and not isinstance(partitions, bool)
    if partitions is not None and not (is_number and 1 <= partitions <= 10_000):
        raise PlanError(f"topic {topic!r}: partitions={partitions!r}, expected 1 to 10000.")
    return partitions


def without_duplicates(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return every item once. Items need not be hashable: a declaration may contain a list, as an aggregate's zero."""
    unique_items: list[Item] = []
    for item in items:
        if item not in unique_items:
            unique_items.append(item)
    return tuple(unique_items)


def check_distinct(names: Iterable[str], subject: str) -> None:
    """Raise PlanError if two names differ only in case: Spark would not distinguish them."""
    names_by_lower: dict[str, str] = {}
    for name in names:
        if (earlier_name := names_by_lower.get(name.lower())) is not None:
            raise PlanError(
                f"{subject}: {name!r} and {earlier_name!r} are the same name, since case is ignored. Rename one."
            )
        names_by_lower[name.lower()] = name


def joined_columns(
    columns: Iterable[Column],
    other_columns: Iterable[Column],
    prefix: str,
    name: str,
    subject: str,
    indicator: str = "",
) -> tuple[Column, ...]:
    """Return the columns of a join: `columns`, then `other_columns` with the prefix, and the indicator if it is named.

    name: the other side in messages. Raises PlanError for equal names.
    """
    if not isinstance(prefix, str):
        raise PlanError(f'{subject}: prefix={prefix!r}: expected the beginning of names, such as prefix="customer_".')
    added_columns = tuple(Column(prefix + column.name, column.type) for column in other_columns)
    for column in added_columns:
        check_name(column.name, f"{subject}: prefix")
    if indicator:
        added_columns += (Column(check_name(indicator, f"{subject}: indicator"), "string"),)
    all_columns = (*columns, *added_columns)
    try:
        check_distinct((column.name for column in all_columns), subject)
    except PlanError as error:
        raise PlanError(f'{error} Give the columns of {name} a prefix: prefix="{name}_".') from None
    return all_columns


def parse_schema(text: str, subject: str) -> tuple[Column, ...]:
    """Return the columns of a schema text such as "city string, amount decimal(10, 2)".

    Raises PlanError for other texts.

    "deleted string from '__deleted'" reads a field of another name: see `lakehouse.plan.names.field`.
    """
    advice = 'Write it as Spark does: "city string, amount decimal(10, 2), tags array<string>".'
    if not isinstance(text, str):
        raise PlanError(f"{subject}: found {text!r}, expected text. {advice}")
    too_deep = (
        f"{subject}: {text[:80]!r} is nested too deeply: expected at most {NESTING_MAX} types inside of each other. "
        "Declare the inner ones as a string, which has them as JSON."
    )
    if _nesting_depth(text) > NESTING_MAX:
        raise PlanError(too_deep)
    schema_text, fields = mark_fields(text)
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({schema_text})", read="spark")
    except RecursionError as error:
        raise PlanError(too_deep) from error
    except (sqlglot.errors.SqlglotError, *SQLGLOT_FAULTS) as error:
        raise PlanError(f"{subject}: {text!r} can't be read as a schema{_wrong_part(text)} {advice}") from error
    if (fault := fault_of_types(schema_text, is_schema=True)) is not None:
        raise PlanError(f"{subject}: {text!r}: {fault}")
    schema = tree.this if isinstance(tree, exp.Create) else None
    if not isinstance(schema, exp.Schema) or tree.args.get("expression") is not None:
        raise PlanError(f"{subject}: {text!r} is not a schema. {advice}")
    columns = []
    for column_definition in schema.expressions:
        topic_field = (
            take_field_name(column_definition, fields) if isinstance(column_definition, exp.ColumnDef) else None
        )
        if (
            not isinstance(column_definition, exp.ColumnDef)
            or column_definition.kind is None
            or column_definition.constraints
        ):
            raise PlanError(f"{subject}: {column_definition.sql('spark')!r} is not a column and its type. {advice}")
        topic_type = type_in_topic(column_definition.kind, fields, f"{subject}: column {column_definition.name!r}")
        column_type = type_text(column_definition.kind, f"{subject}: column {column_definition.name!r}")
        name = check_column(column_definition.name, column_type, f"{subject}: column")
        if name.lower() in PSEUDO_COLUMNS:
            raise PlanError(
                f"{subject}: column {name!r} is a pseudo column that every stream has. Rename it: "
                f'"{name}_of_record {column_type} from {quote_field(name if topic_field is None else topic_field)}".'
            )
        renamed_type = type_text(topic_type, subject) if topic_type != column_definition.kind else None
        columns.append(Column(name, column_type, None if topic_field == name else topic_field, renamed_type))
    check_distinct((column.name for column in columns), subject)
    check_fields([column.in_topic.name for column in columns], subject)
    return tuple(columns)


def _nesting_depth(schema_text: str) -> int:
    """Return how many brackets are open at once, at most; those in names do not count."""
    depth = depth_max = 0
    for bracket in re.findall(r"[<(>)]", re.sub(r"`[^`]*`|'[^']*'", "", schema_text)):
        depth += 1 if bracket in "<(" else -1
        depth_max = max(depth, depth_max)
    return depth_max


def _wrong_part(text: object) -> str:
    """Return the part of a schema's text that can't be parsed: the first bad column, or the bad word in it."""
    if not isinstance(text, str):
        return ": it is no text."
    for column_text in re.split(r",(?![^<(]*[>)])", text):
        name, _, type_words = column_text.strip().replace("`", "").partition(" ")
        for word in re.findall(r"[A-Za-z_]\w*(?!\w*\s*:)", type_words):
            if word.lower() not in (*PRIMITIVE_TYPES, *NESTED_TYPES):
                return f": column {name!r}: unknown type {word!r}.{_near_type(word)}"
    for opened, closed in ("()", "<>"):
        if text.count(opened) != text.count(closed):
            return f": it has {text.count(opened)} {opened!r} and {text.count(closed)} {closed!r}."
    return "."


def _near_type(word: str) -> str:
    """Return a hint for an unknown type: Spark's type for another system's, or a similar word."""
    spark_type = OTHER_TYPES.get(word.lower())
    return f" Did you mean {spark_type!r}?" if spark_type else suggest_near(word, (*PRIMITIVE_TYPES, *NESTED_TYPES))


def type_text(parsed_type: exp.Expression, subject: str) -> str:
    """Return a parsed type as Spark SQL text. Raises PlanError for a type that Spark can't make."""
    if not isinstance(parsed_type, exp.DataType):
        raise PlanError(f"{subject}: {parsed_type.sql('spark')!r} is not a type.")
    for part in parsed_type.find_all(exp.DataType):
        base_name = part.sql("spark").lower().split("<")[0].split("(")[0]
        if base_name not in PRIMITIVE_TYPES and base_name not in NESTED_TYPES:
            allowed_names = ", ".join((*PRIMITIVE_TYPES, *NESTED_TYPES))
            raise PlanError(
                f"{subject}: unknown type {part.sql('spark').lower()!r}.{_near_type(base_name)} Expected one of "
                f"{allowed_names}."
            )
        check_parameters(part, base_name, subject)
    return sql_type(parsed_type)


def sql_type(parsed_type: exp.Expression) -> str:
    """Return a type as Spark SQL text, its words in lower case. The names of a struct's fields stay as written."""
    name_or_word = r"`(?:[^`]|``)*`|\b(\w+)\b(?!:)"
    return re.sub(name_or_word, lambda part: part[0].lower() if part[1] else part[0], parsed_type.sql("spark"))


def parse_type(type_text: str) -> exp.DataType:
    """Return a type's tree, for code that walks it."""
    return exp.DataType.build(type_text, dialect="spark")


@lru_cache(maxsize=1024)  # each record that is decoded or published asks
def fields_of(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of a SQL declaration under the names of their fields: see `lakehouse.plan.names.field`."""
    column_types = ((column, type_with_field_names(parse_type(column.type)).sql("spark")) for column in columns)
    return tuple(Column(field_name(column.name), spark_type) for column, spark_type in column_types)


@lru_cache(maxsize=1024)
def base_type(type_text: str) -> str:
    """Return a type's first word: "decimal" for "decimal(10, 2)", "struct" for "struct<a: int>"."""
    return re.split(r"[<(]", type_text, maxsplit=1)[0].strip().lower()


@lru_cache(maxsize=1024)
def is_same_type(type_text: str, other_text: str) -> bool:
    """Say whether two types are the same in all their parts, however they are written."""
    return _plain_type(type_text) == _plain_type(other_text)


def _plain_type(type_text: str) -> str:
    parsed_type = parse_type(type_text)
    for name in parsed_type.find_all(exp.Identifier):
        name.set("quoted", True)
    # Spark's DECIMAL has ten digits, and none after the point where no scale is written.
    with_precision = re.sub(r"\bdecimal\b(?!`|\()", "decimal(10, 0)", sql_type(parsed_type))
    return re.sub(r"\bdecimal\((\d+)\)", r"decimal(\1, 0)", with_precision)


def field_types(struct_type: str) -> dict[str, str]:
    """Return the types of a struct's fields, by their names."""
    return {field.name: sql_type(field.kind) for field in parse_type(struct_type).expressions}


def item_type(declared_type: str) -> str:
    """Return the type of an array's items, or of a map's values: "int" for "array<int>"."""
    return sql_type(parse_type(declared_type).expressions[-1])


def find_field(field_names: Iterable[str], name: str) -> str | None:
    """Return the field that a name means, as written or in any case, as everywhere in Spark; None if there is none."""
    names = list(field_names)
    return name if name in names else next((own_name for own_name in names if own_name.lower() == name.lower()), None)


def check_pseudo(columns: Iterable[Column], subject: str) -> None:
    """Raise PlanError if a computed column takes the name of a pseudo column."""
    for column in columns:
        if column.name.lower() in PSEUDO_COLUMNS:
            raise PlanError(
                f'{subject}: {column.name!r} is a pseudo column; give it another name: "{column.name} AS ...".'
            )


def is_number_type(type_text: str) -> bool:
    """Say whether a type can be summed."""
    return type_text in ("tinyint", "smallint", "int", "bigint", "float", "double") or type_text.startswith("decimal")
