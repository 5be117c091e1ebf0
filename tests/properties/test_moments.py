"""A table at any moment of its past equals the model: at every tick, between versions too, at offsets, at event times.

The model gets the same records: those up to the tick, or before the offsets; or all of them, where it leaves out those
after the event time.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from tests.properties.test_operators import APP, STATEFUL, history
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(
    spark: SparkSession,
    folder: Path,
    app: App,
    records: list[Record],
    seed: int,
    batches: list[int],
    ticks: list[int],
) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.history import reading
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(folder))
    last = write_bronze(open_lake(spark, layout), app, records)
    with Silver(open_lake(spark, layout), app, lambda tick, count: None) as silver:
        for tick in (*batches, last):
            silver.catch_up(tick)
    for at, expected in moments(app, records, seed, ticks):
        for table in app.tables:
            frame = reading.read_rows(open_lake(spark, layout).open(table), at)
            result = rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))
            assert result == expected.tables[table.name], f"{table.name} at {at}"


def moments(app: App, records: list[Record], seed: int, ticks: list[int]) -> list[tuple[At, Result]]:
    random = Random(seed)
    made: list[tuple[At, Result]] = []
    for tick in ticks:
        made.append(
            (AtTick(tick), model.run(app, [record for record in records if record.tick <= tick], decode_record))
        )
    ends = {record.partition: record.offset + 1 for record in sorted(records, key=lambda record: record.offset)}
    bounds = {partition: random.randint(0, end) for partition, end in ends.items()}
    before = [record for record in records if record.offset < bounds[record.partition]]
    made.append((AtOffsets({records[0].topic: bounds}), model.run(app, before, decode_record)))
    until = random.choice(records).timestamp
    made.append((AtEvent(until), model.run(app, records, decode_record, until)))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_at_ticks_offsets_and_event_times(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """A tick that has a version, and one that has none: in the middle of a batch."""
    dice = Random(seed)
    version = dice.randint(1, 3)
    records = history(seed, 120, 5)
    check(spark, tmp_path / "windows", APP, records, seed, [version], [version, dice.randint(version + 1, 4)])
    check(spark, tmp_path / "stateful", STATEFUL, records, seed, [1, 3], [dice.choice([1, 3]), 2])
