"""Reads without Spark and without a JVM: the tables of a lake, their progress, SQL over them, their log.

Everything here starts in milliseconds; it reads Delta through `deltalake` and answers SQL through DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.commit_log import covers, is_table, local_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import KEY
from lakehouse.lake.sql import answer, engine, register
from lakehouse.semantics.epoch import NO_TICK, Progress, progress

if TYPE_CHECKING:
    import pyarrow.dataset as ds

LAYERS = ("bronze", "silver", "quarantine", "late", "state")
GLANCE = 100  # commits: nearly always only the newest are asked for


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as it is now. Times are milliseconds since the epoch; `tick` is None for a bronze topic."""

    layer: str
    name: str
    rows: int
    version: int
    tick: int | None
    epoch: int | None
    last_commit_ms: int | None
    plan: str | None = None
    key: tuple[str, ...] = ()


def local_root(layout: Layout) -> Path:
    """Return the lake's folder; ConfigError for a lake that is not on this machine's file system."""
    if "://" in layout.root:
        raise ConfigError(
            f"lake {layout.root}: reads without Spark are for a local folder; use the Python API with Spark."
        )
    return Path(layout.root)


def path_of(layout: Layout, layer: str, name: str) -> str:
    """Return the path of a layer's table (bronze: of a topic), whether it exists or not."""
    if layer == "bronze":
        own = layout.own_records(name)
        return own if is_table(own) else layout.records
    places = {"silver": layout.silver, "quarantine": layout.quarantine, "late": layout.late, "state": layout.state}
    return places[layer](name)


def open_table(path: str, what: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table; NotFound if there is none."""
    if not is_table(path):
        raise NotFound(f"{what} does not exist. `lakehouse look tables` lists what does; `lakehouse run` makes them.")
    try:
        return DeltaTable(path, version=version)
    except (TableNotFoundError, OSError, ValueError) as error:
        raise NotFound(f"{what}, version {version}: {error}. `lakehouse past log` lists the versions.") from error


def read_progress(table: DeltaTable, name: str) -> Progress:
    """Return the progress of a table, from its transaction identifier."""
    version = table.transaction_version(f"lakehouse.{name}")
    return Progress(0, NO_TICK) if version is None else progress(version)


def count_rows(table: DeltaTable, partition: str | None = None) -> int:
    """Return the number of rows of a table, or of one of its topics, from the log's statistics."""
    actions = arrow(table.get_add_actions(flatten=True))
    counts = actions["num_records"].to_pylist()
    if partition is None:
        return sum(counts)
    # In plain Python: pyarrow.compute would import pandas to look at the scalar.
    topics = actions["partition.topic"].to_pylist()
    return sum(count for topic, count in zip(topics, counts, strict=True) if topic == partition)


def files(table: DeltaTable) -> list[str]:
    """Return the files of a table's version: paths below its folder."""
    actions = arrow(table.get_add_actions(flatten=True))
    return list(actions["path"].to_pylist()) if actions.num_rows else []


def arrow(data: Any) -> pa.Table:
    """Any Arrow data as pyarrow's; `pa.table` would import pandas only to test for one of its frames."""
    return pa.RecordBatchReader.from_stream(data).read_all()


def state(layout: Layout) -> dict[str, str]:
    """Return the newest commit of every table of the lake, by its folder: two equal ones mean that nothing changed."""
    root = local_root(layout)
    logs = [path for pattern in ("*/*/_delta_log", "*/*/*/_delta_log") for path in root.glob(pattern)]
    return {str(log): max((path.name for path in log.glob("*.json")), default="") for log in sorted(logs)}


def names(layout: Layout, layer: str) -> list[str]:
    """Return the names of a layer's tables (bronze: topics), sorted."""
    root = local_root(layout)
    if layer == "bronze":
        own = [path.name for path in sorted((root / "bronze" / "own").glob("*")) if is_table(path)]
        if not is_table(layout.records):
            return own
        actions = arrow(DeltaTable(layout.records).get_add_actions(flatten=True))
        shared = set(actions["partition.topic"].to_pylist()) if actions.num_rows else set()
        return sorted(shared | set(own))
    return [path.name for path in sorted(Path(layout.tables, layer).glob("*")) if is_table(path)]


def as_kept(layout: Layout, layer: str, name: str) -> str:
    """Return a table's name as the lake has it, in any case; topics, and lakes elsewhere, have one spelling."""
    any_case = layer != "bronze" and "://" not in layout.root
    same = [one for one in names(layout, layer) if one.lower() == name.lower()] if any_case else []
    return same[0] if len(same) == 1 else name


def facts(layout: Layout, layer: str, name: str) -> TableFacts:
    """Return the facts of a table now; NotFound if it does not exist."""
    path = path_of(layout, layer, name)
    table = open_table(path, f"table {name!r}" if layer == "silver" else f"{layer}.{name}")
    if layer == "bronze":
        done, rows = read_progress(table, INGEST), count_rows(table, name if path == layout.records else None)
    else:
        done, rows = read_progress(table, name if layer == "silver" else f"{layer}.{name}"), count_rows(table)
    settings = table.metadata().configuration
    key = tuple(filter(None, (settings.get(KEY) or "").split(",")))
    last = table.history(1)
    moment = time_ms(last[0]) if last else None
    plan = settings.get("lakehouse.plan")
    return TableFacts(layer, name, rows, table.version(), done.tick, done.epoch, moment, plan, key)


def properties(layout: Layout, table: str) -> dict[str, str]:
    """Return the properties of a table that people see; NotFound if it does not exist."""
    settings = open_table(layout.silver(table), f"table {table!r}").metadata().configuration
    return {name: value or "" for name, value in settings.items()}


def bronze_covers(layout: Layout) -> dict[str, Any]:
    """Return what the last tick's commit covers: {"tick", "topics": {name: {"id", "next", "last"}}}; {} without one."""
    if not is_table(layout.records):
        return {}
    return covers(local_log(layout.records, DeltaTable(layout.records).version())) or {}


def user_metadata(commit: dict[str, Any]) -> dict[str, Any]:
    """Return what lakehouse wrote into a commit; {} for somebody else's commit."""
    text = commit.get("userMetadata") or ""
    said = json.loads(text) if text.startswith("{") else {}
    return said if isinstance(said, dict) else {}


def commits(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """Yield the commits in a table's log, newest first. A long log is read only as far as they are asked for."""
    limit, oldest = GLANCE, None
    while True:
        found, opened = table.history(limit), table.version()
        table.update_incremental()
        if table.version() != opened:
            continue  # commits are numbered from the version that was opened; one made meanwhile shifts the numbers
        yield from (commit for commit in found if oldest is None or commit["version"] < oldest)
        if len(found) < limit:
            return
        limit, oldest = limit * 8, found[-1]["version"]


def time_ms(commit: dict[str, Any]) -> int:
    """Return when a commit was made, the same time as in Spark: copying the table's files does not change it."""
    return int(commit.get("inCommitTimestamp") or commit["timestamp"])


def split(name: str) -> tuple[str, str]:
    """Return the layer and the name of visits, silver.visits, bronze.flights or state.visits."""
    layer, dot, rest = name.partition(".")
    return (layer, rest) if dot and layer in LAYERS else ("silver", name)


def log(layout: Layout, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the versions in a table's log, newest first, as dicts."""
    return list(islice(versions(layout, name), limit))


def versions(layout: Layout, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `log` one by one: a long log is read only as far as they are asked for."""
    for commit in commits(open_table(path_of(layout, *split(name)), f"table {name!r}")):
        said = user_metadata(commit)
        metrics = commit.get("operationMetrics") or {}
        yield {
            "version": commit["version"],
            "time_ms": time_ms(commit),
            "operation": said.get("operation", commit["operation"]),
            **{name: said.get(name) for name in ("tick", "from_tick", "epoch", "records", "null_keys")},
            "inserted": _number(metrics, "numTargetRowsInserted", "numOutputRows"),
            "updated": _number(metrics, "numTargetRowsUpdated"),
            "deleted": _number(metrics, "numTargetRowsDeleted"),
            "offsets": {topic: of["next"] for topic, of in said["topics"].items()} if "topics" in said else None,
        }


def _number(metrics: dict[str, Any], *keys: str) -> int | None:
    return next((int(metrics[key]) for key in keys if metrics.get(key) is not None), None)


def changes(layout: Layout, name: str, first: int | None, last: int | None, where: str | None = None) -> pa.Table:
    """Return the net changes of a keyed table (visits, state.visits), from Delta's change data feed.

    first, last: versions. where: SQL for the changes that are meant. Raises NotFound for versions that do not exist, or
    whose changes are gone.
    """
    return pa.Table.from_batches(change_batches(layout, name, first, last, where))


def change_batches(
    layout: Layout, name: str, first: int | None, last: int | None, where: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of `changes`, read as they are asked for. The first batch is empty: it has the columns."""
    table = open_table(path_of(layout, *split(name)), f"table {name!r}")
    newest = table.version()
    for version in (first, last):
        if version is not None and not 0 <= version <= newest:
            raise NotFound(f"table {name!r} has versions 0 to {newest}; version {version} does not exist.")
    if first is not None and last is not None and first > last:
        raise ConfigError(f"--from {first} comes after --to {last}; expected the smaller version first.")
    last = newest if last is None else last
    try:
        feed = pa.RecordBatchReader.from_stream(table.load_cdf(first or 0, last, predicate=where))
        yield pa.RecordBatch.from_pylist([], feed.schema)
        yield from feed
    except Exception as error:  # deltalake raises this very class for a file that is gone
        raise NotFound(
            f"table {name!r}: the changes of versions {first or 0} to {last} can't be read; VACUUM, and the retention "
            f"of the log, remove old ones. {str(error).splitlines()[0]}"
        ) from error


def dataset(path: str, version: int | None = None) -> ds.Dataset:
    """Return a Delta table as an Arrow dataset, read lazily."""
    result: ds.Dataset = open_table(path, path, version).to_pyarrow_dataset()
    return result


def connect(layout: Layout) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that sees the lake, and nothing else of the machine: `visits` is what people see of a table,
    `silver.visits` also has hidden columns; and `bronze.flights`, `quarantine.flights`, `late.visits`, `state.visits`.
    """
    import pyarrow.dataset as ds  # imports pandas as well, a second that only queries have to wait

    connection = engine(LAYERS)
    opened: dict[str, ds.Dataset] = {}
    for layer in LAYERS:
        for name in names(layout, layer):
            path = path_of(layout, layer, name)
            if path not in opened:
                opened[path] = dataset(path)
            rows = opened[path].filter(ds.field("topic") == name) if layer == "bronze" else opened[path]
            register(connection, layer, name, rows)
    return connection


def query(layout: Layout, sql: str) -> duckdb.DuckDBPyRelation:
    """Answer SQL over the lake, see `connect`. Raises ConfigError for SQL that DuckDB can't answer; it can't write."""
    return answer(connect(layout), sql)


def quarantined(layout: Layout, streams: Iterable[str]) -> dict[str, int]:
    """Return the number of quarantined records by stream."""
    return _counted({name: layout.quarantine(name) for name in streams})


def late_rows(layout: Layout, tables: Iterable[str]) -> dict[str, int]:
    """Return the number of rows by table in what came too late for it; 0 for a table without any."""
    known = set(names(layout, "late"))
    tables = list(tables)
    return dict.fromkeys(tables, 0) | _counted({name: layout.late(name) for name in tables if name in known})


def _counted(paths: dict[str, str]) -> dict[str, int]:
    try:
        return {name: count_rows(DeltaTable(path)) for name, path in paths.items()}
    except (TableNotFoundError, OSError) as error:
        raise LakehouseError(f"{', '.join(paths)}: {error}") from error
