"""New logic at a drawn tick, over tables of all kinds: no read and no change mixes rows of two declarations.

A history of records is taken in by one application, then by another one with the same tables and other logic, then by
the first again. When and in what batches is drawn, also how far the tables are behind bronze when the logic changes.
The oracle is the model: at each tick a table is what the application of that time gives of all records up to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import AtTick
from lakehouse.semantics.record import Record
from tests.properties.test_operators import SCHEMA, history
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout
    from lakehouse.spark.open_lake import OpenLake

TICKS = 8


def application(condition: str, number: str, millis: int, having: int) -> App:
    """Tables of all kinds, over the records for which a condition holds; in the others the number is computed."""
    events = lh.stream("events", key="id string", schema=SCHEMA).filter(condition).with_columns(n=number)
    by_city = events.group_by("city")
    rows = events.latest("rows")
    sums = by_city.agg(n=lh.count(), total=lh.sum("n"), all=lh.collect_list("n")).table("sums")
    windowed = by_city.window(lh.tumbling(f"{millis} milliseconds", grace="9 milliseconds"))
    sessions = by_city.window(lh.session(f"{millis} milliseconds", grace="3 milliseconds")).agg(n=lh.count())
    return lh.app(
        rows,
        sums,
        events.latest("by_time", order_by="rowtime"),
        windowed.agg(n=lh.count(), most=lh.max("n")).table("windows", retention="40 milliseconds"),
        windowed.agg(n=lh.count()).table("final", emit="final"),
        sessions.table("sessions"),
        by_city.agg(n=lh.count()).having(f"n > {having}").table("many"),
        rows.group_by("city").agg(n=lh.count(), total=lh.sum("n")).table("of_rows"),
        rows.filter("n > 0").table("positive"),
        events.join(sums, on="city", how="left", prefix="so_far_").select("n", "so_far_total").latest("looked_up"),
        sums.to_stream().group_by("city").agg(changes=lh.count(), most=lh.max("total")).table("steps"),
        rows.join(sums, on="city", how="left", prefix="city_").select("n", "city_total").table("joined"),
        events.latest("followed").history(),
    )


OLD = application("true", "n", 5, 1)
NEW = application("n IS NULL OR n <> 2", "n * 10", 7, 2)
# The second one leaves the first level as it is.
LOWER = application("true", "n", 5, 3)


@dataclass
class World:
    """A lake, its records, and which application had a table at which tick."""

    spark: SparkSession
    layout: Layout
    dice: Random
    tick: int = 0
    records: list[Record] = field(default_factory=list)
    app: App = OLD
    # The ticks at which the present application's tables began, and which they have. eras: of earlier applications.
    began: int = 1
    applied: int = 0
    eras: list[tuple[int, int, App]] = field(default_factory=list)

    @property
    def lake(self) -> OpenLake:
        from lakehouse.spark.changelog.upstream import open_lake

        return open_lake(self.spark, self.layout)

    def add(self, records: list[Record]) -> None:
        from lakehouse.run.scenario.replay import write_bronze

        self.tick += 1
        more = [replace(record, tick=self.tick) for record in records]
        assert write_bronze(self.lake, OLD, more) == self.tick
        self.records += more

    def catch_up(self) -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(self.lake, self.app, lambda tick, count: None) as silver:
            silver.catch_up(self.dice.choice([None, self.dice.randint(self.applied, self.tick)]))
            silver.catch_up()
        self.applied = self.tick

    def deploy(self, app: App) -> list[str]:
        """Deploy an application; return the names of its tables that were swapped."""
        from lakehouse.run.deploy.deployment import plan_deployment
        from lakehouse.run.repair.carry_out import carry_out

        if self.dice.random() < 0.5:
            plan_deployment(self.lake, app, "drawn")  # staged, and behind when it is promoted
            if self.dice.random() < 0.5:
                self.catch_up()
        before, old_app, old_tick = self.all_rows(), self.app, self.applied
        done = carry_out(self.lake, app, plan_deployment(self.lake, app, "drawn"))
        assert (done.tick, done.before) == (self.tick + 1, self.tick)
        self.eras.append((self.began, old_tick, old_app))
        self.began = self.applied = self.tick = done.tick
        self.app = app
        for table in app.tables:
            # Windows expire without a change, and a history has no changes per event.
            if table.name in done.differing and table.name != "windows" and not table.is_history:
                self.check_step(table, old_tick, before[table.name])
        return list(done.differing)

    def rows(self, table: Table, tick: int | None = None) -> dict[Any, Any]:
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history import reading

        frame = reading.read_rows(self.lake.open(table), None if tick is None else AtTick(tick))
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    def all_rows(self) -> dict[str, dict[Any, Any]]:
        return {table.name: self.rows(table) for table in self.app.tables}

    def expected(self, app: App, tick: int) -> dict[str, dict[Any, Any]]:
        records = [record for record in self.records if record.tick <= tick]
        return dict(model.run(app, records, decode_record).tables)

    def check_step(self, table: Table, old_tick: int, before: dict[Any, Any]) -> None:
        """Applied to the rows before, the changes since a table's last tick give its rows now."""
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.changelog import changefeed, published

        rows = dict(before)
        for row in published.rows_of_frame(changefeed.per_event(self.lake.open(table), old_tick, self.tick)):
            ((key, value),) = rows_of(table, [row]).items()
            if row["_tombstone"]:
                rows.pop(key, None)
            else:
                rows[key] = value
        assert rows == self.rows(table), f"changes of {table.name} from tick {old_tick} to {self.tick}"

    def check(self) -> None:
        """Compare the tables now and folded from bronze alone, and some of them at every tick."""
        from lakehouse.lake.moment.cut import Cut
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history.moments import Past

        now = self.expected(self.app, self.tick)
        for table in self.app.tables:
            assert self.rows(table) == now[table.name], f"{table.name} now"
            frame = Past(self.lake.open(table), anchored=False).visible_rows(Cut(self.tick))
            folded = rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))
            assert folded == now[table.name], f"{table.name} from bronze"
        for first, last, app in [*self.eras, (self.began, self.applied, self.app)]:
            for tick in range(first, last + 1):
                expected = self.expected(app, tick)
                for table in self.dice.sample(app.tables, 3):
                    try:
                        found = self.rows(table, tick)
                    except NotFound:
                        continue  # between two versions of earlier logic
                    assert found == expected[table.name], f"{table.name} at tick {tick}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_no_rows_of_two_declarations_are_mixed(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from lakehouse.lake.layout import Layout

    world = World(spark, Layout(str(tmp_path / "lake")), Random(seed))
    records = history(seed, 120, TICKS)
    parts = [[record for record in records if record.tick == tick] for tick in range(1, TICKS + 1)]
    changes = sorted(world.dice.sample(range(2, TICKS), 2))
    second = world.dice.choice([OLD, LOWER])
    for number, part in enumerate(parts, 1):
        world.add(part)
        if number in changes:
            if world.dice.random() < 0.6:
                world.catch_up()
            swapped = world.deploy(NEW if number == changes[0] else second)
            assert swapped == [table.name for table in NEW.tables], "all depend on the first level's logic"
        elif world.dice.random() < 0.6 or number + 1 in changes[:1]:
            world.catch_up()
    world.catch_up()
    if second is LOWER:
        assert world.deploy(OLD) == ["many"]
        world.catch_up()
    world.check()
