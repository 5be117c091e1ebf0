"""A chain six deep on real Spark and Delta is the model's at every tick: in batches, broken off halfway, in processes.

tick          1 2 3   4 5      6 7 8
high, placed  =====   ===      =====
sums          =====   failed   .....
by_rows, told =====            .....   another process, which has nothing of what was held
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import read_result, write_bronze
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.silver import writer

from ..bench import Bench
from ..chain import APP, SUMS
from ..conftest import PLANS
from ..rows_meeting import records

WHOLE, HALF, LAST = 3, 5, 8  # the ticks of the batches; the second one breaks off when half of the tables have it
IN_ANOTHER = f"""
import sys
from pathlib import Path
from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session
from tests.bench import Bench
from tests.chain import APP
Bench(open_session(load()), Path(sys.argv[1])).catch_up(APP, {LAST})
"""
OPTIONS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"} | PLANS["as they are"]


@pytest.mark.slow
def test_a_chain_is_the_models_at_every_tick(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = records(17, 160, LAST, "opqrstuvwxyz")
    expected = model.run(APP, sent, decode_record).changelogs
    for name, changelog in expected.items():
        assert len({change.position.tick for change in changelog}) > 5, name
    at = {
        tick: model.run(APP, [r for r in sent if r.tick <= tick], decode_record).tables for tick in range(1, LAST + 1)
    }
    bench = Bench(spark, tmp_path)
    write_bronze(bench.lake, APP, sent)
    bench.catch_up(APP, WHOLE)
    merge = writer.merge_batch

    def failing(session: SparkSession, path: str, *arguments: Any, **named: Any) -> None:
        if path.endswith(f"/{SUMS.name}"):
            raise RuntimeError("broken off")
        merge(session, path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(writer, "merge_batch", failing)
        with pytest.raises(Exception, match="broken off"):
            bench.catch_up(APP, HALF)
    # Half of the chain is ahead. At the tick that all of it has, nothing of that is seen.
    assert Lake(bench.layout.root).tick(*APP.tables) == WHOLE
    assert bench.rows(APP.table("placed")) == at[HALF]["placed"] != at[WHOLE]["placed"]
    for table in APP.tables:
        assert bench.rows(table, AtTick(WHOLE)) == at[WHOLE][table.name], table.name

    environ = os.environ | {"LAKEHOUSE_SPARK_OPTIONS": json.dumps(OPTIONS)}
    another = [sys.executable, "-c", IN_ANOTHER, str(tmp_path)]
    subprocess.run(another, cwd=Path(__file__).parents[2], env=environ, check=True)
    actual = read_result(bench.lake, APP, sent, LAST)
    for table in APP.tables:
        assert actual.changelogs[table.name] == expected[table.name], table.name
        for tick, tables in at.items():
            assert folded(actual.changelogs[table.name], tick) == tables[table.name], f"{table.name} at {tick}"
        assert actual.tables[table.name] == at[LAST][table.name], table.name
        # Half of the tables have a version of this tick, the others are folded from the one before it.
        assert bench.rows(table, AtTick(HALF)) == at[HALF][table.name], table.name


def folded(changelog: list[Change], tick: int) -> dict[Any, Any]:
    """The rows that a changelog makes up to a tick."""
    rows = {change.key: change.value for change in changelog if change.position.tick <= tick}
    return {key: value for key, value in rows.items() if value is not None}
