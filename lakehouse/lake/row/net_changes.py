"""A table's net changes without Spark, in order: read some versions at a time, so that a long feed needs no memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.keys import key_condition
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import engine

KINDS = ("insert", "update_postimage", "delete")
# So many changes of several versions are read at once; of one version all.
ROWS_A_READ = 50_000
VERSIONS_A_READ = 64


def rows(
    layout: Layout, name: str, keys: tuple[str, ...], first: int | None, last: int | None, key: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the changes of versions first to last, in the order of versions and positions, as Delta's feed has them.

    key: of one key, by its text, see `lakehouse.formats.key_text`. Raises NotFound, ConfigError as `reader.changes`.
    """
    table = reader.open_table(reader.path_of(layout, *reader.split(name)), f"table {name!r}")
    condition = "true" if key is None else key_condition(table.to_pyarrow_dataset(), keys, key)
    newest = table.version()
    at, end, count = first or 0, newest if last is None else last, 1
    if at > end or end > newest:
        reader.changes(layout, name, first, last)  # says what is wrong
    while at <= end:
        until = min(at + count - 1, end)
        feed = reader.changes(layout, name, at, until)
        connection = engine()
        connection.register("arrow", feed)
        connection.execute("CREATE TEMP TABLE feed AS SELECT * FROM arrow")  # its texts are of a type without filters
        order = "_commit_version" + (", _position NULLS FIRST" if "_position" in feed.column_names else "")
        told = connection.sql(f"SELECT * FROM feed WHERE _change_type IN {KINDS} AND {condition} ORDER BY {order}")
        yield from told.to_arrow_table().to_pylist(maps_as_pydicts="strict")
        count = min(count * 2, VERSIONS_A_READ) if feed.num_rows < ROWS_A_READ else max(count // 2, 1)
        at = until + 1
