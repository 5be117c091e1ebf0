"""The past under interventions and upkeep: at random moments of every clock a read equals the independent fold.

A history is records with interventions in between: a table is reverted, bad records are fixed, a table is rebuilt with
unchanged logic (which must change no row), files are compacted, anchors written. The oracle knows records alone: a
reverted table has those that it had then, a fixed record has other bytes, and the rows that it touches have all their
records again; the model folds them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake.moment.history import History
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from tests.properties.test_operators import BY_CITY, EVENTS, history
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout

LATEST = EVENTS.latest("latest")
SUMS = BY_CITY.agg(n=lh.count(), total=lh.sum("amount"), newest=lh.latest("n"), all=lh.collect_list("n")).table("sums")
BY_TIME = EVENTS.latest("by_time", order_by="rowtime")
# Their clock goes on when a table is reverted, so they are not reverted here.
WINDOWS = BY_CITY.window(lh.tumbling("5 milliseconds", grace="60 milliseconds")).agg(n=lh.count("n")).table("windows")
SESSIONS = BY_CITY.window(lh.session("3 milliseconds", grace="60 milliseconds")).agg(n=lh.count()).table("sessions")
HISTORIES = (LATEST.history(), BY_TIME.history(), BY_TIME.history("cities", track=["city"]), SUMS.history())
APP = lh.app(LATEST, SUMS, BY_TIME, WINDOWS, SESSIONS, *HISTORIES)
BACK = (LATEST, SUMS, BY_TIME, *HISTORIES)
BAD, FIXED = b'{"n": "bad"}', b'{"n": 3, "city": "Rome", "amount": 7}'
PARTS = 5


def group(table: Table, record: Record) -> Any:
    """The key of the row that a record reaches, without the window; None if it reaches none."""
    if table in (LATEST, BY_TIME, *HISTORIES[:3]):
        return record.key
    return None if record.value in (None, BAD) else (json.loads(record.value or b"").get("city") or None)


@dataclass
class World:
    """A lake, what was done to it, and the records that each table has at each tick."""

    spark: SparkSession
    layout: Layout
    random: Random
    tick: int = 0
    sent: list[Record] = field(default_factory=list)
    came: list[Record] = field(default_factory=list)
    has: dict[str, dict[int, list[Record]]] = field(default_factory=lambda: {table.name: {} for table in APP.tables})

    def remember(self, table: Table, tick: int, records: list[Record]) -> None:
        for other in APP.tables:
            self.has[other.name][tick] = records if other == table else self.of(other)
        self.tick = tick

    def of(self, table: Table, tick: int | None = None) -> list[Record]:
        return self.has[table.name].get(self.tick if tick is None else tick, [])

    def add(self, records: list[Record]) -> None:
        """One more tick."""
        from lakehouse.run.scenario.replay import write_bronze

        tick = self.tick + 1
        more = [replace(record, tick=tick) for record in records]
        assert write_bronze(open_lake(self.spark, self.layout), APP, more) == tick
        self.came += more
        for table in APP.tables:
            self.has[table.name][tick] = [*self.of(table), *more]
        self.tick = tick

    def catch_up(self) -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(open_lake(self.spark, self.layout), APP, lambda tick, count: None) as silver:
            silver.catch_up()

    def go_back(self, table: Table) -> None:
        from lakehouse.run.repair.backfill import revert
        from lakehouse.spark.history import reading

        tick = self.random.randint(1, self.tick)
        cut = reading.cut_at(open_lake(self.spark, self.layout).open(table), AtTick(tick))
        outcome = revert(open_lake(self.spark, self.layout).open(table), APP, cut)
        if outcome.tick is not None:
            assert outcome.tick == self.tick + 1
            self.remember(table, outcome.tick, self.of(table, tick))

    def fix(self) -> None:
        from lakehouse.run.repair.replay import replay
        from lakehouse.spark.history.fixed_records import FixedBytes

        bad = {(r.partition, r.offset): r for r in self.came if r.value == BAD and r.key}
        if not bad:
            return
        chosen = set(self.random.sample(sorted(bad), 1 + len(bad) // 2))
        fixes = [FixedBytes(bad[place].topic_id, *place, bad[place].key, FIXED) for place in sorted(chosen)]
        tick = replay(open_lake(self.spark, self.layout), APP, EVENTS.sources[0], fixes)
        assert tick == self.tick + 1
        self.came = [replace(r, value=FIXED) if (r.partition, r.offset) in chosen else r for r in self.came]
        for table in APP.tables:
            touched = {group(table, r) for r in self.came if (r.partition, r.offset) in chosen}
            has = {(r.partition, r.offset) for r in self.of(table)}
            self.has[table.name][tick] = [
                r for r in self.came if (r.partition, r.offset) in has or group(table, r) in touched
            ]
        self.tick = tick

    def make_anew(self, table: Table) -> None:
        from lakehouse.run.repair.backfill import backfill

        outcome = backfill(open_lake(self.spark, self.layout).open(table), APP)
        assert outcome.differing.equal, (table.name, outcome)
        assert outcome.tick is None

    def upkeep(self) -> None:
        from lakehouse.spark.silver.upkeep import UpkeepPolicy, upkeep_bronze, upkeep_table

        policy = UpkeepPolicy(2, 7 * 86_400_000, 0, None, False)
        for table in self.random.sample(APP.tables, 2):
            upkeep_table(open_lake(self.spark, self.layout).open(table), policy, datetime.now(UTC), None)
        upkeep_bronze(open_lake(self.spark, self.layout), (), policy)

    def moments(self, table: Table) -> list[tuple[At, list[Record], int | None]]:
        """Moments of each clock, the records that count, and the event time up to which they do."""
        records = self.of(table)
        ticks = self.random.sample(range(1, self.tick + 1), 2)
        result: list[tuple[At, list[Record], int | None]] = [
            (AtTick(tick), self.of(table, tick), None) for tick in ticks
        ]
        version = self.random.choice([v for v in History(self.layout, table.name) if v.tick])
        assert version.tick is not None
        result.append((AtCommit(version.time_ms), self.of(table, version.tick), None))
        ends = {r.partition: r.offset + 1 for t in APP.tables for r in sorted(self.of(t), key=lambda r: r.offset)}
        ends = {p: max(end, *(r.offset + 1 for r in self.sent if r.partition == p)) for p, end in ends.items()}
        bounds = {partition: self.random.randint(0, end) for partition, end in ends.items()}
        result.append((AtOffsets({"events": bounds}), [r for r in records if r.offset < bounds[r.partition]], None))
        until = self.random.choice(self.sent).timestamp
        return [*result, (AtEvent(until), records, until)]

    def check(self) -> None:
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history import reading

        for table in APP.tables:
            for at, records, until in self.moments(table):
                expected = model.run(App((table,), (), APP.sources), records, decode_record, until)
                frame = reading.read_rows(open_lake(self.spark, self.layout).open(table), at)
                result = rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))
                assert result == expected.tables[table.name], f"{table.name} at {at}"


def run(spark: SparkSession, folder: Path, seed: int) -> None:
    from lakehouse.lake.layout import Layout

    world = World(spark, Layout(str(folder)), Random(seed))
    world.sent = history(seed, 120, PARTS)
    back = world.random.choice(BACK)
    for part in range(1, PARTS + 1):
        world.add([record for record in world.sent if record.tick == part])
        if part in (1, 3, PARTS):
            world.catch_up()
        if part == 3:
            world.go_back(back)
            world.upkeep()
            world.fix()
    world.make_anew(world.random.choice([table for table in BACK if table != back]))
    world.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_a_read_equals_the_fold(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run(spark, tmp_path, seed)
