"""Which records make a table at a moment, and which of its versions that is: told from the logs, without Spark.

The same as `lakehouse.spark.past.reading` tells with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut, check_offsets
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion


@dataclass(frozen=True, slots=True)
class Told:
    """The records that count, and the version that is just that, if one is; the watermark then, if its commit says."""

    cut: Cut
    version: int | None
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class _Commit:
    version: int
    tick: int
    from_tick: int
    ms: int
    said: dict[str, Any]


def told(layout: Layout, table: Table, at: At | None) -> Told:
    """Return which records make a table at a moment; now if there is none. Raises NotFound, ConfigError."""
    reader.local_root(layout)
    opened = reader.open_table(layout.silver(table.name), f"table {table.name!r}")
    done = reader.read_progress(opened, table.name).tick
    complete = reader.read_progress(reader.open_table(layout.records, "bronze"), reader.INGEST).tick
    applied = done if _has_rows(layout, table, done, complete) else max(done, complete)
    newest = opened.version()
    match at:
        case None:
            return Told(Cut(applied), newest, _watermark(layout, table, applied))
        case AtEvent(ms):
            return Told(Cut(applied, event_ms=ms), None)
        case AtOffsets(offsets):
            _check(layout, table, at, applied)
            return Told(Cut(applied, offsets=offsets), None)
        case AtTick(tick):
            if tick > applied:
                raise NotFound(
                    f"table {table.name!r} has not taken in tick {tick}: it stands at tick {applied}. Ticks 0 to "
                    f"{applied} can be explained."
                )
            version = _version(layout, table, _commits(opened, table.name, tick), tick, newest)
            return Told(Cut(tick), version, _watermark(layout, table, tick))
    version = at.version if isinstance(at, AtVersion) else _version_at(opened, table, at)
    if version > newest:
        raise NotFound(f"table {table.name!r} has no version {version}. Versions up to {newest} can be explained.")
    before = (commit for commit in _ours(opened, table.name) if commit.version <= version)
    tick = next((commit.tick for commit in before), NO_TICK)
    return Told(Cut(tick), version, _watermark(layout, table, tick))


def _ours(opened: DeltaTable, name: str) -> Iterator[_Commit]:
    """A table's commits by lakehouse that its log still has, the newest first."""
    for commit in reader.commits(opened):
        said = reader.user_metadata(commit)
        if said.get("app") == f"lakehouse.{name}" and commit["operation"] in ("MERGE", "WRITE"):
            before = said.get("from_tick", said["tick"])
            yield _Commit(commit["version"], said["tick"], before, reader.time_ms(commit), said)


def _commits(opened: DeltaTable, name: str, back_to: int) -> list[_Commit]:
    """A table's commits from the newest one back to the one that reached a tick, oldest first."""
    found = []
    for commit in _ours(opened, name):
        found.append(commit)
        if commit.tick <= back_to and "from_tick" in commit.said:
            break
    return found[::-1]


def _version(layout: Layout, table: Table, known: list[_Commit], tick: int, newest: int) -> int | None:
    """The version that is the table at a tick, if one is."""
    before = [commit for commit in known if commit.tick <= tick]
    if not before:
        return None
    later = known[len(before) :]
    reached = bool(later) and tick <= later[0].from_tick
    if not reached and _has_rows(layout, table, before[-1].tick, tick):
        return None
    return later[0].version - 1 if later else newest


def _watermark(layout: Layout, table: Table, tick: int) -> int | None:
    """Where the watermark of a table stood at a tick, if a commit says it."""
    layer, name = (layout.state, f"state.{table.name}") if table.has_state else (layout.silver, table.name)
    if not table.has_clock or not Path(layer(table.name), "_delta_log").is_dir():
        return None
    known = _commits(reader.open_table(layer(table.name), name), name, tick)
    stood = [commit for commit in known if commit.tick <= tick and "clock" in commit.said]
    if not stood or _has_rows(layout, table, stood[-1].tick, tick):
        return None
    watermark: int | None = stood[-1].said["clock"]["watermark"]
    return watermark


def _version_at(opened: DeltaTable, table: Table, at: AtCommit) -> int:
    before = (int(commit["version"]) for commit in reader.commits(opened) if reader.time_ms(commit) <= at.ms)
    version = next(before, None)
    if version is None:
        raise NotFound(f"table {table.name!r} at {at}: its log begins later. Name a tick, or an event time.")
    return version


def _topics(layout: Layout, table: Table) -> list[tuple[ds.Dataset, ds.Expression]]:
    """The bronze of a table's topics."""
    own = {source.topic for source in table.stream.sources if source.own_table}
    return [
        (reader.dataset(layout.own_records(topic) if topic in own else layout.records), ds.field("topic") == topic)
        for topic in table.stream.topics
    ]


def _has_rows(layout: Layout, table: Table, after: int, to: int) -> bool:
    inside = (ds.field("tick") > after) & (ds.field("tick") <= to)
    return to > after and any(
        rows.scanner(columns=["tick"], filter=of & inside).head(1).num_rows > 0 for rows, of in _topics(layout, table)
    )


def _check(layout: Layout, table: Table, at: AtOffsets, applied: int) -> None:
    """Every partition that has records must be named: what is left out would be a guess."""
    found: dict[tuple[str, int], int] = {}
    for rows, of in _topics(layout, table):
        known = rows.to_table(columns=["topic", "partition", "offset"], filter=of & (ds.field("tick") <= applied))
        for row in known.group_by(["topic", "partition"]).aggregate([("offset", "max")]).to_pylist():
            found[row["topic"], row["partition"]] = row["offset_max"] + 1
    check_offsets(table, at.offsets, found)
