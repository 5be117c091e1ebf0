"""The expectations of topics and tables, and whether the lake's records and rows meet them now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakehouse.lake import reader
from lakehouse.lake.function_failures import failures_by_table
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import count_refused
from lakehouse.plan.app import App
from lakehouse.plan.stream import judges_of
from lakehouse.semantics.failures import OF_ROWS


class Assertion(NamedTuple):
    """An expectation: of the records of a topic, or of a table's rows or records; the other name is empty.

    is_met: no record of the quarantine is open for it, and no table has counted one that does not meet it.
    """

    topic: str
    table: str
    name: str
    is_met: bool


def read_assertions(layout: Layout, app: App) -> list[Assertion]:
    """Return the expectations of an application, and whether each is met; without any, read nothing.

    Raises StorageError.
    """
    expected = list(_list_expectations(app))
    if not expected:
        return []
    streams = {source.name for source in app.sources if source.expectations}
    refused = count_refused(layout, streams & set(reader.table_names(layout, "quarantine")))
    unmet_by_table = {
        table: {failure.expectation for failure in failures} for table, failures in failures_by_table(layout).items()
    }
    unmet_by_table[""] = {f"{item.stream}.{item.expectation}" for item in refused if item.open}.union(
        *unmet_by_table.values()
    )
    return [
        Assertion(topic, table, name.removesuffix(OF_ROWS), name not in unmet_by_table.get(table, ()))
        for topic, table, name in expected
    ]


def _list_expectations(app: App) -> Iterator[tuple[str, str, str]]:
    """Yield the topic, or else the table, and the name of each expectation as commits count it."""
    for source in app.sources:
        yield from ((source.topic, "", source.counted_name(item)) for item in source.expectations)
    for table in app.tables:
        yield from (("", table.name, judge.name) for judge in judges_of(table.stream))
        yield from (("", table.name, f"{table.name}.{item.name}{OF_ROWS}") for item in table.expectations)
