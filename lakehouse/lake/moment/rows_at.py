"""The rows of a lake's tables at a moment, and SQL over them; without a JVM if a version is the table at that moment.

    visits, state.visits             a version of the table, see `lakehouse.lake.moment.history`; if no version is the
                                     table at the moment, `fold` makes the rows of visits
    bronze, quarantine, late tables  are only ever appended to: the rows that were there by then; late and quarantine
                                     may be swapped with their table: then the version before the swap

`fold` is Spark's part: a function from a table's name and a moment to its rows, hidden columns included.
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
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import before_swap
from lakehouse.lake.moment.files import Files
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.subject import Reads, Subject
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.place import INGEST
from lakehouse.lake.sql import answer, check_select, engine, register
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, moment

if TYPE_CHECKING:
    from lakehouse.lake.bounded import Rows

FoldRows: TypeAlias = Callable[[str, At], pa.Table]

EXPLAIN = re.compile(r"^\s*EXPLAIN(\s+ANALYZE)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A keyed table at a moment: its rows, hidden columns included; `version` is None for folded rows."""

    history: History
    version: int | None
    rows: Rows


def snapshot(layout: Layout, name: str, at: At | None, fold: FoldRows | None = None) -> Snapshot:
    """Return a keyed table (visits, state.visits) at a moment; None is now. NotFound for one that can't be read."""
    history = History(layout, name)
    try:
        version = history.at(at)
        why = ""
    except NotFound as error:
        if not (isinstance(at, AtVersion) and history.has(at.version)):
            raise
        version, why = None, str(error)  # VACUUM removed it; the log still has its tick
    if at is None or version is not None:
        return Snapshot(history, version, reader.dataset(history.path, version))
    if fold is not None and history.layer == "silver":
        return Snapshot(history, None, fold(history.name, at))
    more = "With --app, which names the application, Spark folds it from bronze."
    if history.layer != "silver":
        more = f"Between versions only {history.name} itself can be read, with --app, which names the application."
    raise NotFound(f"{why or history.around(at)} {more}")


def rows_at(layout: Layout, layer: str, name: str, at: At, fold: FoldRows | None = None) -> Rows:
    """Return the rows of any layer's table at a moment. Raises NotFound; ConfigError for a meaningless moment."""
    if layer in ("silver", "state"):
        return snapshot(layout, f"{layer}.{name}", at, fold).rows
    import pyarrow.dataset as ds

    what = f"{layer}.{name}"
    history, version = History(layout, what), None
    kept = ds.scalar(True)
    if layer == "bronze":  # a topic's own table may hold a tick that is not complete
        kept = (ds.field("topic") == name) & (ds.field("tick") <= history.timeline.complete)
    match at:
        case AtVersion() | AtCommit():
            version = history.at(at)
            if version is None:
                raise NotFound(history.around(at))
        case AtTick(tick):
            if tick > (complete := history.timeline.complete):
                raise NotFound(f"{what} at tick {tick}: bronze has ticks up to {complete}.")
            kept &= ds.field("tick") <= tick
            version = None if layer == "bronze" else before_swap(history.timeline.log, what, tick)
        case AtEvent(ms):
            if "timestamp" not in reader.dataset(history.path).schema.names:
                raise ConfigError(f"{what} has no event time. Name a tick, a commit time or a version of it.")
            kept &= ds.field("timestamp") <= pa.scalar(moment(ms), pa.timestamp("us", "UTC"))
        case AtOffsets():
            if layer != "bronze":
                raise ConfigError(f"{what} can't be read by offsets. Name a tick, or a commit time.")
            kept &= _before(layout, name, at)
    return reader.dataset(history.path, version).filter(kept)


def _before(layout: Layout, topic: str, at: AtOffsets) -> object:
    """The rows of a topic before offsets; those of an earlier topic of its name came before all of them."""
    import pyarrow.dataset as ds

    subject = Subject(topic, f"bronze.{topic}", layout.records, INGEST, None, Reads(frozenset({topic})))
    cut = Timeline(Files(layout), subject).cut(at)
    parts = [(ds.field("partition") == p) & (ds.field("offset") < n) for p, n in at.offsets.get(topic, {}).items()]
    return reduce(or_, parts, ds.field("topic_id") != (cut.ids or {}).get(topic, ""))


def query(layout: Layout, sql: str, at: At, fold: FoldRows | None = None) -> duckdb.DuckDBPyRelation:
    """Answer SQL over the tables that it names, as they were at a moment. Raises as `rows_at` and `reader.query` do."""
    connection = engine(reader.LAYERS)
    try:
        check_select(connection, sql)
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error
    tables = sorted(set(_named(layout, connection, sql)))
    if isinstance(at, AtVersion) and len(tables) > 1:
        names = ", ".join(f"{layer}.{name}" for layer, name in tables)
        raise ConfigError(f"query at {at}: each table has versions of its own; found {names}. Name a tick, or a time.")
    for layer, name in tables:
        register(connection, layer, name, rows_at(layout, layer, name, at, fold))
    return answer(connection, sql)


def _named(layout: Layout, connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[tuple[str, str]]:
    """The tables that a SELECT names: layer and name. Raises NotFound for one that does not exist."""
    text = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [EXPLAIN.sub("", sql)]).fetchall()[0][0]
    tree = json.loads(text)
    own = {item["key"].lower() for node in _nodes(tree) for item in node.get("cte_map", {}).get("map", ())}
    for node in _nodes(tree):
        if node.get("type") != "BASE_TABLE":
            continue
        catalog, schema, said = node["catalog_name"], node["schema_name"].lower(), node["table_name"]
        layer = "silver" if schema in ("", "main") else schema
        known = reader.names(layout, layer) if layer in reader.LAYERS and not catalog else []
        # SQL does not tell upper case from lower case.
        found = [name for name in known if name.lower() == said.lower()]
        if found:
            yield layer, said if said in found else found[0]
        elif schema or said.lower() not in own:
            full = ".".join(filter(None, (catalog, schema, said)))
            raise NotFound(f"query: there is no table {full}. `lakehouse look tables` lists what there is.")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in parsed SQL."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(part)
