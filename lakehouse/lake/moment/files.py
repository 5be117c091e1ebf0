"""A lake's files, read without a JVM: the source of moments for a lake in a local folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from lakehouse.lake import reader
from lakehouse.lake.commit_log import CommitLog, is_table, local_log
from lakehouse.lake.in_effect import LACKED
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.source import Ends
from lakehouse.lake.sql import literal
from lakehouse.semantics.epoch import NO_TICK


class OpenedFiles:
    """A Delta table in a local folder."""

    def __init__(self, path: str) -> None:
        self._table = reader.open_table(path, path)
        self._path = path
        self.log: CommitLog = local_log(path, self._table.version())

    def properties(self) -> Mapping[str, str]:
        return {name: value or "" for name, value in self._table.metadata().configuration.items()}

    def tick(self, name: str) -> int:
        return reader.read_progress(self._table, name).tick

    def oldest_readable(self) -> int:
        low, high = self.log.oldest(), self.log.newest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if readable(self._path, middle) else (middle + 1, high)
        return low


class Files:
    """The files of one lake. Raises ConfigError for a lake that is not in a local folder."""

    def __init__(self, layout: Layout) -> None:
        reader.local_root(layout)
        self.layout = layout

    def opened(self, path: str) -> OpenedFiles | None:
        return OpenedFiles(path) if is_table(path) else None

    def has_records(self, topics: Collection[str], after: int, to: int) -> bool:
        for topic in topics:
            path = reader.path_of(self.layout, "bronze", topic)
            where = f"topic = {literal(topic)} AND tick > {after} AND tick <= {to}"
            if is_table(path) and rows(path, "tick", where, 1).num_rows:
                return True
        return False

    def ends(self, topics: Iterable[str], to: int) -> dict[str, Ends]:
        found: dict[str, Ends] = {}
        for topic in topics:
            path = reader.path_of(self.layout, "bronze", topic)
            if not is_table(path) or to <= NO_TICK:
                continue
            where = f'topic = {literal(topic)} AND tick <= {to} GROUP BY topic_id, "partition"'
            columns = 'topic_id, "partition", max("offset") + 1 AS next, max(tick) AS tick'
            parts = rows(path, columns, where).to_pylist()
            if parts:
                of = max(parts, key=lambda part: part["tick"])["topic_id"]
                found[topic] = Ends(of, {p["partition"]: p["next"] for p in parts if p["topic_id"] == of})
        return found

    def has_interventions(self, table: str, after: int, to: int) -> bool:
        if to <= after or not is_table(self.layout.interventions):
            return False
        where = f'"table" = {literal(table)} AND "at" > {after} AND "at" <= {to}'
        if self.layout.beside is not None:
            where += f" AND kind IN ({', '.join(map(literal, LACKED))})"
        return bool(rows(self.layout.interventions, '"at"', where, 1).num_rows)


def readable(path: str, version: int) -> bool:
    """Say whether a version's files still exist: VACUUM removes those that later versions no longer need."""
    if not has(path, version):
        return False
    files = reader.files(reader.open_table(path, path, version))
    return all(Path(path, file).exists() for file in files)


def has(path: str, version: int) -> bool:
    """Say whether a table's log has a version."""
    return Path(path, "_delta_log", f"{version:020}.json").exists()


def rows(path: str, columns: str, where: str, limit: int | None = None) -> pa.Table:
    """Return rows of the Delta table at `path`; files whose statistics lie outside the condition are not read."""
    cut = f" LIMIT {limit}" if limit is not None else ""
    table: DeltaTable = reader.open_table(path, path)
    return reader.arrow(
        QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t WHERE {where}{cut}").read_all()
    )
