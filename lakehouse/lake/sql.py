"""SQL without Spark: a DuckDB that sees the registered Arrow data, and nothing else of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import duckdb

from lakehouse.errors import ConfigError
from lakehouse.lake import read_bounds

if TYPE_CHECKING:
    from lakehouse.lake.read_bounds import Rows


def open_duckdb(schemas: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection with these schemas and no data. It reads no files, and its times are in UTC.

    In a bounded read it stays within the read's limits.
    """
    connection = read_bounds.attach_connection(
        duckdb.connect(config={"enable_external_access": "false", **read_bounds.duckdb_settings()})
    )
    connection.execute("SET TimeZone = 'UTC'")
    for schema in schemas:
        connection.execute(f"CREATE SCHEMA {schema}")
    return connection


def register_table(connection: duckdb.DuckDBPyConnection, layer: str, name: str, rows: Rows) -> None:
    """Register a layer's table as `layer.name`; a silver table also as `name`, without its hidden columns."""
    frame_name = f"_{layer} {name}"  # a blank is in neither: no other pair of names makes the same one
    connection.register(frame_name, rows)
    connection.execute(f"CREATE VIEW {layer}.{quote_name(name)} AS SELECT * FROM {quote_name(frame_name)}")
    if layer == "silver":
        _create_visible_view(connection, "main", name, rows, f"silver.{quote_name(name)}")


def register_staged_table(connection: duckdb.DuckDBPyConnection, schema: str, name: str, rows: Rows) -> None:
    """Register a table of a deployment as `schema.name`, without its hidden columns."""
    frame_name = f"_{schema} {name}"
    connection.register(frame_name, rows)
    _create_visible_view(connection, schema, name, rows, quote_name(frame_name))


def _create_visible_view(
    connection: duckdb.DuckDBPyConnection, schema: str, name: str, rows: Rows, origin: str
) -> None:
    visible_names = ", ".join(map(quote_name, visible_columns(rows.schema.names)))
    connection.execute(f"CREATE VIEW {schema}.{quote_name(name)} AS SELECT {visible_names} FROM {origin}")


def visible_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns without lakehouse's own."""
    return [name for name in columns if not name.startswith("_")]


def run_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Answer one SELECT, which can't write. Raises ConfigError for SQL that DuckDB can't answer."""
    try:
        check_select(connection, sql)
        return connection.sql(sql)
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error


def check_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ConfigError for anything but one SELECT, duckdb.Error for a text that is not SQL."""
    statements = connection.extract_statements(sql)
    allowed_kinds = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1 or statements[0].type not in allowed_kinds:
        raise ConfigError(
            f"query {sql!r}: expected one SELECT; a lake's tables are written by their applications only."
        )


def check_distinct_names(names: Sequence[str]) -> None:
    """Raise ConfigError for an answer of which two columns have one name: an object of JSON would have one of them."""
    if equal_names := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"query: {names.count(equal_names[0])} columns have the name {equal_names[0]!r}; expected a name for each, "
            f"since JSON has a name once. Name them: ... AS {equal_names[0]}_2."
        )


def quote_name(name: str) -> str:
    """Return a name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
