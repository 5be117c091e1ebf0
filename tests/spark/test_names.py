"""Users may give every name that lakehouse uses inside: the tables are those of the model."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.record import Record

from ..seeds import draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names of bronze's columns, of structs' fields, of aliases, of Arrow's columns, and words of SQL, in any letter case.
WORDS = """
    start END gone Time POSITION step key tick topic Offset partition timestamp value t s o g b m k r p at x f n h
    records bad late Order count horizon ordinals ordinal order_time topic_id reason headers image last first rows bytes
    part parts high middle low sum select where group table null_keys element item struct date interval
"""
NAMES = [word for line in WORDS.splitlines() for word in line.split()]
COLUMNS = [f"`{name}` int" for name in NAMES]
SUMMED = {name: lh.sum(f"`{name}`") for name in NAMES[:30]} | {name: lh.latest(f"`{name}`") for name in NAMES[30:]}
KEPT = {name: lh.collect_list(f"`{name}`") for name in NAMES[::2]}
KEPT |= {name: lh.count_distinct(f"`{name}`") for name in NAMES[1::2]}
del SUMMED["key"], KEPT["key"]  # the group has this name


def history() -> list[Record]:
    random, made = Random(draw()), []
    for number in range(30):
        row = {name: random.choice([1, 2, None]) for name in NAMES}
        data = None if number % 10 == 9 else b"bad" if number % 10 == 8 else json.dumps(row).encode()
        made.append(
            Record(
                "names", "id", 0, number, number * 400, str(number % 3).encode(), data, number // 10 + 1, number * 400
            )
        )
    return made


@pytest.mark.slow
def test_aggregates_and_columns_may_have_names_that_are_used_inside(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    names = lh.stream("names", key="id string", schema=", ".join(COLUMNS))
    by = names.group_by("start", "END", "`Time`", "t", "s", "tick")
    one = names.group_by("id AS key")
    app = lh.app(
        names.latest("latest"),
        names.rekey("start", "END", "o").latest("rekeyed", order_by="rowtime"),
        one.agg(**SUMMED).table("in_sql"),
        one.window(lh.tumbling("2 seconds")).agg(**SUMMED).table("tumbling", emit="final"),
        one.agg(**KEPT).having("`END` > 0 OR `count` IS NOT NULL").table("in_python"),
        one.window(lh.session("1 second")).agg(**KEPT).table("sessions"),
        by.agg(gone=lh.count(), position=lh.max("step"), step=lh.sum("`Order`")).table("by_names"),
        by.window(lh.sliding("1 second")).agg(gone=lh.count(), position=lh.collect_list("step")).table("sliding"),
        names.rename(t="u").cast(start="bigint").with_columns(p="s + 1").drop("k").latest("changed"),
    )  # fmt: skip
    records = history()
    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, tmp_path)(app, records)
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name
    assert len(result.quarantine["names"]) == 3


@pytest.mark.rotated
def test_columns_may_have_the_names_that_spark_gives_to_those_without_one(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    schema = "col2 bigint, col3 double"
    judged = lh.stream("numbers", key="col1 string", schema=schema).expect("positive", "col2 > 0")
    warned = lh.stream("numbers", key="col1 string", schema=schema, name="warned")
    warned = warned.expect("positive", "col2 > 0", otherwise="warn")
    counts = judged.group_by("col1").agg(col2=lh.count(), col3=lh.min("col3"), col4=lh.max("col3")).table("counts")
    app = lh.app(judged.latest("newest").history(), counts, counts.history(), warned.latest("all_of_them"))
    # The zero that comes first by its place is not the first that Spark reads.
    values = {(0, 0): (1, -0.0), (0, 1): (3, None), (1, 0): (2, 0.0), (1, 1): (-7, 1.0)}
    records = []
    for (partition, offset), (n, x) in values.items():
        time, data = 20 - 10 * partition, json.dumps({"col2": n, "col3": x}).encode()
        records.append(Record("numbers", "id", partition, offset, time, b"a", data, 1, time))
    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, tmp_path)(app, records)
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name
    assert repr(result.tables["counts"]) == repr(expected.tables["counts"]), "the zero that came first, with its sign"
    ((_, reason),) = result.quarantine["numbers"]
    assert reason == "expectation positive: col2 > 0, found -7"


@pytest.mark.slow
def test_what_is_made_of_rows_may_have_names_that_are_used_inside(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    names = ("there", "values", "time", "undo", "left", "right", "at", "m", "when", "number")
    schema = ", ".join(["b string", *[f"`{name}` int" for name in names]])
    one = lh.stream("one", key="half string", schema=schema).latest("one")
    other = lh.stream("other", key="half string", schema=schema).latest("other")
    app = lh.app(
        one.join(other, on="b", how="left", prefix="o_").table("referring"),
        one.join(other, how="outer", prefix="o_").table("joined"),
        one.group_by("`left`", "b AS half").agg(undo=lh.sum("`values`"), there=lh.collect_list("time")).table("sums"),
    )
    random, made = Random(draw()), []
    for number in range(30):
        topic = "one" if number % 2 else "other"
        row = {"b": random.choice("xy"), **{name: random.choice([1, 2, None]) for name in names}}
        data = None if number % 9 == 8 else json.dumps(row).encode()
        key, tick = random.choice("xy").encode(), number // 15 + 1
        made.append(Record(topic, topic, 0, number, number * 400, key, data, tick, number * 400))
    expected = model.run(app, made, decode_record)
    result = SparkReplay(spark, tmp_path)(app, made)
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name
