"""A database at a position of its log: the tables that transactions left which had committed by then."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import NotFound
from lakehouse.plan.databases.debezium import list_change_logs
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.spark.history.database_position import offsets_at_position
from tests.bench import Bench
from tests.database import APP, TABLES, columns, connect
from tests.seeds import DRAWN, draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("seed", "positions"),
    [pytest.param(draw(), 1, id=DRAWN), pytest.param(draw(), 30, id=f"many-{DRAWN}", marks=pytest.mark.slow)],
)
def test_tables_at_a_position_are_the_database_then(
    spark: SparkSession, tmp_path: Path, seed: int, positions: int
) -> None:
    random = Random(seed)
    connector = connect(seed, 100 + 100 * positions, sends_large=seed % 2 == 0)
    database, ticks = connector.database, 2 * positions
    records = connector.records(ticks)
    bench = Bench(spark, tmp_path)
    write_bronze(bench.lake, APP, records)
    bench.catch_up(APP, ticks)
    sources = list_change_logs(TABLES.values())
    streamed = [change for change in database.log if change.commit > database.snapshot]
    commits = sorted({change.commit for change in streamed})
    unclear = 0
    for position in [
        *random.sample(commits[:-1], positions), *random.sample(range(database.snapshot, commits[-2]), positions)
    ]:  # fmt: skip
        text = f"{position >> 32:X}/{position & 0xFFFFFFFF:x}"
        known = max((change.before or 0 for change in streamed if (change.before or 0) <= position), default=0)
        last_place = max((change.lsn for change in streamed if change.before == known), default=position)
        if known < position and last_place < position:  # it commits later than both, and nobody knows when
            with pytest.raises(NotFound, match="don't say whether"):
                offsets_at_position(bench.lake, sources, text, ticks)
            unclear += 1
            continue
        moment = offsets_at_position(bench.lake, sources, text, ticks)
        expected = columns(database.at(position))
        for name, table in TABLES.items():
            assert bench.rows(table, moment) == expected[name], (name, position)
    assert positions == 1 or unclear < 2 * positions
