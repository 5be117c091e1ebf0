"""Lakes written without Spark, for the commands that read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.lake.commit_metadata import BronzeTick, CommitContent, LateCommit, TopicState, VisibleCommit

from ..written_commits import commit_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
PLACE = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "tick": pa.int64()}
BRONZE = pa.schema(
    {**PLACE, "topic_id": pa.string(), "timestamp": TIME, "order_time": TIME, "key": pa.binary(), "value": pa.binary()}
)
LATE = pa.schema(
    {
        **PLACE, "ordinals": pa.list_(pa.int64()), "key": pa.string(), "window_start": TIME, "window_end": TIME,
        "join_name": pa.string(),
    }
)  # fmt: skip
ROWS = pa.schema({"user": pa.string(), "window_start": TIME, "window_end": TIME, "n": pa.int64(), "_event_time": TIME})


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


class WrittenLake:
    """A lake under `root`, one commit at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._next: dict[tuple[str, str], dict[int, int]] = {}
        self._last: dict[tuple[str, str], dict[int, int]] = {}

    def tick(self, tick: int, *records: tuple[str, str, int, Any, Any], topic_id: str = "id-1") -> None:
        """Append a tick to bronze: (topic, key, partition, milliseconds, value)."""
        rows = []
        for topic, key, partition, ms, value in records:
            ends = self._next.setdefault((topic, topic_id), {})
            offset = ends.get(partition, 0)
            ends[partition] = offset + 1
            self._last.setdefault((topic, topic_id), {})[partition] = tick
            rows.append(
                {
                    "topic": topic, "partition": partition, "offset": offset, "tick": tick, "topic_id": topic_id,
                    "timestamp": at(ms), "order_time": at(ms), "key": key.encode() if key is not None else None,
                    "value": value.encode() if isinstance(value, str) else value,
                }
            )  # fmt: skip
        topics = {
            topic: TopicState(of, dict(ends), dict(self._last[topic, of])) for (topic, of), ends in self._next.items()
        }
        content = BronzeTick(topics=topics, run="run")
        self._write("bronze/records", "ingest", tick, BRONZE, rows, content, ["topic"])

    def rows(
        self, table: str, tick: int, *rows: tuple[str, int, int, int], layer: str = "silver", topic: str,
        content: CommitContent | None = None,
    ) -> None:  # fmt: skip
        """Append rows to a windowed table (or its state): (user, start, end, n); content: that of a state's commit."""
        result = [
            {"user": user, "window_start": at(start), "window_end": at(end), "n": n, "_event_time": at(start)}
            for user, start, end, n in rows
        ]
        name = table if layer == "silver" else f"{layer}.{table}"
        plan = f"TABLE {table}\n  FROM topic {topic} (stream {topic})"
        properties = {"lakehouse.plan": plan, "lakehouse.key": "user,window_start,window_end"}
        content = content or VisibleCommit(from_tick=tick - 1, run="run", keys=len(rows))
        self._write(f"{layer}/{table}", name, tick, ROWS, result, content, None, properties)

    def late(self, table: str, tick: int, *late: tuple[str, int, int, str, int | None, int | None]) -> None:
        """Append late records: (topic, partition, offset, user, start, end); user: or the key's JSON."""
        result = [
            {
                "topic": topic, "partition": partition, "offset": offset, "tick": tick, "ordinals": [],
                "key": user if user.startswith("{") else json.dumps({"user": user}),
                "window_start": None if start is None else at(start), "window_end": None if end is None else at(end),
            }
            for topic, partition, offset, user, start, end in late
        ]  # fmt: skip
        self._write(f"late/{table}", f"late.{table}", tick, LATE, result, LateCommit(from_tick=tick - 1))

    def _write(
        self, path: str, name: str, tick: int, schema: pa.Schema, rows: list[dict[str, Any]], content: CommitContent,
        partitions: list[str] | None = None, properties: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        place = str(self.root / path)
        commit = CommitProperties(
            custom_metadata={"userMetadata": commit_text(name, tick, content)},
            app_transactions=[Transaction(f"lakehouse.{name}", (1 << 40) + tick)],
        )
        table = pa.Table.from_pylist(rows, schema)
        write_deltalake(place, table, mode="append", partition_by=partitions, commit_properties=commit)
        if properties:
            DeltaTable(place).alter.set_table_properties(properties, raise_if_not_exists=False)
