"""Read a lake without Spark and without a JVM: its tables, their progress, SQL over them, their log.

Everything here starts in milliseconds: it reads Delta through `deltalake` and answers SQL through DuckDB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.lake import store
from lakehouse.lake.commit_log import CommitLog, TickCoverage, commit_time_ms, find_tick_coverage, open_log
from lakehouse.lake.commit_metadata import (
    BronzeTick,
    CommitMetadata,
    RowsCommit,
    TableCommit,
    TopicState,
    app_id,
    parse_metadata,
)
from lakehouse.lake.layout import DEPLOYMENT, DEPLOYMENT_NAME, Layout
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import KEY
from lakehouse.lake.sql import open_duckdb, register_staged_table, register_table, run_select
from lakehouse.lake.store import is_table
from lakehouse.semantics.commit_number import NO_TICK, Progress, progress_of_version

if TYPE_CHECKING:
    import pyarrow.dataset as ds

LAYERS = ("bronze", "silver", "quarantine", "late", "state")
AHEAD = 16  # commits to ask a store for at once
TERMINAL_CODE = re.compile(r"\x1b\[[0-9;]*m")


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


def find_table_path(layout: Layout, layer: str, name: str) -> str:
    """Return the path of a layer's table (bronze: of a topic), whether it exists or not."""
    if layer == "bronze":
        own_path = layout.own_records(name)
        return own_path if is_table(own_path) else layout.records
    layer_paths = {"silver": layout.silver, "quarantine": layout.quarantine, "late": layout.late, "state": layout.state}
    return layer_paths[layer](name)


def open_table(path: str, label: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table. Raises NotFound if there is none, or no such version; StorageError if it can't be read."""
    if not is_table(path):
        raise NotFound(f"{label} does not exist. `lakehouse look tables` lists what does; `lakehouse run` makes them.")
    try:
        return store.open_delta(path, version)
    except (DeltaError, OSError, ValueError) as error:
        if isinstance(error, TableNotFoundError) or (version is not None and not _has_commit(path, version)):
            what = label if version is None else f"{label}, version {version}"
            raise NotFound(f"{what} does not exist, or no longer. `lakehouse past log` lists the versions.") from error
        raise _unreadable_error(path, label, error) from error


def _has_commit(path: str, version: int) -> bool:
    return store.file_exists(f"{path}/_delta_log/{version:020}.json")


def _unreadable_error(path: str, label: str, error: Exception) -> StorageError:
    """Return the error of a table that is there, and can't be read, with delta-rs's reason as plain text."""
    report = TERMINAL_CODE.sub("", str(error)).partition("\n   0: ")[0]  # below it are the calls of delta-rs
    reason = ": ".join(line.replace("↳", "").strip() for line in report.splitlines() if line.strip())
    advice = (
        "Expected a store that this user may read: look at [lake] options, whose keys may have expired."
        if store.is_remote(path)
        else "Expected a table whose log and files this user may read; put a damaged file back from a copy."
    )
    return StorageError(f"{label} ({path}) can't be read. {reason.rstrip('.')}. {advice}")


def read_progress(table: DeltaTable, name: str) -> Progress:
    """Return the progress of a table, from its transaction identifier."""
    transaction_version = table.transaction_version(app_id(name))
    return Progress(0, NO_TICK) if transaction_version is None else progress_of_version(transaction_version)


def count_rows(table: DeltaTable, partition: str | None = None) -> int:
    """Return the number of rows of a table, or of one of its topics, from the log's statistics."""
    add_actions = to_arrow_table(table.get_add_actions(flatten=True))
    row_counts = add_actions["num_records"].to_pylist()
    if partition is None:
        return sum(row_counts)
    # In plain Python, since pyarrow.compute would import pandas to look at the scalar.
    file_topics = add_actions["partition.topic"].to_pylist()
    return sum(count for topic, count in zip(file_topics, row_counts, strict=True) if topic == partition)


def list_file_paths(table: DeltaTable) -> list[str]:
    """Return the files of a table's version, as paths below its folder."""
    add_actions = to_arrow_table(table.get_add_actions(flatten=True))
    return list(add_actions["path"].to_pylist()) if add_actions.num_rows else []


def to_arrow_table(arrow_data: Any) -> pa.Table:
    """Return any Arrow data as pyarrow's; `pa.table` would import pandas only to test for its frames."""
    return pa.RecordBatchReader.from_stream(arrow_data).read_all()


def newest_commits(layout: Layout) -> dict[str, str]:
    """Return the newest commit of every table of the lake, by folder: if two results are equal, nothing changed."""
    layers = [f"{layout.root}/{name}" for name in store.folder_names(layout.root)]
    tables = [f"{layer}/{name}" for layer in layers for name in store.folder_names(layer)]
    log_folders = [f"{folder}/_delta_log" for table in tables for folder in (table, *_folders_in(table))]
    newest_names = {
        log_folder: [name for name in store.file_names(log_folder) if name.endswith(".json")]
        for log_folder in sorted(log_folders)
    }
    return {log_folder: names[-1] for log_folder, names in newest_names.items() if names}


def _folders_in(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in store.folder_names(folder)]


def table_names(layout: Layout, layer: str) -> list[str]:
    """Return the names of a layer's tables (bronze: topics), sorted."""
    if layer == "bronze":
        own_topics = _table_names_in(f"{layout.root}/bronze/own")
        if not is_table(layout.records):
            return own_topics
        add_actions = to_arrow_table(open_table(layout.records, "bronze").get_add_actions(flatten=True))
        shared_topics = set(add_actions["partition.topic"].to_pylist()) if add_actions.num_rows else set()
        return sorted(shared_topics | set(own_topics))
    return _table_names_in(f"{layout.tables}/{layer}")


def _table_names_in(folder: str) -> list[str]:
    return [name for name in store.folder_names(folder) if is_table(f"{folder}/{name}")]


def find_stored_name(layout: Layout, layer: str, name: str) -> str:
    """Return a table's name as stored in the lake, whatever its case; topics are case-sensitive."""
    is_any_case = layer != "bronze"
    matching_names = (
        [stored_name for stored_name in table_names(layout, layer) if stored_name.lower() == name.lower()]
        if is_any_case
        else []
    )
    return matching_names[0] if len(matching_names) == 1 else name


def read_table_facts(layout: Layout, layer: str, name: str) -> TableFacts:
    """Return the present facts of a table. Raises NotFound if it does not exist."""
    table_path = find_table_path(layout, layer, name)
    delta_table = open_table(table_path, f"table {name!r}" if layer == "silver" else f"{layer}.{name}")
    if layer == "bronze":
        table_progress, row_count = (
            read_progress(delta_table, INGEST),
            count_rows(delta_table, name if table_path == layout.records else None),
        )
    else:
        table_progress, row_count = (
            read_progress(delta_table, name if layer == "silver" else f"{layer}.{name}"),
            count_rows(delta_table),
        )
    table_settings = delta_table.metadata().configuration
    key_columns = tuple(filter(None, (table_settings.get(KEY) or "").split(",")))
    # Not by `history`: see `walk_commits`.
    last_commit = open_log(table_path, delta_table.version()).info_at(delta_table.version())
    last_commit_ms = None if last_commit is None else commit_time_ms(last_commit)
    plan_text = table_settings.get("lakehouse.plan")
    return TableFacts(
        layer,
        name,
        row_count,
        delta_table.version(),
        table_progress.tick,
        table_progress.epoch,
        last_commit_ms,
        plan_text,
        key_columns,
    )


def read_table_properties(layout: Layout, table: str) -> dict[str, str]:
    """Return the properties of a visible table. Raises NotFound if it does not exist."""
    table_settings = open_table(layout.silver(table), f"table {table!r}").metadata().configuration
    return {name: value or "" for name, value in table_settings.items()}


def read_bronze_coverage(layout: Layout) -> TickCoverage:
    """Return how far bronze is with its topics: from the last tick's commit, or from the rows if the log lacks it."""
    if not is_table(layout.records):
        return TickCoverage()
    bronze = open_table(layout.records, "bronze")
    coverage = find_tick_coverage(open_log(layout.records, bronze.version()))
    if coverage is not None:
        return coverage
    tick = read_progress(bronze, INGEST).tick
    return TickCoverage() if tick == NO_TICK else _coverage_from_rows(layout, bronze.metadata().id, tick)


@lru_cache(maxsize=8)  # whoever watches asks again and again, while the rows of a complete tick stay the same
def _coverage_from_rows(layout: Layout, table_id: str, tick: int) -> TickCoverage:
    """Return the coverage by the rows alone; they don't show offsets without a record at a tick's end.

    table_id: that of bronze's table, so that a new lake in the same folder is another one.
    """
    paths = [layout.records, *map(layout.own_records, _table_names_in(f"{layout.root}/bronze/own"))]
    paths += [layout.erased_records] if is_table(layout.erased_records) else []  # bronze had these records, too
    connection = open_duckdb()
    for number, path in enumerate(paths):
        connection.register(f"rows_{number}", open_dataset(path))
    all_rows = " UNION ALL ".join(
        f'SELECT topic, topic_id, "partition", "offset", tick FROM rows_{number}' for number in range(len(paths))
    )
    ends = connection.execute(
        f'SELECT topic, topic_id, "partition", max("offset") + 1, max(tick) AS tick FROM ({all_rows}) '
        f"WHERE tick <= {tick:d} GROUP BY ALL ORDER BY tick"
    ).fetchall()
    topics: dict[str, TopicState] = {}
    for topic, topic_id, partition, next_offset, last_tick in ends:
        state = topics.get(topic)
        if state is None or state.id != topic_id:  # a recreated topic: its records came after those of the earlier one
            state = TopicState(topic_id)
        topics[topic] = replace(
            state, next={**state.next, partition: next_offset}, last={**state.last, partition: last_tick}
        )
    return TickCoverage(tick, topics)


def parse_commit(commit: dict[str, Any], path: str) -> CommitMetadata | None:
    """Return lakehouse's metadata in a commit of the table at `path`; None for another writer's commit.

    Raises StorageError: see `parse_metadata`.
    """
    return parse_metadata(commit.get("userMetadata"), f"version {commit['version']} of {path}")


def walk_commits(path: str, label: str) -> Iterator[dict[str, Any]]:
    """Yield what the commits of a table say about themselves, newest first, with their versions.

    A long log is read only as far as they are consumed. By the log's own files: `DeltaTable.history` lets no other
    thread of the process run while it waits for a store. Raises NotFound, StorageError.
    """
    yield from walk_log(path, open_table(path, label).version())


def walk_log(path: str, newest_version: int) -> Iterator[dict[str, Any]]:
    """Yield the commits of `walk_commits` up to a version."""
    ahead = AHEAD if store.is_remote(path) else 1
    for version, commit_info in _walk_infos(open_log(path, newest_version), ahead):
        if commit_info is None:
            return
        yield {"operation": "", **commit_info, "version": version}


def _walk_infos(log: CommitLog, ahead: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield what each commit says about itself, the newest first. ahead: how many are asked for at once, at most."""
    versions = iter(range(log.newest, -1, -1))
    if ahead == 1:
        yield from ((version, log.info_at(version)) for version in versions)
        return
    asked_count = 1  # nearly always only the newest are needed
    with ThreadPoolExecutor(ahead) as threads:
        while asked_versions := list(islice(versions, asked_count)):
            yield from zip(asked_versions, threads.map(log.info_at, asked_versions), strict=True)
            asked_count = min(asked_count * 4, ahead)


def split_layer(name: str) -> tuple[str, str]:
    """Return the layer and the name in visits, silver.visits, bronze.flights or state.visits."""
    layer, separator, table_name = name.partition(".")
    return (layer, table_name) if separator and layer in LAYERS else ("silver", name)


def read_log_rows(layout: Layout, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the versions in a table's log, newest first, as dicts."""
    return list(islice(walk_log_rows(layout, name), limit))


def walk_log_rows(layout: Layout, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `read_log_rows` one by one: a long log is read only as far as they are consumed."""
    table_path = find_table_path(layout, *split_layer(name))
    for commit in walk_commits(table_path, f"table {name!r}"):
        metadata, operation_metrics = parse_commit(commit, table_path), commit.get("operationMetrics") or {}
        yield {
            "version": commit["version"],
            "time_ms": commit_time_ms(commit),
            "operation": (metadata and metadata.content.operation) or commit["operation"],
            **_progress_fields(metadata),
            "inserted": _first_metric(operation_metrics, "numTargetRowsInserted", "numOutputRows"),
            "updated": _first_metric(operation_metrics, "numTargetRowsUpdated"),
            "deleted": _first_metric(operation_metrics, "numTargetRowsDeleted"),
            "offsets": _next_offsets(metadata),
        }


def _progress_fields(metadata: CommitMetadata | None) -> dict[str, Any]:
    """Return what a row of the log shows of a commit's metadata; None for each field that the commit lacks."""
    content = None if metadata is None else metadata.content
    counts = content.counts if isinstance(content, TableCommit) else None
    is_numbered = metadata is not None and metadata.app != ""
    return {
        "tick": metadata.tick if metadata and is_numbered else None,
        "from_tick": content.from_tick if isinstance(content, RowsCommit) else None,
        "epoch": metadata.number.epoch if metadata and is_numbered else None,
        "records": counts and counts.records,
        "null_keys": counts and counts.null_keys,
    }


def _next_offsets(metadata: CommitMetadata | None) -> dict[str, dict[str, int]] | None:
    """Return the first offsets that bronze lacks after a tick, by topic and partition; None for another commit."""
    if metadata is None or not isinstance(metadata.content, BronzeTick):
        return None
    return {
        topic: {str(partition): offset for partition, offset in topic_state.next.items()}
        for topic, topic_state in metadata.content.topics.items()
    }


def _first_metric(metrics: dict[str, Any], *metric_names: str) -> int | None:
    return next(
        (int(metrics[metric_name]) for metric_name in metric_names if metrics.get(metric_name) is not None), None
    )


def read_changes(
    layout: Layout, name: str, first_version: int | None, last_version: int | None, predicate: str | None = None
) -> pa.Table:
    """Return the net changes of a keyed table (visits, state.visits), from Delta's change data feed.

    predicate: SQL that selects changes; all if None. Raises NotFound for versions that do not exist, or whose changes
    are gone.
    """
    return pa.Table.from_batches(walk_change_batches(layout, name, first_version, last_version, predicate))


def walk_change_batches(
    layout: Layout, name: str, first_version: int | None, last_version: int | None, predicate: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of `read_changes`, read as they are consumed. The first batch is empty and has the columns."""
    delta_table = open_table(find_table_path(layout, *split_layer(name)), f"table {name!r}")
    newest_version = delta_table.version()
    for version in (first_version, last_version):
        if version is not None and not 0 <= version <= newest_version:
            raise NotFound(f"table {name!r} has versions 0 to {newest_version}; version {version} does not exist.")
    if first_version is not None and last_version is not None and first_version > last_version:
        raise ConfigError(
            f"--from {first_version} comes after --to {last_version}; expected the smaller version first."
        )
    last_version = newest_version if last_version is None else last_version
    try:
        change_feed = pa.RecordBatchReader.from_stream(
            delta_table.load_cdf(first_version or 0, last_version, predicate=predicate)
        )
        yield pa.RecordBatch.from_pylist([], change_feed.schema)
        yield from change_feed
    except Exception as error:  # deltalake raises Exception itself for a file that is gone
        raise NotFound(
            f"table {name!r}: the changes of versions {first_version or 0} to {last_version} can't be read; VACUUM, "
            f"and the retention of the log, remove old ones. {str(error).splitlines()[0]}"
        ) from error


def open_dataset(path: str, version: int | None = None) -> ds.Dataset:
    """Return a Delta table as an Arrow dataset, read lazily."""
    arrow_dataset: ds.Dataset = open_table(path, path, version).to_pyarrow_dataset()
    return arrow_dataset


def connect_lake(layout: Layout) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that sees the lake, and nothing else of the machine.

    `visits` has the visible columns of a table, `silver.visits` also the hidden ones. There are also `bronze.flights`,
    `quarantine.flights`, `late.visits` and `state.visits`, and `staged_next.visits` of a deployment named next.
    """
    import pyarrow.dataset as ds  # imports pandas too, a second that only queries should wait

    staged_layouts = _staged_layouts(layout)
    connection = open_duckdb([*LAYERS, *staged_layouts])
    for schema, staged_layout in staged_layouts.items():
        for name in _names_in_sql(table_names(staged_layout, "silver")):
            register_staged_table(connection, schema, name, open_dataset(staged_layout.silver(name)))
    open_datasets: dict[str, ds.Dataset] = {}
    for layer in LAYERS:
        for name in _names_in_sql(table_names(layout, layer)):
            table_path = find_table_path(layout, layer, name)
            if table_path not in open_datasets:
                open_datasets[table_path] = open_dataset(table_path)
            table_rows = (
                open_datasets[table_path].filter(ds.field("topic") == name)
                if layer == "bronze"
                else open_datasets[table_path]
            )
            register_table(connection, layer, name, table_rows)
    return connection


def _names_in_sql(names: Sequence[str]) -> list[str]:
    """Return the names that SQL can tell apart: without those that differ from another one in case alone."""
    clashing_names = set(names_equal_but_case(names))
    return [name for name in names if name not in clashing_names]


def names_equal_but_case(names: Sequence[str]) -> list[str]:
    """Return the names that differ from another one in case alone."""
    counts = Counter(name.lower() for name in names)
    return [name for name in names if counts[name.lower()] > 1]


def _staged_layouts(layout: Layout) -> dict[str, Layout]:
    """Return the places of the deployments that are staged, by the schema of their tables."""
    folder_names = store.folder_names(f"{layout.root}/beside")
    names = [name.removeprefix(DEPLOYMENT) for name in folder_names if name.startswith(DEPLOYMENT)]
    # Of a killed swap there may be further sets, whose names have more in them.
    return {
        f"staged_{name}": replace(layout, beside=f"{DEPLOYMENT}{name}")
        for name in names
        if DEPLOYMENT_NAME.fullmatch(name)
    }


def query_lake(layout: Layout, sql: str) -> duckdb.DuckDBPyRelation:
    """Answer SQL over the lake, see `connect_lake`; it can't write. Raises ConfigError if DuckDB can't answer it."""
    return run_select(connect_lake(layout), sql)


def count_quarantined(layout: Layout, streams: Iterable[str]) -> dict[str, int]:
    """Return the number of quarantined records by stream."""
    return _count_rows_by_name({name: layout.quarantine(name) for name in streams})


def count_late_rows(layout: Layout, tables: Iterable[str]) -> dict[str, int]:
    """Return the number of late rows by table; 0 for a table without any."""
    late_tables = set(table_names(layout, "late"))
    tables = list(tables)
    return dict.fromkeys(tables, 0) | _count_rows_by_name(
        {name: layout.late(name) for name in tables if name in late_tables}
    )


def _count_rows_by_name(paths_by_name: dict[str, str]) -> dict[str, int]:
    return {name: count_rows(open_table(path, path)) for name, path in paths_by_name.items()}
