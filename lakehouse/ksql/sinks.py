"""What queries write: topics, and the formats of their values."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.cast import cast
from lakehouse.ksql.catalog import BOUNDS, Catalog, Entry, Relational, SqlColumn
from lakehouse.ksql.function import call
from lakehouse.ksql.function.sql import column, let, literal
from lakehouse.ksql.moments import has_moment, leaving
from lakehouse.ksql.properties import With
from lakehouse.ksql.query import Find, QueryTarget, compiled
from lakehouse.ksql.source import KEY_KINDS, time_kind
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import CreateAs
from lakehouse.plan.expression import name_text
from lakehouse.plan.names.field import is_escaped
from lakehouse.plan.schema import EPOCH, NAMED
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Changes, Sink, Table

NESTED = ("ARRAY", "MAP", "STRUCT")


def as_written(of: Relational) -> Stream:
    """Return a stream as it is written: moments are numbers."""
    assert isinstance(of.node, Stream)
    values: dict[str, Kind] = {c.name: c.kind for c in of.columns if not c.is_key}
    if not any(map(has_moment, values.values())):
        return of.node
    return of.node.select(*(f"{leaving(name_text(name), kind)} AS `{name}`" for name, kind in values.items()))


def widened(made: Relational, columns: tuple[SqlColumn, ...]) -> Relational:
    """Return what INSERT INTO writes: numbers as the sink's wider ones, texts as its moments, where the columns are its
    columns otherwise."""
    pairs = list(zip(made.columns, columns, strict=False))
    narrow = {
        one.name: other
        for one, other in pairs
        if one.kind != other.kind and not other.is_key and _widens(one.kind, other.kind)
    }  # fmt: skip
    if not narrow or [one.name for one, _ in pairs] != [other.name for _, other in pairs]:
        return made
    assert isinstance(made.node, Stream)
    casts = {name: cast(column(name, one.kind), narrow[name].kind, 0).text for one in made.columns
             if (name := one.name) in narrow}  # fmt: skip
    return Relational(made.node.with_columns(**casts), tuple(narrow.get(one.name, one) for one in made.columns))


def _widens(of: Kind, to: Kind) -> bool:
    """Whether INSERT INTO casts a type to another: a whole number also to a DECIMAL into which not every one fits."""
    if of.name == to.name == "DECIMAL":
        (precision, scale), (wide, to_scale) = of.digits, to.digits
        return scale <= to_scale and precision - scale <= wide - to_scale
    if of.is_number and to.is_number:
        return k.NUMBERS.index(of.name) < k.NUMBERS.index(to.name)
    return of == k.STRING and to.name in k.MOMENTS


def padded(made: Relational, columns: tuple[SqlColumn, ...]) -> Relational:
    """Return what a query inserts, with nulls for the columns that its sink got behind the others since."""
    more = [one for one in columns[len(made.columns) :] if not one.is_key]
    if not more or made.columns != columns[: len(made.columns)]:
        return made
    assert isinstance(made.node, Stream)
    nulls = {one.name: f"cast(NULL AS {one.kind.spark})" for one in more}
    return Relational(made.node.with_columns(**nulls), (*made.columns, *more))


def time_of(made: Relational, given: With) -> str:
    """Return Spark SQL for the time that TIMESTAMP gives to what a query writes; none before 1970, as in Kafka."""
    if given.timestamp is None:
        return ""
    kind = time_kind({one.name: one.kind for one in made.columns}, given)
    of = column(given.timestamp, kind)
    if kind == k.STRING:
        of = call.made("PARSE_TIMESTAMP", [of, literal(given.timestamp_format)], given.at)
    ms = of.text if kind == k.BIGINT else f"unix_millis({of.text})"
    return let(ms, "_ms", lambda ms: f"CASE WHEN {ms} >= 0 THEN {ms} END")


def timed(made: Relational, entry: Entry) -> Relational:
    """Return the stream of an entry at the time that TIMESTAMP gives to its records."""
    if not entry.time or not isinstance(made.node, Stream):
        return made
    return replace(made, node=made.node.retime(entry.time))


def changes_of(table: Table, entry: Entry) -> Stream | Changes:
    """Return what a table's topic has: its changelog, at the time that TIMESTAMP gives to its records."""
    return table.to_stream().retime(entry.time) if entry.time else table.changes()


def sink_of(of: Stream | Changes, entry: Entry) -> Sink:
    """Return the sink of an entry's topic, in its format; moments are numbers."""
    format = entry.formats[1].lower() if entry.is_wrapped else "json_bare"
    if format == "delimited" and entry.delimiter != ",":
        format += entry.delimiter
    keys = [column for column in entry.columns if column.is_key]
    key_format = {"JSON": "json_bare" if len(keys) == 1 else "json", "DELIMITED": "delimited"}.get(entry.formats[0], "")
    if key_format == "delimited" and entry.key_delimiter != ",":
        key_format += entry.key_delimiter
    if any(is_escaped(f"{column.name} {column.kind.spark}") for column in entry.columns):
        format += NAMED
        key_format += NAMED if key_format else ""
    if any(has_moment(column.kind) for column in entry.columns):
        format += EPOCH
        key_format += EPOCH if key_format else ""
    made = of.to_topic(entry.topic, partitions=entry.partitions)
    return replace(made, format=format, key_format=key_format if keys else "")


def check_format(made: Relational, format: str, at: int, *, is_wrapped: bool = True) -> None:
    """Raise SqlError for a value that a format can't hold."""
    values = [c for c in made.columns if not c.is_key]
    for one in values:
        if one.kind.is_null:
            raise SqlError(f"can't infer a type of NULL for {one.name}. Give it one: CAST(NULL AS VARCHAR)", at)
        if one.name in BOUNDS and isinstance(made.node, Stream):
            raise SqlError(f"{one.name} is a reserved column name. Give it another one: {one.name} AS ...", at)
    if not is_wrapped and len(values) > 1:
        raise SqlError("WRAP_SINGLE_VALUE=false is for a query that gives one value column", at)
    if format == "KAFKA" and (len(values) != 1 or values[0].kind.name not in KEY_KINDS):
        raise SqlError(
            f"VALUE_FORMAT='KAFKA' holds one column of {', '.join(KEY_KINDS)}, and there are: "
            f"{', '.join(f'{c.name} {c.kind}' for c in values)}. Name another: WITH (VALUE_FORMAT='JSON')",
            at,
        )
    nested = [c for c in values if c.kind.name in NESTED]
    if format == "DELIMITED" and nested:
        raise SqlError(
            f"VALUE_FORMAT='DELIMITED' can't hold {nested[0].name} {nested[0].kind}. Name another: WITH "
            "(VALUE_FORMAT='JSON')",
            at,
        )


def check_key(made: Relational, statement: CreateAs, format: str) -> None:
    """Raise SqlError for a key that its format can't hold, and for KEY_FORMAT where there is no key.

    format: as the statement says, or that of what the query reads.
    """
    given = statement.properties.get("KEY_FORMAT", statement.properties.get("FORMAT"))
    at = given.at if given is not None else statement.at
    if not made.key and "KEY_FORMAT" in statement.properties and format != "NONE":
        raise SqlError("KEY_FORMAT is for a stream with a key, and this one has none. Leave it out", at)
    wraps = statement.properties.get("WRAP_SINGLE_VALUE")
    if wraps is not None and len(made.columns) - len(made.key) > 1:
        raise SqlError("WRAP_SINGLE_VALUE is for a query that gives one value column", wraps.at)
    keys = [c for c in made.columns if c.is_key]
    if keys and given is not None and format == "NONE":
        shown = ", ".join(f"{c.name} {c.kind} KEY" for c in keys)
        raise SqlError(f"the 'NONE' format can only be used when no columns are defined. Got: {shown}", at)
    _check_nested_key(made, format, at)


def _check_nested_key(made: Relational, format: str, at: int) -> None:
    nested = [c for c in made.columns if c.is_key and c.kind.name in NESTED]
    if format == "DELIMITED" and nested:
        raise SqlError(
            f"KEY_FORMAT='DELIMITED' can't hold the key {nested[0].name} {nested[0].kind}. Name another: WITH "
            "(KEY_FORMAT='JSON')",
            at,
        )


def fitted(one: Relational, first: Relational) -> Stream:
    """Return a stream with the columns of the first, in their order and under the hidden key's name."""
    assert isinstance(one.node, Stream)
    assert isinstance(first.node, Stream)
    if one.node.key != first.node.key:
        return one.node.rekey(f"{name_text(one.node.key[0])} AS {first.node.key[0]}").drop(*one.node.key)
    return one.node


def check_queries(catalog: Catalog, find: Find, at: int) -> None:
    """Raise SqlError if a query does not fit what a statement at a place has replaced in the catalog."""
    for entry in catalog.declared.values():
        for name, query in entry.inserts:
            made = widened(compiled(query, find, QueryTarget("STREAM", entry.name, at)), entry.columns)
            if columns_of(padded(made, entry.columns)) != columns_of(entry.made):
                raise SqlError(
                    f"cannot replace it: query {name} inserts into {entry.name}, and its result schema "
                    f"{schema_of(made)} does not fit the schema {schema_of(entry.made)}. Keep these columns, and add "
                    f"new ones behind them; or DROP {entry.kind} {entry.name} first",
                    at,
                )
        if entry.query is not None:
            made = find(entry.name, at).made
            check_format(made, entry.formats[1], at, is_wrapped=entry.is_wrapped)
            _check_nested_key(made, entry.formats[0], at)


def check_inserted(made: Relational, target: Entry, at: int) -> None:
    """Raise SqlError for a query that does not give the columns of what it inserts into."""
    if columns_of(made) != columns_of(target.made):
        raise SqlError(
            f"incompatible schema between results and sink. Result schema is {schema_of(made)}, but the sink "
            f"schema is {schema_of(target.made)}",
            at,
        )


def columns_of(of: Relational) -> list[tuple[str, Kind, bool]]:
    """Return the columns of a stream or a table, as two of them are compared."""
    return [(column.name, column.kind, column.is_key) for column in of.columns]


def schema_of(of: Relational) -> str:
    """Return the columns as a message shows them."""
    return ", ".join(f"{c.name} {c.kind}{' KEY' if c.is_key else ''}" for c in of.columns)
