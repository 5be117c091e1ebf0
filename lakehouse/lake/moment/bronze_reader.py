"""What bronze says about moments of the past, read without a JVM: ticks, offsets, and whether records lie between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.sql import literal
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import none_left_out

Offsets = Mapping[str, Mapping[int, int]]


def complete(layout: Layout) -> int:
    """Return bronze's last complete tick; `NO_TICK` without a bronze."""
    if not Path(layout.records, "_delta_log").is_dir():
        return NO_TICK
    return reader.read_progress(DeltaTable(layout.records), reader.INGEST).tick


def rows(path: str, columns: str, where: str, limit: int | None = None) -> pa.Table:
    """Return rows of the Delta table at `path`; files whose statistics lie outside of the condition are not read."""
    cut = f" LIMIT {limit}" if limit is not None else ""
    table = reader.open_table(path, path)
    return reader.arrow(
        QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t WHERE {where}{cut}").read_all()
    )


def has_records(layout: Layout, topics: Iterable[str], after: int, to: int) -> bool:
    """Say whether bronze has records of these topics in the ticks (after, to]."""
    for topic in topics:
        path = reader.path_of(layout, "bronze", topic)
        where = f"topic = {literal(topic)} AND tick > {after} AND tick <= {to}"
        if Path(path, "_delta_log").is_dir() and rows(path, "tick", where, 1).num_rows:
            return True
    return False


def decided(layout: Layout, table: str, after: int, to: int) -> bool:
    """Say whether somebody intervened in a table in the ticks (after, to]."""
    if not Path(layout.interventions, "_delta_log").is_dir():
        return False
    where = f'"table" = {literal(table)} AND "at" > {after} AND "at" <= {to}'
    return bool(rows(layout.interventions, '"at"', where, 1).num_rows)


def ticks_at(layout: Layout, offsets: Offsets, topics: Iterable[str] | None) -> list[int]:
    """Return the ticks after which bronze stood at exactly these offsets, the newest first; [] if it never did.

    topics: those that count, None for all that are named. Raises NotFound for offsets that bronze does not have yet,
    ConfigError where a partition that has records is left out.
    """
    now = reader.bronze_covers(layout).get("topics", {})
    check(offsets, now, topics)
    counting = offsets if topics is None else topics
    wanted = {topic: {str(p): n for p, n in offsets.get(topic, {}).items() if n} for topic in counting}
    found: list[int] = []
    for said in _covers(layout):
        stood = {topic: _moved(said["topics"], topic) for topic in wanted}
        if any(topic in now and topic in said["topics"] and _id(said, topic) != now[topic]["id"] for topic in wanted):
            break  # the topic was made anew since: other offsets
        if stood == wanted:
            found.append(said["tick"])
        elif all(_is_before(stood[topic], wanted[topic]) for topic in wanted):
            break
    else:
        found += [] if any(wanted.values()) else [NO_TICK]
    return found


def last_tick_before(layout: Layout, offsets: Offsets) -> int:
    """Return the last tick after which bronze had no record from these offsets on."""
    wanted = {topic: {str(p): n for p, n in of.items()} for topic, of in offsets.items()}
    for said in _covers(layout):
        if all(_is_before(_moved(said["topics"], topic), of) for topic, of in wanted.items()):
            return int(said["tick"])
    return NO_TICK


def check(offsets: Offsets, now: Mapping[str, Any], topics: Iterable[str] | None) -> None:
    """Raise NotFound for offsets that bronze does not have yet, ConfigError when a partition of a topic is left out.

    What is left out would be a guess. now: where bronze stands, see `reader.bronze_covers`.
    """
    for topic, of in offsets.items():
        if topic not in now:
            raise NotFound(f"offsets of {topic}: bronze has {', '.join(sorted(now)) or 'no topics yet'}.")
        for partition, offset in of.items():
            end = now[topic]["next"].get(str(partition), 0)
            if offset > end:
                raise NotFound(f"offsets {topic}/{partition}={offset}: bronze has {topic}/{partition} up to {end}.")
    counting = offsets if topics is None else topics
    none_left_out(offsets, {(topic, int(p)): n for topic in counting for p, n in _moved(now, topic).items()})


def _covers(layout: Layout) -> Iterable[dict[str, Any]]:
    for commit in reader.commits(reader.open_table(layout.records, "bronze")):
        said = reader.user_metadata(commit)
        if "topics" in said:
            yield said


def _id(said: Mapping[str, Any], topic: str) -> str:
    return str(said["topics"][topic]["id"])


def _moved(topics: Mapping[str, Any], topic: str) -> dict[str, int]:
    """The first offset not taken in, of each partition that has records."""
    return {p: n for p, n in topics.get(topic, {}).get("next", {}).items() if n}


def _is_before(stood: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(n <= wanted.get(p, 0) for p, n in stood.items())
