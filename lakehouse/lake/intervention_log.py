"""The log of interventions, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import open_duckdb, quote_literal
from lakehouse.lake.store import is_table

ROWS_A_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class LoggedIntervention:
    """An intervention in a table, as logged."""

    at: int
    id: str
    kind: str
    details: Mapping[str, Any]


def interventions_by_table(layout: Layout) -> dict[str, list[LoggedIntervention]]:
    """Return the interventions in each table, in order."""
    logged_by_table: dict[str, list[LoggedIntervention]] = {}
    for row in sorted(read_interventions(layout), key=lambda row: row["at"]):
        logged_by_table.setdefault(row["table"], []).append(
            LoggedIntervention(row["at"], row["id"], row["kind"], row["details"])
        )
    return logged_by_table


def read_interventions(layout: Layout, table: str | None = None, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the interventions, the newest first, one row for each table; `details` is an object.

    table: yield only those in this table. limit: the number of rows.
    """
    if not is_table(layout.interventions):
        return
    connection = open_duckdb()
    connection.register("log", reader.open_dataset(layout.interventions))
    where_clause = "" if table is None else f'WHERE "table" = {quote_literal(table)}'
    limit_clause = "" if limit is None else f"LIMIT {limit:d}"
    rows = connection.sql(f'SELECT * FROM log {where_clause} ORDER BY "at" DESC, "table" {limit_clause}')
    for batch in rows.to_arrow_reader(ROWS_A_BATCH):
        for row in batch.to_pylist():
            yield {**row, "details": json.loads(row["details"])}
