"""Keyed tables with many versions, written without Spark: their commits have lakehouse's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.lake.commit_metadata import CommitContent, EventTimes, RecordCounts, RowsCommit, UnchangedRows, app_id
from lakehouse.lake.layout import Layout

from ..written_commits import batch, commit_text
from .written import TIME, WrittenLake, at

POSITION = pa.struct(
    {
        "tick": pa.int64(), "order_time": pa.int64(), "topic": pa.string(), "partition": pa.int32(),
        "offset": pa.int64(), "ordinals": pa.list_(pa.int64()),
    }
)  # fmt: skip
VISITS = {"user": pa.string(), "n": pa.int64(), "place": pa.string()}


def position(tick: int, offset: int, partition: int = 0, topic: str = "clicks") -> dict[str, Any]:
    return {
        "tick": tick, "order_time": 0, "topic": topic, "partition": partition, "offset": offset, "ordinals": [],
    }  # fmt: skip


class VersionedTable:
    """One keyed table; version 0 is empty. `layer` is silver or state. properties: instead of a declaration.

    feed: with a change data feed that has updates; deltalake's merge then writes files that have no filters on texts.
    """

    def __init__(
        self,
        root: Path,
        name: str = "visits",
        columns: Mapping[str, pa.DataType] = VISITS,
        key: Sequence[str] = ("user",),
        *,
        topics: Sequence[str] = ("clicks",),
        layer: str = "silver",
        properties: Mapping[str, str] | None = None,
        feed: bool = False,
    ) -> None:
        self.path = str(root / layer / name)
        self.name = name if layer == "silver" else f"{layer}.{name}"
        self.key = key
        self.schema = pa.schema({**columns, "_event_time": TIME, "_position": POSITION})
        self.through: int | None = None
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._feed = feed
        self._tick = 0
        streams = [{"topic": topic} for topic in topics]
        declaration = {"version": 1, "stream": streams[0] if len(streams) == 1 else {"merge": streams}}
        settings = {"lakehouse.key": ",".join(key)} | ({"delta.enableChangeDataFeed": "true"} if feed else {})
        settings |= {"lakehouse.declaration": json.dumps(declaration)} if properties is None else properties
        Path(self.path).mkdir(parents=True)
        DeltaTable.create(self.path, self.schema, configuration=settings, raise_if_key_not_exists=False)

    @property
    def version(self) -> int:
        return DeltaTable(self.path).version()

    @property
    def time(self) -> int:
        """The time of the newest commit."""
        return int(DeltaTable(self.path).history(1)[0]["timestamp"])

    def commit(
        self,
        tick: int,
        *rows: dict[str, Any],
        gone: Sequence[dict[str, Any]] = (),
        times: tuple[int, int] | None = None,
        after: int | None = None,
        content: CommitContent | None = None,
    ) -> int:
        """Add or replace rows, and remove the keys `gone`; return the version.

        times: the first and the last one of the records. after: the tick before the first one (the last commit's).
        content: replaces that of a commit of records, but for the tick before the first one.
        """
        self.through = max((t for t in (self.through, times and times[1]) if t is not None), default=None)
        known = batch(
            counts=RecordCounts(len(rows) + len(gone)), times=EventTimes(*(times or (None, None)), self.through)
        )
        content = known if content is None else content
        if isinstance(content, RowsCommit):
            content = replace(content, from_tick=self._tick if after is None else after)
        commit = CommitProperties(
            custom_metadata={"userMetadata": commit_text(self.name, tick, content)},
            app_transactions=[Transaction(app_id(self.name), (1 << 40) + tick)],
        )
        self._tick = tick
        keys = [self._key(row) for row in (*rows, *gone)]
        fresh = not gone and not any(key in self.rows for key in keys)
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}
        self.rows |= {self._key(row): row for row in rows}
        if self._feed:
            self._merge(rows, gone, commit)
        else:
            content = pa.Table.from_pylist(list(rows) if fresh else list(self.rows.values()), self.schema)
            mode: Literal["append", "overwrite"] = "append" if fresh else "overwrite"
            write_deltalake(self.path, content, mode=mode, commit_properties=commit)
        return self.version

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _merge(self, rows: Sequence[dict[str, Any]], gone: Sequence[dict[str, Any]], commit: CommitProperties) -> None:
        source = [{**dict.fromkeys(self.schema.names), **row, "_tombstone": False} for row in rows]
        source += [{**dict.fromkeys(self.schema.names), **row, "_tombstone": True} for row in gone]
        schema = self.schema.append(pa.field("_tombstone", pa.bool_()))
        same = " AND ".join(f"(t.`{name}` IS NOT DISTINCT FROM s.`{name}`)" for name in self.key)
        values = {f"`{name}`": f"s.`{name}`" for name in self.schema.names}
        table = pa.Table.from_pylist(source, schema)
        merging = DeltaTable(self.path).merge(table, same, "s", "t", commit_properties=commit)
        merging = merging.when_matched_delete("s._tombstone").when_matched_update(values)
        merging.when_not_matched_insert(values, "NOT s._tombstone").execute()

    def open_epoch(self) -> int:
        """Append nothing, as a writer does that takes the table over; return the version."""
        return self.say(self._tick, UnchangedRows(operation="open epoch"), epoch=2)

    def say(self, tick: int, content: CommitContent, epoch: int = 1) -> int:
        """Append nothing; return the version."""
        commit = CommitProperties(custom_metadata={"userMetadata": commit_text(self.name, tick, content, epoch)})
        write_deltalake(self.path, self.schema.empty_table(), mode="append", commit_properties=commit)
        return self.version

    def optimize(self) -> int:
        """Write the rows into one file; return the version."""
        DeltaTable(self.path).optimize.compact()
        return self.version

    def vacuum(self) -> None:
        """Remove the files that the newest version does not need."""
        DeltaTable(self.path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def visit(user: str | None, n: int, tick: int, offset: int, partition: int = 0, **more: Any) -> dict[str, Any]:
    """A row of visits, last set by a record of clicks."""
    return {
        "user": user, "n": n, "place": f"p{n}", "_event_time": at(n), "_position": position(tick, offset, partition),
        **more,
    }  # fmt: skip


class Story:
    """A lake with the topics clicks and views, and visits over clicks:

    tick  clicks (user, milliseconds)   views    version of visits
    0                                            0 made, 1 open epoch
    1     ann 100, bob 200                       2: ann, bob
    2                                   x 250
    3     ann 300                                3: ann           ticks 2 and 3
    4     cat 400                                   \\
    5     bob 500                                4: cat, bob gone  ticks 4 and 5 in one batch
    6                                   y 600
    7     dan 350 (out of order)                 5: dan
    8                                   z 700
    """

    def __init__(self, root: Path, *, feed: bool = False) -> None:
        self.root = root
        self.layout = Layout(str(root))
        self.bronze = WrittenLake(root)
        self.bronze.tick(1, ("clicks", "ann", 0, 100, "a0"), ("clicks", "bob", 1, 200, "b0"))
        self.bronze.tick(2, ("views", "x", 0, 250, "x0"))
        self.bronze.tick(3, ("clicks", "ann", 0, 300, "a1"))
        self.bronze.tick(4, ("clicks", "cat", 0, 400, b"\xff"))
        self.bronze.tick(5, ("clicks", "bob", 1, 500, None))
        self.bronze.tick(6, ("views", "y", 0, 600, "y0"))
        self.bronze.tick(7, ("clicks", "dan", 1, 350, "d0"))
        self.bronze.tick(8, ("views", "z", 0, 700, "z0"))
        self.visits = VersionedTable(root, feed=feed)
        self.times = [self.visits.time]
        self._then(self.visits.open_epoch())
        self._then(self.visits.commit(1, visit("ann", 1, 1, 0), visit("bob", 1, 1, 0, 1), times=(100, 200)))
        self._then(self.visits.commit(3, visit("ann", 2, 3, 1), times=(300, 300)))
        self._then(self.visits.commit(5, visit("cat", 1, 4, 2), gone=[{"user": "bob"}], times=(400, 500)))
        self._then(self.visits.commit(7, visit("dan", 1, 7, 2, 1), times=(350, 350)))

    def _then(self, version: int) -> None:
        assert version == len(self.times)
        self.times.append(self.visits.time)
