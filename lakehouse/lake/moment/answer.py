"""The answer to an SQL query, without Spark."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import rows_at
from lakehouse.lake.sql import quote_name
from lakehouse.markup.shown import value
from lakehouse.markup.text import InNotebook, as_html, to_html_table
from lakehouse.plan.refused.near import suggest_near
from lakehouse.semantics.moment import At

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.lake.moment.rows_at import FoldRows


# DuckDB's types that Arrow, or Python, has no type for: it would give three numbers, a wrong sign, or no zone.
AS_TEXTS = ("INTERVAL", "UHUGEINT", "TIME WITH TIME ZONE")
MISSING_TABLE = re.compile(r"query: Catalog Error: Table with name (.+?) does not exist!")


@dataclass(frozen=True, slots=True, repr=False)
class QueryAnswer(InNotebook):
    """An answer to a query. `arrow` has the rows; iterating gives each row as a dict."""

    arrow: pa.Table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.arrow.column_names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, their values in the order of the columns."""
        return list(zip(*map(_values_of, self.arrow.columns), strict=True))

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows: {', '.join(self.columns)}>"


def _values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; maps as dicts, or as pairs if a key comes twice or can't be one of a dict."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (KeyError, TypeError):
        values = column.to_pylist()
    return values


@as_html.register
def _answer_as_html(answer: QueryAnswer) -> str:
    return to_html_table(answer.columns, answer.rows, value)


def answer_query(
    layout: Layout, sql: str, moment: At | None = None, fold: FoldRows | None = None, limit: int | None = None
) -> QueryAnswer:
    """Answer one DuckDB SELECT over the lake, now or at a past moment; return the first `limit` rows.

    Raises ConfigError for SQL that can't be answered, NotFound for a table that does not exist, and for a moment that
    can't be read without `fold`.
    """
    try:
        relation = reader.query_lake(layout, sql) if moment is None else rows_at.query(layout, sql, moment, fold)
        # As Arrow, since fetchall would need another package for times with a zone.
        rows = _with_plain_types(relation if limit is None else relation.limit(limit))
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error
    except ConfigError as error:
        if missing_table := MISSING_TABLE.match(str(error)):
            raise NotFound(_missing_table_message(layout, missing_table[1])) from error
        raise
    _check_times(rows)
    return QueryAnswer(rows)


def _with_plain_types(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the rows of an answer; values of types that Arrow lacks as texts, sums of integers as integers."""
    import pyarrow as pa

    kinds = [str(kind) for kind in relation.types]
    if any(kind in AS_TEXTS for kind in kinds):
        columns = [f"#{number}" for number in range(1, len(kinds) + 1)]
        casts = [
            f"CAST({column} AS VARCHAR)" if kind in AS_TEXTS else column
            for column, kind in zip(columns, kinds, strict=True)
        ]
        names = relation.columns
        relation = relation.project(
            ", ".join(f"{cast} AS {quote_name(name)}" for cast, name in zip(casts, names, strict=True))
        )
    rows = relation.to_arrow_table()
    for number, kind in enumerate(kinds):
        if kind == "HUGEINT":
            with suppress(pa.ArrowInvalid):  # one that is larger than a BIGINT stays a decimal
                rows = rows.set_column(number, rows.column_names[number], rows.column(number).cast(pa.int64()))
    return rows


def _check_times(rows: pa.Table) -> None:
    """Raise ConfigError for a date or a time that Python doesn't have: DuckDB's go on before year 1 and after 9999."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not any(kind in str(column.type) for kind in ("date", "time")):
            continue
        try:
            column.to_pylist()
        except (OverflowError, ValueError) as error:
            raise ConfigError(
                f"query: column {name!r} has a time outside the years 1 to 9999; expected times within them. As text "
                f"it can be shown: CAST({name} AS VARCHAR)."
            ) from error


def _missing_table_message(layout: Layout, name: str) -> str:
    """Return the message about a table that does not exist: DuckDB's own would suggest tables of its own."""
    for layer in reader.LAYERS:
        clashing_names = reader.names_equal_but_case(reader.table_names(layout, layer))
        if same_names := [other for other in clashing_names if other.lower() == name.rpartition(".")[2].lower()]:
            return (
                f"query: {layer} has {' and '.join(same_names)}, which differ in case alone: SQL can't tell them "
                "apart, so it has neither. Read them by Spark, or by `lakehouse look`."
            )
    table_names = reader.table_names(layout, "silver")
    listing = f"It has: {', '.join(table_names)}." if table_names else "It has none yet; `lakehouse run` makes them."
    suggestion = suggest_near(name, table_names)
    return f"query: there is no table {name} in {layout.root}.{suggestion} {listing} `lakehouse look tables` lists all."
