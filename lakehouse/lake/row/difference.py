"""Differences between two moments of a keyed table, or the changes of one version, by key and without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.errors import NotFound, StorageError
from lakehouse.formats.shown import pairs, value
from lakehouse.lake import reader
from lakehouse.lake.bounded import scanned, taken
from lakehouse.lake.keys import key_condition
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.rows_at import Snapshot
from lakehouse.lake.sql import engine, quote, visible
from lakehouse.markup.text import as_html, line
from lakehouse.markup.text import table as as_table
from lakehouse.semantics.difference import Difference, Unlike

if TYPE_CHECKING:
    from lakehouse.lake.bounded import Rows

COLUMNS = ("change", "key", "before", "after")
SIDES = (("update_preimage", "delete"), ("insert", "update_postimage"))  # of the change data feed: before and after


def difference(before: Snapshot, after: Snapshot, *, key: str | None = None, limit: int | None = None) -> Difference:
    """Compare a keyed table at one moment with the same table at another.

    key: its text, see `lakehouse.formats.key_text`; None compares all keys. limit: the number of changes to return.
    """
    return _compared(before.history, (before.version, after.version), _unlike(before, after), key, limit)


def changed(layout: Layout, name: str, version: int, *, key: str | None = None, limit: int | None = None) -> Difference:
    """Return the changes of one version of a keyed table, from Delta's change data feed. Raises NotFound."""
    history = History(layout, name)
    if not 0 <= version <= history.newest or not history.has(version):
        raise NotFound(f"{history.what} has no version {version}. It has {history.span()}.")
    try:
        feed = reader.changes(layout, name, version, version)
    except NotFound as error:
        raise NotFound(
            f"{history.what}, version {version}: its changes are gone (VACUUM). It has {history.span()}."
        ) from error
    connection = engine()
    connection.register("arrow", feed)
    connection.execute("CREATE TEMP TABLE feed AS SELECT * FROM arrow")  # Arrow's type of its texts has no filters
    rows = [connection.sql(f"SELECT * FROM feed WHERE _change_type IN {kinds}").to_arrow_table() for kinds in SIDES]
    return _compared(history, (version - 1 if version else None, version), (rows[0], rows[1]), key, limit)


def _unlike(a: Snapshot, b: Snapshot) -> tuple[Rows, Rows]:
    """The rows of two versions, without those of files that both have: these rows are the same."""
    import pyarrow.dataset as ds

    if not (isinstance(a.rows, ds.FileSystemDataset) and isinstance(b.rows, ds.FileSystemDataset)):
        return a.rows, b.rows
    files = [{fragment.path for fragment in side.rows.get_fragments()} for side in (a, b)]
    both = files[0] & files[1]
    left = [
        ds.FileSystemDataset(
            [part for part in side.rows.get_fragments() if part.path not in both],
            side.rows.schema, side.rows.format, side.rows.filesystem,
        )
        for side in (a, b)
    ]  # fmt: skip
    return left[0], left[1]


def _compared(
    history: History,
    versions: tuple[int | None, int | None],
    sides: tuple[Rows, Rows],
    key: str | None,
    limit: int | None,
) -> Difference:
    before, after = sides
    if not history.key:
        raise StorageError(f"{history.what} does not say what its key is; expected a table of lakehouse.")
    connection = engine()
    columns = visible(dict.fromkeys([*after.schema.names, *before.schema.names]))
    for side, rows in (("_a", before), ("_b", after)):
        connection.register(
            f"rows{side}", scanned(rows, list(dict.fromkeys([*visible(rows.schema.names), *history.key])))
        )
        has = set(rows.schema.names)
        # The whole row with its keys: null for a missing row, not null for a row whose columns are all null.
        row = ", ".join(f"{quote(name)} := {quote(name) if name in has else 'NULL'}" for name in columns)
        where = f" WHERE {key_condition(rows, history.key, key)}" if key is not None else ""
        keys = ", ".join(map(quote, history.key))
        connection.execute(f"CREATE VIEW {side} AS SELECT {keys}, struct_pack({row}) AS _row FROM rows{side}{where}")
    pairs = [(f"_a.{quote(name)}", f"_b.{quote(name)}") for name in history.key]
    joined = " AND ".join(f"{a} IS NOT DISTINCT FROM {b}" for a, b in pairs)
    order = ", ".join(f"coalesce({a}, {b}) AS _key{n}" for n, (a, b) in enumerate(pairs))
    kind = "CASE WHEN _a._row IS NULL THEN 'added' WHEN _b._row IS NULL THEN 'removed' ELSE 'changed' END"
    cut = "" if limit is None else f" LIMIT {limit}"
    try:
        connection.execute(
            f"CREATE TEMP TABLE found AS SELECT {kind} AS change, _a._row AS before, _b._row AS after, {order} "
            f"FROM _a FULL JOIN _b ON {joined} WHERE _a._row IS DISTINCT FROM _b._row"
        )
        counts = dict(connection.execute("SELECT change, count(*) FROM found GROUP BY change").fetchall())
        by = ", ".join(f"_key{n}" for n in range(len(pairs)))
        first = taken(connection.sql(f"SELECT change, before, after FROM found ORDER BY {by}{cut}"))
    except (duckdb.Error, OSError) as error:
        raise StorageError(f"{history.what}: its rows can't be compared: {error}") from error
    changes = [_change(history.key, row) for row in first]
    added, removed, altered = (counts.get(kind, 0) for kind in ("added", "removed", "changed"))
    return Difference(added, removed, altered, changes, versions)


def _change(keys: tuple[str, ...], row: dict[str, Any]) -> Unlike:
    whole = row["after"] if row["before"] is None else row["before"]
    before, after = (
        None if row[side] is None else {n: v for n, v in row[side].items() if n not in keys}
        for side in ("before", "after")
    )
    return {"change": row["change"], "key": {name: whole[name] for name in keys}, "before": before, "after": after}


def cells(of: Unlike) -> tuple[Any, ...]:
    """Return a key that differs as a line of a table; of a changed row only the columns that differ."""
    return (of["change"], pairs(of["key"]), *map(pairs, _only_unlike(of)))


@as_html.register
def _difference(found: Difference) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts().items())
    rows = as_table(COLUMNS, map(cells, found.changes), value) if found.changes else ""
    return rows + line("No row differs." if found.equal else f"{counts}.")


def _only_unlike(change: Unlike) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    before, after = change["before"], change["after"]
    if before is None or after is None:
        return before, after
    names = list(dict.fromkeys([*before, *after]))
    unlike = [name for name in names if name not in before or name not in after or before[name] != after[name]]
    sides = ({name: side[name] for name in unlike if name in side} for side in (before, after))
    return next(sides), next(sides)
