"""A table's net changes without Spark, in order, even if memory does not hold them all.

A few versions are read at a time, so that the first changes come soon; many changes of one version are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.keys import key_condition
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.sorted_rows import in_order
from lakehouse.lake.sql import engine, quote

KINDS = ("insert", "update_postimage", "delete")
# The number of changes, of several versions, that are read at once.
ROWS_A_READ = 50_000
VERSIONS_A_READ = 64


def rows(
    layout: Layout, name: str, keys: tuple[str, ...], first: int | None, last: int | None, key: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the changes of versions first to last, in the order of versions and positions, as Delta's feed has them.

    key: only the changes of one key, by its text (`lakehouse.formats.key_text`). Raises NotFound, ConfigError as
    `reader.changes` does.
    """
    table = reader.open_table(reader.path_of(layout, *reader.split(name)), f"table {name!r}")
    condition = "true" if key is None else key_condition(table.to_pyarrow_dataset(), keys, key)
    newest = table.version()
    at, end, count = first or 0, newest if last is None else last, 1
    if at > end or end > newest:
        reader.changes(layout, name, first, last)  # says what is wrong
    while at <= end:
        until = min(at + count - 1, end)
        feed = _Feed(reader.change_batches(layout, name, at, until))
        yield from feed.changes(condition)
        count = min(count * 2, VERSIONS_A_READ) if feed.read < ROWS_A_READ else max(count // 2, 1)
        at = until + 1


def coming(
    layout: Layout, name: str, keys: tuple[str, ...], seen: int, wait: Callable[[], object], key: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the changes of the versions after `seen` as they come, without end, as `rows` does.

    wait: returns when it is time for the next look. Raises NotFound for a table that begins again, too.
    """
    path, what = reader.path_of(layout, *reader.split(name)), f"table {name!r}"
    while True:
        newest = reader.open_table(path, what).version()
        if newest < seen:
            raise NotFound(f"{what} begins again: it was at version {seen}, and is at {newest}. Follow it anew.")
        if newest > seen:
            yield from rows(layout, name, keys, seen + 1, newest, key)
        seen = newest
        wait()


class _Feed:
    """Delta's feed of some versions; `read` counts its rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._columns = next(batches).schema  # the first one is empty
        self.read = 0

    def changes(self, condition: str) -> Iterator[dict[str, Any]]:
        """Yield the changes that satisfy a condition, in SQL, in order."""
        order = self._order()
        names = self._columns.names
        for some in in_order(self._left(condition, order), len(order) + 1):
            for row in some:
                yield dict(zip(names, row[len(order) + 1 :], strict=True))

    def _order(self) -> list[str]:
        """The SQL expressions to sort changes by, none of them null: changes without a position come first.

        Arrow does not sort by lists: ordinals become a text, of equally many digits each.
        """
        if "_position" not in self._columns.names:
            return ["_commit_version"]
        parts = []
        for field in self._columns.field("_position").type:
            value, nothing = f"_position.{quote(field.name)}", "''"
            if pa.types.is_integer(field.type):
                nothing = "0"
            elif not pa.types.is_string(field.type):
                value = f"array_to_string(list_transform({value}, lambda n: lpad(n::VARCHAR, 19, '0')), '')"
            parts.append(f"coalesce({value}, {nothing})")
        return ["_commit_version", "_position IS NOT NULL", *parts]

    def _left(self, condition: str, order: list[str]) -> Iterator[pa.RecordBatch]:
        connection = engine()
        first = ", ".join(f"{part} AS _by_{number}" for number, part in enumerate(order))
        for batch in self._batches:
            connection.register("arrow", pa.Table.from_batches([batch]))
            # Arrow's type of its texts has no filters.
            connection.execute("CREATE OR REPLACE TEMP TABLE feed AS SELECT * FROM arrow")
            number = f"rowid + {self.read} AS _by_number"
            told = f"SELECT {first}, {number}, * FROM feed WHERE _change_type IN {KINDS} AND {condition}"
            yield from connection.sql(told).to_arrow_table().to_batches()
            self.read += batch.num_rows
