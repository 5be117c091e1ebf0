"""A table's net changes, without Spark, in order, even if they do not fit in memory.

A few versions are read at a time, so that the first changes come soon; many changes of one version are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_condition_sql
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.sorted_rows import sort_rows
from lakehouse.lake.sql import open_duckdb, quote_name

KINDS = ("insert", "update_postimage", "delete")
PREIMAGE = "update_preimage"
# The number of changes to read at once, of several versions.
ROWS_A_READ = 50_000
VERSIONS_A_READ = 64


def walk_net_changes(
    layout: Layout,
    name: str,
    keys: tuple[str, ...],
    from_version: int | None,
    to_version: int | None,
    key: str | None,
    *,
    with_preimages: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the changes of these versions in the order of versions and positions, as they are in Delta's feed.

    key: yield only the changes of one key, by its text (`lakehouse.formats.key_text`). with_preimages: also yield the
    rows as they were before updates, at the beginning of each version. Raises NotFound and ConfigError as
    `reader.read_changes` does.
    """
    delta_table = reader.open_table(reader.find_table_path(layout, *reader.split_layer(name)), f"table {name!r}")
    condition = "true" if key is None else key_condition_sql(delta_table.to_pyarrow_dataset(), keys, key)
    newest_version = delta_table.version()
    first_version, last_version, version_count = (
        from_version or 0,
        newest_version if to_version is None else to_version,
        1,
    )
    if first_version > last_version or last_version > newest_version:
        reader.read_changes(layout, name, from_version, to_version)  # raises the error that explains the reason
    while first_version <= last_version:
        until_version = min(first_version + version_count - 1, last_version)
        batches = reader.walk_change_batches(layout, name, first_version, until_version)
        change_feed = _ChangeFeed(batches, (*KINDS, PREIMAGE) if with_preimages else KINDS)
        yield from change_feed.changes(condition)
        version_count = (
            min(version_count * 2, VERSIONS_A_READ)
            if change_feed.row_count < ROWS_A_READ
            else max(version_count // 2, 1)
        )
        first_version = until_version + 1


def follow_net_changes(
    layout: Layout,
    name: str,
    keys: tuple[str, ...],
    seen_version: int,
    wait: Callable[[], object],
    key: str | None = None,
    *,
    with_preimages: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the changes of the versions after `seen_version` as they come, without end, as `walk_net_changes` does.

    wait: called when there are no new versions; returns when it is time to look again. Also raises NotFound for a table
    that was created anew.
    """
    table_path, label = reader.find_table_path(layout, *reader.split_layer(name)), f"table {name!r}"
    while True:
        newest_version = reader.open_table(table_path, label).version()
        if newest_version < seen_version:
            raise NotFound(
                f"{label} begins again: it was at version {seen_version}, and is at {newest_version}. Follow it anew."
            )
        if newest_version > seen_version:
            yield from walk_net_changes(
                layout, name, keys, seen_version + 1, newest_version, key, with_preimages=with_preimages
            )
        seen_version = newest_version
        wait()


class _ChangeFeed:
    """Delta's feed of some versions; `row_count` counts the rows read so far."""

    def __init__(self, batches: Iterator[pa.RecordBatch], kinds: tuple[str, ...]) -> None:
        self._batches, self._kinds = batches, kinds
        self._columns = next(batches).schema  # the first one is empty
        self.row_count = 0

    def changes(self, condition: str) -> Iterator[dict[str, Any]]:
        """Yield the changes that satisfy a condition, in SQL, in order."""
        sort_expressions = self._order()
        column_names = self._columns.names
        for sorted_rows in sort_rows(self._selected_batches(condition, sort_expressions), len(sort_expressions) + 1):
            for row in sorted_rows:
                yield dict(zip(column_names, row[len(sort_expressions) + 1 :], strict=True))

    def _order(self) -> list[str]:
        """Return the SQL expressions to sort changes by, none of them null: preimages first, then without a position.

        Arrow does not sort by lists, so ordinals become text, each with the same number of digits.
        """
        by_version = ["_commit_version", f"_change_type <> '{PREIMAGE}'"]
        if "_position" not in self._columns.names:
            return by_version
        sort_expressions = []
        for field in self._columns.field("_position").type:
            field_value, null_value = f"_position.{quote_name(field.name)}", "''"
            if pa.types.is_integer(field.type):
                null_value = "0"
            elif not pa.types.is_string(field.type):
                field_value = f"array_to_string(list_transform({field_value}, lambda n: lpad(n::VARCHAR, 19, '0')), '')"
            sort_expressions.append(f"coalesce({field_value}, {null_value})")
        return [*by_version, "_position IS NOT NULL", *sort_expressions]

    def _selected_batches(self, condition: str, sort_expressions: list[str]) -> Iterator[pa.RecordBatch]:
        connection = open_duckdb()
        sort_columns = ", ".join(f"{part} AS _by_{row_number}" for row_number, part in enumerate(sort_expressions))
        for batch in self._batches:
            connection.register("arrow", pa.Table.from_batches([batch]))
            # Arrow can't filter its type of strings.
            connection.execute("CREATE OR REPLACE TEMP TABLE feed AS SELECT * FROM arrow")
            row_number = f"rowid + {self.row_count} AS _by_number"
            feed_sql = (
                f"SELECT {sort_columns}, {row_number}, * FROM feed WHERE _change_type IN {self._kinds} AND {condition}"
            )
            yield from connection.sql(feed_sql).to_arrow_table().to_batches()
            self.row_count += batch.num_rows
