"""Differences between a keyed table at two moments, or the changes of one version, by key and without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.errors import NotFound, StorageError
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_condition_sql
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.rows_at import Snapshot
from lakehouse.lake.read_bounds import fetch_rows, scan_rows
from lakehouse.lake.sql import open_duckdb, quote_name, visible_columns
from lakehouse.markup.shown import pairs, value
from lakehouse.markup.text import as_html, to_paragraph
from lakehouse.markup.text import to_html_table as as_table
from lakehouse.semantics.aggregate.collection import hashable_form
from lakehouse.semantics.difference import Difference, RowDifference

if TYPE_CHECKING:
    from lakehouse.lake.read_bounds import Rows

COLUMNS = ("change", "key", "before", "after")
SIDES = (("update_preimage", "delete"), ("insert", "update_postimage"))  # of the change data feed: before and after


def difference(before: Snapshot, after: Snapshot, *, key: str | None = None, limit: int | None = None) -> Difference:
    """Compare a keyed table at one moment with the same table at another.

    key: its text, see `lakehouse.formats.key_text`; None compares all keys. limit: the number of changes to return.
    """
    return _compare_sides(
        before.history, (before.version, after.version), _rows_of_differing_files(before, after), key, limit
    )


def changes_of_version(
    layout: Layout, name: str, version: int, *, key: str | None = None, limit: int | None = None
) -> Difference:
    """Return the changes of one version of a keyed table, from Delta's change data feed. Raises NotFound."""
    history = History(layout, name)
    if not 0 <= version <= history.newest or not history.has_version(version):
        raise NotFound(f"{history.label} has no version {version}. It has {history.span()}.")
    try:
        change_feed = reader.read_changes(layout, name, version, version)
    except NotFound as error:
        raise NotFound(
            f"{history.label}, version {version}: its changes are gone (VACUUM). It has {history.span()}."
        ) from error
    connection = open_duckdb()
    connection.register("arrow", change_feed)
    connection.execute("CREATE TEMP TABLE feed AS SELECT * FROM arrow")  # Arrow can't filter its type of strings
    side_rows = [
        connection.sql(f"SELECT * FROM feed WHERE _change_type IN {change_types}").to_arrow_table()
        for change_types in SIDES
    ]
    return _compare_sides(
        history, (version - 1 if version else None, version), (side_rows[0], side_rows[1]), key, limit
    )


def _rows_of_differing_files(before: Snapshot, after: Snapshot) -> tuple[Rows, Rows]:
    """Return the rows of two versions, without the files that both share, whose rows are the same."""
    import pyarrow.dataset as ds

    if not (isinstance(before.rows, ds.FileSystemDataset) and isinstance(after.rows, ds.FileSystemDataset)):
        return before.rows, after.rows
    file_paths = [{fragment.path for fragment in side.rows.get_fragments()} for side in (before, after)]
    shared_paths = file_paths[0] & file_paths[1]
    differing_datasets = [
        ds.FileSystemDataset(
            [part for part in side.rows.get_fragments() if part.path not in shared_paths],
            side.rows.schema,
            side.rows.format,
            side.rows.filesystem,
        )
        for side in (before, after)
    ]
    return differing_datasets[0], differing_datasets[1]


def _compare_sides(
    history: History,
    versions: tuple[int | None, int | None],
    sides: tuple[Rows, Rows],
    key: str | None,
    limit: int | None,
) -> Difference:
    before, after = sides
    if not history.key:
        raise StorageError(f"{history.label} does not say what its key is; expected a table of lakehouse.")
    connection = open_duckdb()
    # A declaration may have changed the case of a name, which makes no difference in SQL.
    names_by_lower = {name.lower(): name for name in [*before.schema.names, *after.schema.names]}
    all_names = [*after.schema.names, *before.schema.names]
    column_names = visible_columns(dict.fromkeys(names_by_lower[name.lower()] for name in all_names))
    for side, rows in (("_a", before), ("_b", after)):
        connection.register(
            f"rows{side}", scan_rows(rows, list(dict.fromkeys([*visible_columns(rows.schema.names), *history.key])))
        )
        side_columns = {name.lower() for name in rows.schema.names}
        # The whole row with its key: null for a missing row, but not for a row whose columns are all null.
        row_struct = ", ".join(
            f"{quote_name(name)} := {quote_name(name) if name.lower() in side_columns else 'NULL'}"
            for name in column_names
        )
        where_clause = f" WHERE {key_condition_sql(rows, history.key, key)}" if key is not None else ""
        key_list = ", ".join(map(quote_name, history.key))
        connection.execute(
            f"CREATE VIEW {side} AS SELECT {key_list}, struct_pack({row_struct}) AS _row FROM rows{side}{where_clause}"
        )
    key_pairs = [(f"_a.{quote_name(name)}", f"_b.{quote_name(name)}") for name in history.key]
    join_condition = " AND ".join(f"{a} IS NOT DISTINCT FROM {b}" for a, b in key_pairs)
    key_columns = ", ".join(f"coalesce({a}, {b}) AS _key{n}" for n, (a, b) in enumerate(key_pairs))
    change_kind = "CASE WHEN _a._row IS NULL THEN 'added' WHEN _b._row IS NULL THEN 'removed' ELSE 'changed' END"
    limit_clause = "" if limit is None else f" LIMIT {limit}"
    try:
        connection.execute(
            f"CREATE TEMP TABLE found AS SELECT {change_kind} AS change, _a._row AS before, _b._row AS after, "
            f"{key_columns} FROM _a FULL JOIN _b ON {join_condition} WHERE _a._row IS DISTINCT FROM _b._row"
        )
        counts_by_kind = dict(connection.execute("SELECT change, count(*) FROM found GROUP BY change").fetchall())
        key_order = ", ".join(f"_key{n}" for n in range(len(key_pairs)))
        first_rows = fetch_rows(
            connection.sql(f"SELECT change, before, after FROM found ORDER BY {key_order}{limit_clause}")
        )
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"{history.label}: its rows can't be compared: {error}") from error
    changes = [_change_of_row(history.key, row_struct) for row_struct in first_rows]
    added, removed, changed = (counts_by_kind.get(change_kind, 0) for change_kind in ("added", "removed", "changed"))
    return Difference(added, removed, changed, changes, versions)


def _change_of_row(key_names: tuple[str, ...], row: dict[str, Any]) -> RowDifference:
    full_row = row["after"] if row["before"] is None else row["before"]
    before, after = (
        None if row[side] is None else {n: v for n, v in row[side].items() if n not in key_names}
        for side in ("before", "after")
    )
    return {
        "change": row["change"],
        "key": {name: full_row[name] for name in key_names},
        "before": before,
        "after": after,
    }


def change_cells(change: RowDifference) -> tuple[Any, ...]:
    """Return a key that differs as the cells of a table's line; of a changed row only the columns that differ."""
    return (change["change"], pairs(change["key"]), *map(pairs, _differing_columns(change)))


@as_html.register
def _difference_as_html(differences: Difference) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in differences.counts().items())
    rows = as_table(COLUMNS, map(change_cells, differences.changes), value) if differences.changes else ""
    return rows + to_paragraph("No row differs." if differences.equal else f"{counts}.")


def _differing_columns(change: RowDifference) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    before, after = change["before"], change["after"]
    if before is None or after is None:
        return before, after
    column_names = list(dict.fromkeys([*before, *after]))
    # By a form in which NaN equals itself. Maps that differ in the order of their entries alone differ in their text.
    differing_names = [
        name
        for name in column_names
        if name not in before or name not in after or hashable_form(before[name]) != hashable_form(after[name])
    ] or [name for name in column_names if value(before[name]) != value(after[name])]
    differing_sides = ({name: side[name] for name in differing_names if name in side} for side in (before, after))
    return next(differing_sides), next(differing_sides)
