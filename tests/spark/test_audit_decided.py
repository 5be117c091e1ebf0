"""The audit tells the truth after what people decide: backfills with new logic, reverts, fixed records. Slow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.audit.missing import KafkaAccess
from lakehouse.semantics.moment import AtOffsets, AtTick
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout
    from lakehouse.run.audit.finding import Audit

pytestmark = pytest.mark.slow

NOBODY = KafkaAccess(None, {}, "nobody was asked")
EVENTS = lh.stream("events", key="id string", schema="n bigint")
TUMBLING = lh.tumbling("10 milliseconds", grace="0 seconds")
BAD = b'{"n": "bad"}'


def hourly(stream: Any, **options: Any) -> Table:
    return stream.group_by("id").window(TUMBLING).agg(n=lh.count(), total=lh.sum("n")).table("hourly", **options)


def record(number: int, key: str, time: int, value: bytes | None, tick: int, order: int) -> Record:
    return Record("events", "id", 0, number, time, key.encode(), value, tick, order)


def history(times: list[tuple[str, int]], bad: tuple[int, ...] = (), first: int = 0, tick: int = 1) -> list[Record]:
    """Three records a tick; n is the record's offset."""
    orders = order_times([time for _, time in times])
    return [
        record(first + n, key, time, BAD if n in bad else json.dumps({"n": first + n}).encode(), n // 3 + tick, order)
        for n, ((key, time), order) in enumerate(zip(times, orders, strict=True))
    ]


class Bench:
    """A lake with one table of the stream, under any declaration."""

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self.spark, self.layout = spark, layout

    @property
    def lake(self) -> OpenLake:
        return open_lake(self.spark, self.layout)

    def write(self, table: Table, records: list[Record]) -> None:
        from lakehouse.run.scenario.replay import write_bronze

        write_bronze(self.lake, lh.app(table), records)

    def catch_up(self, table: Table) -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(self.lake, lh.app(table), lambda tick, records: None) as silver:
            silver.catch_up()

    def audit(self, table: Table, app: App | None = None) -> Audit:
        """A deep audit; it must pass, whatever was decided."""
        from lakehouse.run.audit.audit import audit

        outcome = audit(self.lake.open(table), app or lh.app(table), NOBODY, deep=True)
        assert [problem.found for problem in outcome.problems] == []
        return outcome

    def late(self, table: Table) -> list[tuple[int, int]]:
        """The present late records: offset, and the window's start in milliseconds."""
        rows = self.spark.read.format("delta").load(self.layout.late(table.name))
        return sorted((row[0], row[1]) for row in rows.selectExpr("offset", "unix_millis(window_start)").collect())

    def revert(self, table: Table, moment: int | AtOffsets) -> int:
        """Take a table back to a tick, or to offsets."""
        from lakehouse.run.repair.backfill import revert
        from lakehouse.spark.history import reading

        cut = reading.cut_at(self.lake.open(table), AtTick(moment) if isinstance(moment, int) else moment)
        done = revert(self.lake.open(table), lh.app(table), cut).tick
        assert done is not None
        return done

    def fix(self, table: Table, *numbers: int, key: str = "a", n: int = 7, instead: bool = False) -> int | None:
        from lakehouse.run.repair.replay import replay
        from lakehouse.spark.history.fixed_records import FixedBytes

        value = json.dumps({"n": n}).encode()
        fixes = [FixedBytes("id", 0, number, key.encode(), value) for number in numbers]
        return replay(self.lake, lh.app(table), table.stream.sources[0], fixes, instead=instead)

    def rows(self, table: Table) -> dict[str, Any]:
        result = self.lake.read(self.layout.silver(table.name)).collect()
        return {row["id"]: row["n"] for row in result}


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    from lakehouse.lake.layout import Layout

    return Bench(spark, Layout(str(tmp_path / "lake")))


# 25 closes [0, 10) and [10, 20), so offsets 3, 4 and 6 are late; 7 closes [20, 30), so 8 is.
LATE = [("a", 1), ("b", 12), ("a", 25), ("a", 5), ("b", 6), ("a", 27), ("b", 15), ("a", 41), ("a", 28)]


def test_a_backfill_with_new_logic_replaces_the_late_records(bench: Bench) -> None:
    from lakehouse.lake.moment import rows_at
    from lakehouse.run.repair.backfill import backfill
    from lakehouse.run.repair.correct import correct

    old, new = hourly(EVENTS), hourly(EVENTS.filter("n % 2 = 0"))
    bench.write(old, history(LATE, bad=(0,)))
    bench.catch_up(old)
    assert bench.late(old) == [(3, 0), (4, 0), (6, 10), (8, 20)]
    assert bench.audit(old).fates == {"applied": 4, "late": 4, "quarantined": 1}
    assert correct(bench.lake.open(old), lh.app(old), key="b").tick == 4
    assert bench.audit(old).fates == {"applied": 4, "taken_in": 2, "late": 2, "quarantined": 1}

    outcome = backfill(bench.lake.open(new), lh.app(new))
    assert (outcome.tick, outcome.changed) == (5, True)
    assert bench.late(new) == [(4, 0), (6, 10)], "8 is in time: what made it late is left out"
    assert bench.audit(new).fates == {"applied": 2, "taken_in": 2, "quarantined": 1, "left_out": 4}
    then = rows_at.rows_at(bench.layout, "late", "hourly", AtTick(4)).to_table()
    assert sorted(then["offset"].to_pylist()) == [3, 4, 6, 8], "the table at the tick before is the one without it"

    wide = EVENTS.group_by("id").window(lh.tumbling("10 milliseconds", grace="1 hour"))
    loose = wide.agg(n=lh.count(), total=lh.sum("n")).table("hourly")
    assert backfill(bench.lake.open(loose), lh.app(loose)).tick == 6
    assert bench.late(loose) == [], "nothing is late now"
    assert bench.audit(loose).fates == {"applied": 8, "quarantined": 1}, "what was taken in came in time"
    bench.write(loose, history([("a", 3), ("b", 61)], first=9, tick=7))
    bench.catch_up(loose)
    assert bench.audit(loose).fates == {"applied": 10, "quarantined": 1}


def test_a_backfill_under_a_new_schema_replaces_the_quarantine(bench: Bench) -> None:
    """`note` was a number, and texts in it were bad; now it is text, and a number in `n` must be small."""
    from lakehouse.run.repair.backfill import backfill

    def counts(schema: str) -> Table:
        return lh.stream("events", key="id string", schema=schema).group_by("id").agg(n=lh.count()).table("counts")

    old, new = counts("n bigint, note int"), counts("n tinyint, note string")
    values = [{"n": 1}, {"n": 2, "note": "text"}, {"n": 300}, {"n": 4, "note": 5}, {"n": 500, "note": "x"}]
    bench.write(old, [record(n, "a", n, json.dumps(value).encode(), n // 2 + 1, n) for n, value in enumerate(values)])
    bench.catch_up(old)
    assert bench.audit(old).fates == {"applied": 3, "quarantined": 2}
    assert backfill(bench.lake.open(new), lh.app(new)).tick == 4
    assert bench.audit(new).fates == {"applied": 3, "quarantined": 2}
    rows = bench.spark.read.format("delta").load(bench.layout.quarantine("events")).collect()
    assert sorted(row["offset"] for row in rows) == [2, 4]


@pytest.mark.parametrize("order", [None, "n"])
def test_after_a_revert_the_records_behind_rows_are_current(bench: Bench, order: str | None) -> None:
    table = EVENTS.latest("last", order_by=order)
    bench.write(table, history([("a", 1), ("b", 2), ("c", 3), ("a", 4), ("b", 5), ("d", 6)]))
    bench.catch_up(table)
    assert bench.audit(table).fates == {"current": 4, "superseded": 2}
    assert bench.revert(table, 1) == 3
    assert bench.audit(table).fates == {"current": 3, "taken_back": 3}
    bench.write(table, history([("a", 7), ("d", 8)], first=6, tick=4))
    bench.catch_up(table)
    assert bench.audit(table).fates == {"current": 4, "superseded": 1, "taken_back": 3}
    bench.spark.sql(f"DELETE FROM delta.`{bench.layout.silver('last')}` WHERE id = 'd'")
    from lakehouse.run.audit.audit import audit

    lost = audit(bench.lake.open(table), lh.app(table), NOBODY)
    assert "are the last of their keys" in lost.problems[0].found


SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")


def test_a_revert_by_offsets_keeps_what_an_earlier_topic_of_the_name_had(bench: Bench) -> None:
    """The offsets are those of the topic that was made again: larger ones of the earlier topic lie before them."""
    earlier = history([("a", 1), ("a", 2), ("b", 3), ("b", 4)])
    later = [replace(item, topic_id="again") for item in history([("a", 5), ("a", 6), ("c", 7)], tick=3)]
    bench.write(SUMS, earlier)
    bench.write(SUMS, later)
    bench.catch_up(SUMS)
    assert bench.audit(SUMS).fates == {"applied": 7}
    assert bench.revert(SUMS, AtOffsets({"events": {0: 1}})) == 4
    assert bench.rows(SUMS) == {"a": 3, "b": 2}
    assert bench.audit(SUMS).fates == {"applied": 5, "taken_back": 2}


def test_a_fix_may_be_taken_back_and_repeated_with_other_bytes(bench: Bench) -> None:
    """Offsets 1 and 4 are bad; the first is fixed for `a`, then taken back, then for `b`, then for `a` again."""
    from lakehouse.errors import PlanError
    from lakehouse.run.repair.backfill import backfill

    bench.write(SUMS, history([("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)], bad=(1, 4)))
    bench.catch_up(SUMS)
    assert bench.rows(SUMS) == {"a": 2, "b": 1}
    assert bench.fix(SUMS, 1) == 3
    assert bench.rows(SUMS) == {"a": 3, "b": 1}
    assert bench.audit(SUMS).fates == {"applied": 3, "fixed": 1, "quarantined": 1}
    with pytest.raises(PlanError, match=r"was fixed before; --open or --again leaves such out, --instead"):
        bench.fix(SUMS, 1, key="b")
    assert bench.fix(SUMS, 1, key="b", instead=True) == 4
    assert bench.rows(SUMS) == {"a": 2, "b": 2}, "it counts once, where it belongs now"
    bench.audit(SUMS)
    with pytest.raises(PlanError, match="was fixed before; with these bytes"):
        bench.fix(SUMS, 1, key="b", instead=True)

    assert bench.revert(SUMS, 2) == 5
    assert bench.rows(SUMS) == {"a": 2, "b": 1}
    assert bench.audit(SUMS).fates == {"applied": 3, "quarantined": 2}, "both are open again"
    assert bench.fix(SUMS, 1, 4) == 6
    assert bench.rows(SUMS) == {"a": 4, "b": 1}
    assert bench.audit(SUMS).fates == {"applied": 3, "fixed": 2}
    assert backfill(bench.lake.open(SUMS), lh.app(SUMS)).tick is None, "bronze and the interventions say so"
    bench.write(SUMS, history([("b", 6)], first=5, tick=7))
    bench.catch_up(SUMS)
    assert bench.audit(SUMS).fates == {"applied": 4, "fixed": 2}
    assert bench.revert(SUMS, 1) == 8
    assert bench.audit(SUMS).fates == {"applied": 2, "taken_back": 2, "quarantined": 2}
    wrong = backfill(bench.lake.open(SUMS), lh.app(SUMS))
    assert wrong.tick == 9
    assert bench.audit(SUMS).fates == {"applied": 4, "fixed": 2}, "made from bronze it has its fixes again"


def test_audits_are_right_for_every_kind_of_table_after_fix_revert_and_correction(bench: Bench) -> None:
    """Several tables over one history: each goes through a fix, a revert of the fix, and a backfill."""
    from lakehouse.run.repair.backfill import backfill
    from lakehouse.run.repair.correct import correct
    from lakehouse.spark.bronze.interventions import read_interventions

    by_id = EVENTS.group_by("id")
    tables = [
        hourly(EVENTS),
        by_id.window(TUMBLING).agg(n=lh.count()).having("n > 1").table("busy", emit="final"),
        by_id.agg(n=lh.count()).having("n > 1").table("often"),
        EVENTS.latest("newest", order_by="rowtime"),
    ]
    app = lh.app(*tables)
    bench.write(tables[0], history([*LATE[:4], ("a", 2), *LATE[4:]], bad=(0, 5)))
    from lakehouse.run.repair.intervene import Why
    from lakehouse.run.repair.replay import replay
    from lakehouse.spark.history.fixed_records import FixedBytes
    from lakehouse.spark.silver.query import Silver

    with Silver(bench.lake, app, lambda tick, records: None) as silver:
        silver.catch_up()
    value = json.dumps({"n": 7}).encode()
    at = replay(bench.lake, app, EVENTS.sources[0], [FixedBytes("id", 0, 0, b"a", value)], why=Why(by="ann"))
    assert at == 5
    for table in tables:
        assert bench.audit(table, app).fates.get("quarantined", 0) == 1, table.name
        assert read_interventions(bench.lake, table.name)[-1].by.startswith("ann (user ")
    assert correct(bench.lake.open(tables[0]), app).tick == 6
    assert bench.audit(tables[0], app).fates["taken_in"] >= 3
    for table in tables:
        bench.revert(table, 1)
        actual = bench.audit(table, app).fates
        assert (actual["quarantined"], actual.get("taken_in", 0)) == (2, 0), (table.name, actual)
    for table in tables:
        outcome = backfill(bench.lake.open(table), app)
        assert outcome.tick is not None, table.name
        assert bench.audit(table, app).fates["quarantined"] == 1, table.name


def test_a_killed_swap_is_applied_whole_by_the_next_writer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the late records and before the table; then the tables beside the live ones are removed, too."""
    from lakehouse.errors import PlanError
    from lakehouse.run.repair.backfill import backfill
    from lakehouse.spark.jvm import folders

    old, new = hourly(EVENTS), hourly(EVENTS.filter("n % 2 = 0"))
    bench.write(old, history(LATE, bad=(0,)))
    bench.catch_up(old)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.spark.silver.writer.hold_with_bounds", killed)
        with pytest.raises(KeyboardInterrupt):
            backfill(bench.lake.open(new), lh.app(new))
    assert bench.late(new) == [(4, 0), (6, 10)], "they come before the table"
    with pytest.raises(PlanError, match="will be swapped at tick 4, and is at tick 3"):
        bench.audit(new)
    folders.remove_folder(bench.spark, f"{bench.layout.root}/beside/hourly")
    bench.catch_up(new)
    assert bench.audit(new).fates == {"applied": 2, "late": 2, "quarantined": 1, "left_out": 4}
    assert not Path(bench.layout.root, "beside", "hourly-again").exists()
