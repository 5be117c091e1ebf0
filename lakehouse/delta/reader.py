"""Reads without Spark and without a JVM: what tables there are, how far they are, SQL over them, their log.

Everything here starts in milliseconds; it reads Delta through `deltalake` and answers SQL through DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from lakehouse.delta.layout import Layout
from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.semantics.epoch import NO_TICK, Progress, progress

if TYPE_CHECKING:
    import pyarrow.dataset as ds

INGEST = "ingest"
LAYERS = ("bronze", "silver", "quarantine", "late", "state")


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
    """Return where a layer's table (bronze: a topic) lies, whether it exists or not."""
    if layer == "bronze":
        own = layout.own_records(name)
        return own if Path(own, "_delta_log").is_dir() else layout.records
    places = {"silver": layout.silver, "quarantine": layout.quarantine, "late": layout.late, "state": layout.state}
    return places[layer](name)


def open_table(path: str, what: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table; NotFound if there is none."""
    if not Path(path, "_delta_log").is_dir():
        raise NotFound(f"{what} does not exist. `lakehouse tables` lists what does; `lakehouse run` makes them.")
    try:
        return DeltaTable(path, version=version)
    except (TableNotFoundError, OSError, ValueError) as error:
        raise NotFound(f"{what}, version {version}: {error}. `lakehouse log` lists the versions.") from error


def read_progress(table: DeltaTable, name: str) -> Progress:
    """Return how far a table is, by its transaction identifier."""
    version = table.transaction_version(f"lakehouse.{name}")
    return Progress(0, NO_TICK) if version is None else progress(version)


def count_rows(table: DeltaTable, partition: str | None = None) -> int:
    """Return the rows of a table, or of one of its topics, from the log's statistics."""
    actions = _arrow(table.get_add_actions(flatten=True))
    counts = actions["num_records"].to_pylist()
    if partition is None:
        return sum(counts)
    # In plain Python: pyarrow.compute would import pandas to look at the scalar.
    topics = actions["partition.topic"].to_pylist()
    return sum(count for topic, count in zip(topics, counts, strict=True) if topic == partition)


def _arrow(data: Any) -> pa.Table:
    """Any Arrow data as pyarrow's; `pa.table` would import pandas only to ask whether it is a frame of that kind."""
    return pa.RecordBatchReader.from_stream(data).read_all()


def names(layout: Layout, layer: str) -> list[str]:
    """Return the names of a layer's tables (bronze: topics), sorted."""
    root = local_root(layout)
    if layer == "bronze":
        own = [path.name for path in sorted((root / "bronze" / "own").glob("*")) if (path / "_delta_log").is_dir()]
        if not Path(layout.records, "_delta_log").is_dir():
            return own
        actions = _arrow(DeltaTable(layout.records).get_add_actions(flatten=True))
        shared = set(actions["partition.topic"].to_pylist()) if actions.num_rows else set()
        return sorted(shared | set(own))
    return [path.name for path in sorted(Path(layout.tables, layer).glob("*")) if (path / "_delta_log").is_dir()]


def facts(layout: Layout, layer: str, name: str) -> TableFacts:
    """Return what a table is now; NotFound if it does not exist."""
    path = path_of(layout, layer, name)
    table = open_table(path, f"table {name!r}" if layer == "silver" else f"{layer}.{name}")
    if layer == "bronze":
        done, rows = read_progress(table, INGEST), count_rows(table, name if path == layout.records else None)
    else:
        done, rows = read_progress(table, name if layer == "silver" else f"{layer}.{name}"), count_rows(table)
    settings = table.metadata().configuration
    key = tuple(filter(None, (settings.get("lakehouse.key") or "").split(",")))
    last = table.history(1)
    moment = int(last[0]["timestamp"]) if last else None
    plan = settings.get("lakehouse.plan")
    return TableFacts(layer, name, rows, table.version(), done.tick, done.epoch, moment, plan, key)


def bronze_covers(layout: Layout) -> dict[str, Any]:
    """Return what the last tick's commit says: {"tick", "topics": {name: {"id", "next", "last"}}}; {} if none."""
    if not Path(layout.records, "_delta_log").is_dir():
        return {}
    for commit in DeltaTable(layout.records).history():
        said = user_metadata(commit)
        if "topics" in said:
            return said
    return {}


def user_metadata(commit: dict[str, Any]) -> dict[str, Any]:
    """Return what lakehouse wrote into a commit; {} for a commit of somebody else."""
    text = commit.get("userMetadata") or ""
    said = json.loads(text) if text.startswith("{") else {}
    return said if isinstance(said, dict) else {}


def log(layout: Layout, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the versions of a table that its log has, newest first, as dicts."""
    layer, dot, rest = name.partition(".")
    layer, rest = (layer, rest) if dot and layer in LAYERS else ("silver", name)
    table = open_table(path_of(layout, layer, rest), f"table {name!r}")
    rows = []
    for commit in table.history(limit):
        said = user_metadata(commit)
        metrics = commit.get("operationMetrics") or {}
        rows.append(
            {
                "version": commit["version"],
                "time_ms": commit["timestamp"],
                "operation": said.get("operation", commit["operation"]),
                "tick": said.get("tick"),
                "from_tick": said.get("from_tick"),
                "epoch": said.get("epoch"),
                "records": said.get("records"),
                "inserted": _number(metrics, "numTargetRowsInserted", "numOutputRows"),
                "updated": _number(metrics, "numTargetRowsUpdated"),
                "deleted": _number(metrics, "numTargetRowsDeleted"),
                "offsets": {topic: of["next"] for topic, of in said["topics"].items()} if "topics" in said else None,
            }
        )
    return rows


def _number(metrics: dict[str, Any], *keys: str) -> int | None:
    return next((int(metrics[key]) for key in keys if metrics.get(key) is not None), None)


def interventions(layout: Layout) -> list[dict[str, Any]]:
    """Return what was decided by hand, the newest first: a row a table; `details` as an object."""
    local_root(layout)
    if not Path(layout.interventions, "_delta_log").is_dir():
        return []
    rows = dataset(layout.interventions).to_table().to_pylist()
    found = [{**row, "details": json.loads(row["details"])} for row in rows]
    return sorted(found, key=lambda row: (-row["at"], row["table"]))


def changes(layout: Layout, name: str, first: int | None, last: int | None) -> pa.Table:
    """Return a silver table's net changes of versions `first` to `last`, from Delta's change data feed."""
    table = open_table(layout.silver(name), f"table {name!r}")
    newest = table.version()
    for version in (first, last):
        if version is not None and not 0 <= version <= newest:
            raise NotFound(f"table {name!r} has versions 0 to {newest}; version {version} does not exist.")
    if first is not None and last is not None and first > last:
        raise ConfigError(f"--from {first} comes after --to {last}; expected the smaller version first.")
    feed = table.load_cdf(starting_version=first or 0, ending_version=newest if last is None else last)
    return _arrow(feed.read_all())


def dataset(path: str, version: int | None = None) -> ds.Dataset:
    """Return a Delta table as an Arrow dataset, read lazily."""
    result: ds.Dataset = open_table(path, path, version).to_pyarrow_dataset()
    return result


def connect(layout: Layout) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that sees the lake, and nothing else of the machine: `visits` is what people see of a table,
    `silver.visits` has hidden columns too; and `bronze.flights`, `quarantine.flights`, `late.visits`, `state.visits`.
    """
    import pyarrow.dataset as ds  # it brings pandas along, a second that only queries have to wait

    connection = duckdb.connect(config={"enable_external_access": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    opened: dict[str, ds.Dataset] = {}
    for layer in LAYERS:
        connection.execute(f"CREATE SCHEMA {layer}")
        for name in names(layout, layer):
            path = path_of(layout, layer, name)
            if path not in opened:
                opened[path] = dataset(path)
            rows = opened[path].filter(ds.field("topic") == name) if layer == "bronze" else opened[path]
            connection.register(f"_{layer}_{name}", rows)
            connection.execute(f"CREATE VIEW {layer}.{_quote(name)} AS SELECT * FROM {_quote(f'_{layer}_{name}')}")
            if layer == "silver":
                shown = ", ".join(_quote(column) for column in rows.schema.names if not column.startswith("_"))
                connection.execute(f"CREATE VIEW main.{_quote(name)} AS SELECT {shown} FROM silver.{_quote(name)}")
    return connection


def query(layout: Layout, sql: str) -> duckdb.DuckDBPyRelation:
    """Answer SQL over the lake, see `connect`. Raises ConfigError for SQL that DuckDB can't answer; it can't write."""
    connection = connect(layout)
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in (
            duckdb.StatementType.SELECT,
            duckdb.StatementType.EXPLAIN,
        ):
            raise ConfigError(
                f"query {sql!r}: expected one SELECT; a lake's tables are written by their applications only."
            )
        return connection.sql(sql)
    except duckdb.Error as error:
        raise ConfigError(f"query: {error}") from error


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quarantined(layout: Layout, streams: Iterable[str]) -> dict[str, int]:
    """Return the number of quarantined records by stream."""
    return _counted({name: layout.quarantine(name) for name in streams})


def late(layout: Layout, tables: Iterable[str]) -> dict[str, int]:
    """Return the number of late records by table; 0 for a table that has had none."""
    known = set(names(layout, "late"))
    tables = list(tables)
    return dict.fromkeys(tables, 0) | _counted({name: layout.late(name) for name in tables if name in known})


def _counted(paths: dict[str, str]) -> dict[str, int]:
    try:
        return {name: count_rows(DeltaTable(path)) for name, path in paths.items()}
    except (TableNotFoundError, OSError) as error:
        raise LakehouseError(f"{', '.join(paths)}: {error}") from error
