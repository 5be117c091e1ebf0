"""The rows of a lake's tables at a moment, and SQL over them; without a JVM if a version has these rows.

    visits, state.visits             a version of the table, see `lakehouse.lake.moment.history`; if no version is the
                                     table at the moment, `fold` computes the rows of visits
    bronze, quarantine, late tables  only grow: the rows that were there by then; late and quarantine tables may have
                                     been swapped with their table: then the version before the swap

`fold` is Spark's part: it is called with a table's name and a moment without a version, and returns the rows with
hidden columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import pyarrow as pa

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.erasure.erased_past import erased_since
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import version_before_swap
from lakehouse.lake.moment.files import LakeFiles
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.past_subject import Subject, TableInputs, visible_subject
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.place import INGEST
from lakehouse.lake.sql import check_select, open_duckdb, register_table, run_select
from lakehouse.lake.store import is_table
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion

if TYPE_CHECKING:
    from lakehouse.lake.read_bounds import Rows

FoldRows: TypeAlias = Callable[[str, At], pa.Table]

EXPLAIN = re.compile(r"^\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A keyed table at a moment: its rows, hidden columns included; `version` is None for folded rows."""

    history: History
    version: int | None
    rows: Rows


def snapshot(layout: Layout, name: str, moment: At | None, fold: FoldRows | None = None) -> Snapshot:
    """Return a keyed table (visits, state.visits) at a moment; None is now. Raises NotFound if it can't be read."""
    history = History(layout, name)
    try:
        version = history.at(moment)
        reason = ""
    except NotFound as error:
        if not (isinstance(moment, AtVersion) and history.has_version(moment.version)):
            raise
        version, reason = None, str(error)  # VACUUM removed the version; the log still has its tick
    if moment is None or version is not None:
        return Snapshot(history, version, reader.open_dataset(history.path, version))
    if fold is not None and history.layer == "silver":
        return Snapshot(history, None, fold(history.name, moment))
    hint = "With --app, which names the application, Spark folds it from bronze."
    if history.layer != "silver":
        hint = f"Between versions only {history.name} itself can be read, with --app, which names the application."
    erased = erased_since(layout, moment, history.name)
    raise NotFound(" ".join(filter(None, (reason or history.explain_missing(moment), hint, erased))))


def rows_at(layout: Layout, layer: str, name: str, past_moment: At, fold: FoldRows | None = None) -> Rows:
    """Return the rows of any layer's table at a moment. Raises NotFound; ConfigError for a meaningless moment."""
    if layer in ("silver", "state"):
        return snapshot(layout, f"{layer}.{name}", past_moment, fold).rows
    import pyarrow.dataset as ds

    label = f"{layer}.{name}"
    history, version = History(layout, label), None
    condition = ds.scalar(True)
    if layer == "bronze":  # a topic's own table may hold a tick that is not complete
        condition = (ds.field("topic") == name) & (ds.field("tick") <= history.timeline.complete_tick)
    match past_moment:
        case AtVersion() | AtCommit():
            version = history.at(past_moment)
            if version is None:
                raise NotFound(history.explain_missing(past_moment))
        case AtTick(tick):
            if tick > (complete_tick := history.timeline.complete_tick):
                raise NotFound(f"{label} at tick {tick}: bronze has ticks up to {complete_tick}.")
            if layer == "late" and is_table(layout.silver(name)):  # what its table has not judged yet would be missing
                Timeline(LakeFiles(layout), visible_subject(layout, name)).cut(past_moment)
            condition &= ds.field("tick") <= tick
            version = None if layer == "bronze" else version_before_swap(history.timeline.log, label, tick)
        case AtEvent(ms):
            if "timestamp" not in reader.open_dataset(history.path).schema.names:
                raise ConfigError(f"{label} has no event time. Name a tick, a commit time or a version of it.")
            condition &= ds.field("timestamp") <= pa.scalar(to_datetime(ms), pa.timestamp("us", "UTC"))
        case AtOffsets():
            if layer != "bronze":
                raise ConfigError(f"{label} can't be read by offsets. Name a tick, or a commit time.")
            condition &= _rows_before_offsets(layout, name, past_moment)
    return reader.open_dataset(history.path, version).filter(condition)


def _rows_before_offsets(layout: Layout, topic: str, offsets_moment: AtOffsets) -> object:
    """Return the rows of a topic before offsets, with all rows of earlier topics of its name."""
    import pyarrow.dataset as ds

    topic_subject = Subject(topic, f"bronze.{topic}", layout.records, INGEST, None, TableInputs(frozenset({topic})))
    cut = Timeline(LakeFiles(layout), topic_subject).cut(offsets_moment)
    partition_conditions = [
        (ds.field("partition") == p) & (ds.field("offset") < n)
        for p, n in offsets_moment.offsets.get(topic, {}).items()
    ]
    return reduce(or_, partition_conditions, ds.field("topic_id") != (cut.ids or {}).get(topic, ""))


def query(layout: Layout, sql: str, moment: At, fold: FoldRows | None = None) -> duckdb.DuckDBPyRelation:
    """Answer SQL over the tables that it names, as of a moment. Raises as `rows_at` and `reader.query_lake` do."""
    connection = open_duckdb(reader.LAYERS)
    try:
        check_select(connection, sql)
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error
    named_tables = sorted(set(_walk_named_tables(layout, connection, sql)))
    if isinstance(moment, AtVersion) and len(named_tables) > 1:
        table_list = ", ".join(f"{layer}.{name}" for layer, name in named_tables)
        raise ConfigError(
            f"query at {moment}: each table has versions of its own; found {table_list}. Name a tick, or a time."
        )
    for layer, name in named_tables:
        register_table(connection, layer, name, rows_at(layout, layer, name, moment, fold))
    return run_select(connection, sql)


def _walk_named_tables(layout: Layout, connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[tuple[str, str]]:
    """Yield the tables that a SELECT names: layer and name. Raises NotFound for a table that does not exist."""
    tree_json = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [EXPLAIN.sub("", sql)]).fetchall()[0][0]
    syntax_tree = json.loads(tree_json)
    own_names = {
        item["key"].lower() for node in _walk_nodes(syntax_tree) for item in node.get("cte_map", {}).get("map", ())
    }
    for node in _walk_nodes(syntax_tree):
        if node.get("type") != "BASE_TABLE":
            continue
        catalog, schema, table_name = node["catalog_name"], node["schema_name"].lower(), node["table_name"]
        layer = "silver" if schema in ("", "main") else schema
        layer_tables = reader.table_names(layout, layer) if layer in reader.LAYERS and not catalog else []
        # Names in SQL are case-insensitive.
        matching_names = [name for name in layer_tables if name.lower() == table_name.lower()]
        if matching_names:
            yield layer, table_name if table_name in matching_names else matching_names[0]
        elif schema or table_name.lower() not in own_names:
            full_name = ".".join(filter(None, (catalog, schema, table_name)))
            raise NotFound(f"query: there is no table {full_name}. `lakehouse look tables` lists what there is.")


def _walk_nodes(syntax_tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in parsed SQL."""
    if isinstance(syntax_tree, dict):
        yield syntax_tree
    for child in (
        syntax_tree.values() if isinstance(syntax_tree, dict) else syntax_tree if isinstance(syntax_tree, list) else ()
    ):
        yield from _walk_nodes(child)
