"""The log of interventions, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import engine, literal

ROWS_A_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Logged:
    """An intervention in a table, as the log has it."""

    at: int
    id: str
    kind: str
    details: Mapping[str, Any]


def by_table(layout: Layout) -> dict[str, list[Logged]]:
    """Return the interventions in each table, in order."""
    tables: dict[str, list[Logged]] = {}
    for row in sorted(logged(layout), key=lambda row: row["at"]):
        tables.setdefault(row["table"], []).append(Logged(row["at"], row["id"], row["kind"], row["details"]))
    return tables


def logged(layout: Layout, table: str | None = None, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield what was decided by hand, the newest first, one row for each table; `details` as an object.

    table: only those in this table. limit: the number of rows. decided_by: None for a row of an earlier release.
    """
    reader.local_root(layout)
    if not is_table(layout.interventions):
        return
    connection = engine()
    connection.register("log", reader.dataset(layout.interventions))
    where = "" if table is None else f'WHERE "table" = {literal(table)}'
    cut = "" if limit is None else f"LIMIT {limit:d}"
    rows = connection.sql(f'SELECT * FROM log {where} ORDER BY "at" DESC, "table" {cut}')
    for batch in rows.to_arrow_reader(ROWS_A_BATCH):
        for row in batch.to_pylist():
            yield {"decided_by": None, **row, "details": json.loads(row["details"])}
