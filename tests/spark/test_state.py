"""The state and the visible table are two commits: a writer that ended in between leaves the second one behind.

state     tick 1    2   X      the next writer brings the visible table to tick 2, then goes on
visible   tick 1        X
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint")
APP = lh.app(
    EVENTS.group_by("id").window(lh.tumbling("10 milliseconds")).agg(n=lh.count()).table("final", emit="final"),
    EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n")).having("n > 2").table("frequent"),
    EVENTS.latest("newest", order_by="rowtime"),
)
TIMES = [1, 3, 12, 15, 8, 31, 2, 44, 41]


class Ended(Exception):
    """The writer ended."""


def history() -> list[Record]:
    orders = order_times(TIMES)
    values = [None if n == 5 else f'{{"n": {n}}}'.encode() for n in range(len(TIMES))]
    return [
        Record("events", "id", 0, n, time, b"ab"[n % 2 :][:1], values[n], n // 3 + 1, orders[n])
        for n, time in enumerate(TIMES)
    ]


@pytest.mark.slow
def test_a_writer_that_ended_between_the_two_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import read_result, write_bronze
    from lakehouse.spark.silver.query import Silver
    from lakehouse.spark.silver.writer import SilverWriter

    layout = Layout(str(tmp_path / "lake"))
    last = write_bronze(open_lake(spark, layout), APP, history())
    show, ends = SilverWriter._update_visible, {2}

    def ending(writer: SilverWriter, to: int, *arguments: Any) -> None:
        if to in ends and writer.applied_tick < to:
            raise Ended
        show(writer, to, *arguments)

    monkeypatch.setattr(SilverWriter, "_update_visible", ending)
    with Silver(open_lake(spark, layout), APP, lambda tick, records: None) as silver:
        silver.catch_up(1)
        with pytest.raises(Ended):
            silver.catch_up(2)
    ends.clear()
    with Silver(open_lake(spark, layout), APP, lambda tick, records: None) as silver:
        silver.catch_up()
    actual, expected = (
        read_result(open_lake(spark, layout), APP, history(), last),
        model.run(APP, history(), decode_record),
    )
    assert actual.tables == expected.tables
    assert actual.changelogs == expected.changelogs
    assert actual.late == expected.late
