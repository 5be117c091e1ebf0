"""A lake's files, read without a JVM: its `LakeFacts`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from lakehouse.lake import reader, store
from lakehouse.lake.commit_log import CommitLog, open_log
from lakehouse.lake.in_effect import KINDS_NOT_IN_BRONZE
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.lake_facts import TopicEnds
from lakehouse.lake.sql import quote_literal
from lakehouse.lake.store import is_table
from lakehouse.semantics.commit_number import NO_TICK


class LocalTable:
    """A Delta table, opened once."""

    def __init__(self, path: str) -> None:
        self._table = reader.open_table(path, path)
        self._path = path
        self.log: CommitLog = open_log(path, self._table.version())

    def properties(self) -> Mapping[str, str]:
        return {name: value or "" for name, value in self._table.metadata().configuration.items()}

    def tick(self, name: str) -> int:
        return reader.read_progress(self._table, name).tick

    def oldest_readable(self) -> int:
        low_version, high_version = self.log.oldest_version(), self.log.newest
        while low_version < high_version:
            middle_version = (low_version + high_version) // 2
            low_version, high_version = (
                (low_version, middle_version)
                if is_version_readable(self._path, middle_version)
                else (middle_version + 1, high_version)
            )
        return low_version


class LakeFiles:
    """The files of one lake."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def open_table(self, path: str) -> LocalTable | None:
        return LocalTable(path) if is_table(path) else None

    def has_records(self, topics: Collection[str], after_tick: int, to_tick: int) -> bool:
        topic_paths = {topic: reader.find_table_path(self.layout, "bronze", topic) for topic in topics}
        return any(
            is_table(topic_path) and has_topic_records(topic_path, topic, after_tick, to_tick)
            for topic, topic_path in topic_paths.items()
        )

    def topic_ends(self, topics: Iterable[str], to_tick: int) -> dict[str, TopicEnds]:
        ends_by_topic: dict[str, TopicEnds] = {}
        for topic in topics:
            topic_path = reader.find_table_path(self.layout, "bronze", topic)
            if not is_table(topic_path) or to_tick <= NO_TICK:
                continue
            condition = f'topic = {quote_literal(topic)} AND tick <= {to_tick} GROUP BY topic_id, "partition"'
            select_columns = 'topic_id, "partition", max("offset") + 1 AS next, max(tick) AS tick'
            partition_rows = read_rows_where(topic_path, select_columns, condition).to_pylist()
            if partition_rows:
                topic_id = max(partition_rows, key=lambda part: part["tick"])["topic_id"]
                ends_by_topic[topic] = TopicEnds(
                    topic_id, {p["partition"]: p["next"] for p in partition_rows if p["topic_id"] == topic_id}
                )
        return ends_by_topic

    def has_interventions(self, table: str, after_tick: int, to_tick: int) -> bool:
        if to_tick <= after_tick or not is_table(self.layout.interventions):
            return False
        condition = f'"table" = {quote_literal(table)} AND "at" > {after_tick} AND "at" <= {to_tick}'
        if self.layout.beside is not None:
            condition += f" AND kind IN ({', '.join(map(quote_literal, KINDS_NOT_IN_BRONZE))})"
        return bool(read_rows_where(self.layout.interventions, '"at"', condition, 1).num_rows)


def has_topic_records(bronze_path: str, topic: str, after_tick: int, to_tick: int) -> bool:
    """Say whether a bronze table has records of a topic in the ticks (after_tick, to_tick]."""
    condition = f"topic = {quote_literal(topic)} AND tick > {after_tick} AND tick <= {to_tick}"
    return bool(read_rows_where(bronze_path, "tick", condition, 1).num_rows)


def is_version_readable(path: str, version: int) -> bool:
    """Say whether a version's files still exist: VACUUM removes those that later versions no longer need."""
    if not has_version(path, version):
        return False
    file_paths = reader.list_file_paths(reader.open_table(path, path, version))
    return store.all_exist(f"{path}/{file_path}" for file_path in file_paths)


def has_version(path: str, version: int) -> bool:
    """Say whether a table's log has a version."""
    return store.file_exists(f"{path}/_delta_log/{version:020}.json")


def read_rows_where(table_path: str, select_columns: str, condition: str, limit: int | None = None) -> pa.Table:
    """Return rows of a Delta table; skip files whose statistics lie outside the condition."""
    limit_clause = f" LIMIT {limit}" if limit is not None else ""
    delta_table: DeltaTable = reader.open_table(table_path, table_path)
    return reader.to_arrow_table(
        QueryBuilder()
        .register("t", delta_table)
        .execute(f"SELECT {select_columns} FROM t WHERE {condition}{limit_clause}")
        .read_all()
    )
