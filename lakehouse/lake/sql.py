"""SQL without Spark: a DuckDB that sees the Arrow data given to it, and nothing else of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import duckdb

from lakehouse.errors import ConfigError
from lakehouse.lake import bounded

if TYPE_CHECKING:
    from lakehouse.lake.bounded import Rows


def engine(schemas: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that has these schemas, and no data yet. It reads no file, and its times are in UTC.

    In a bounded read it stays within the read's limits.
    """
    connection = bounded.entered(duckdb.connect(config={"enable_external_access": "false", **bounded.settings()}))
    connection.execute("SET TimeZone = 'UTC'")
    for schema in schemas:
        connection.execute(f"CREATE SCHEMA {schema}")
    return connection


def register(connection: duckdb.DuckDBPyConnection, layer: str, name: str, rows: Rows) -> None:
    """Let a DuckDB see a layer's table as `layer.name`; a silver table also as `name`, without its hidden columns."""
    connection.register(f"_{layer}_{name}", rows)
    connection.execute(f"CREATE VIEW {layer}.{quote(name)} AS SELECT * FROM {quote(f'_{layer}_{name}')}")
    if layer == "silver":
        shown = ", ".join(map(quote, visible(rows.schema.names)))
        connection.execute(f"CREATE VIEW main.{quote(name)} AS SELECT {shown} FROM silver.{quote(name)}")


def visible(columns: Iterable[str]) -> list[str]:
    """Return the columns that are not lakehouse's own."""
    return [name for name in columns if not name.startswith("_")]


def answer(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Answer one SELECT. Raises ConfigError for SQL that DuckDB can't answer; it can't write."""
    try:
        check_select(connection, sql)
        return connection.sql(sql)
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error


def check_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ConfigError for anything but one SELECT, duckdb.Error for a text that is not SQL."""
    statements = connection.extract_statements(sql)
    kinds = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1 or statements[0].type not in kinds:
        raise ConfigError(
            f"query {sql!r}: expected one SELECT; a lake's tables are written by their applications only."
        )


def quote(name: str) -> str:
    """Return a name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
