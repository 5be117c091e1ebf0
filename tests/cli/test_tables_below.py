"""What commands without Spark say about tables that read tables. The lakes are written without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.lake.commit_metadata import RecordCounts
from lakehouse.plan.evolution.change import declaration_properties
from lakehouse.run.start.application import load_app

from ..written_commits import batch
from .written import WrittenLake

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="user string, n bigint")
names = lh.stream("names", key="user string", schema="city string, n bigint")
place = names{filter}.latest("place")
joined = orders.join(place, on="user", prefix="of_")
cities = joined.group_by("of_city").agg(n=lh.count()).table("cities")
sizes = cities.to_stream().latest("sizes")
moves = place.to_stream().group_by("city").agg(n=lh.count()).table("moves")
alone = orders.latest("alone")
app = lh.app(sizes, moves, alone)
"""


@pytest.fixture
def lake(folder: Path) -> WrittenLake:
    """Three orders at tick 1, one name at tick 2; all tables are at tick 2, and declared as in app.py."""
    declare(folder)
    lake = WrittenLake(folder / "lake")
    lake.tick(1, *[("orders", str(n), 0, n, "v") for n in range(3)])
    lake.tick(2, ("names", "ann", 0, 10, "v"))
    for table in load_app(str(folder / "app.py")).tables:
        lake.rows(table.name, 2, topic="orders", content=batch(counts=RecordCounts(4)))
        place = DeltaTable(folder / "lake" / "silver" / table.name)
        place.alter.set_table_properties(declaration_properties(table), raise_if_not_exists=False)
    return lake


def declare(folder: Path, filter: str = "") -> None:
    (folder / "app.py").write_text(APP.format(filter=filter))


def decide(lake: WrittenLake, table: str, at: int) -> None:
    """An intervention in a table, at a tick of its own."""
    lake.tick(at)
    write_deltalake(lake.root / "interventions" / "log", pa.table({"table": [table], "at": [at]}), mode="append")


def behind(lakehouse: Any) -> dict[str, int]:
    result = json.loads(lakehouse("status", "--json").out)
    return {table["name"]: table["behind"] for table in result["tables"]}


def problems(lakehouse: Any) -> list[str]:
    return list(json.loads(lakehouse("check", "app.py").out)["problems"])


def test_a_table_is_behind_when_a_table_that_it_reads_has_records(lake: WrittenLake, lakehouse: Any) -> None:
    assert set(behind(lakehouse).values()) == {0}
    lake.tick(3, ("names", "bob", 0, 20, "v"))
    assert behind(lakehouse) == {"alone": 0, "place": 1, "cities": 1, "sizes": 1, "moves": 1}


def test_a_table_is_behind_when_somebody_intervened_in_a_table_that_it_reads(lake: WrittenLake, lakehouse: Any) -> None:
    decide(lake, "place", 3)
    assert behind(lakehouse) == {"alone": 0, "place": 1, "cities": 1, "sizes": 1, "moves": 1}
    assert [text for text in problems(lakehouse) if text.startswith("table sizes")] == [
        "table sizes: is at tick 2, somebody intervened in it, or in one of the tables that it reads (cities, "
        "place), at tick 3; run silver"
    ]


def test_records_from_other_tables_are_not_compared_with_the_topics(lake: WrittenLake, lakehouse: Any) -> None:
    """A table's changes are records for its readers, and a joined stream has fewer records than its topics."""
    assert problems(lakehouse) == [
        "table place: its commits say that they saw 4 records, its topics have 1 in bronze",
        "table alone: its commits say that they saw 4 records, its topics have 3 in bronze",
    ]


def test_a_plan_names_the_tables_below_a_changed_one(lake: WrittenLake, folder: Path, lakehouse: Any) -> None:
    # A backfill is promised only for a table with these columns.
    columns = pa.schema({"user": pa.string(), "city": pa.string(), "n": pa.int64()})
    place = folder / "lake" / "silver" / "place"
    write_deltalake(place, columns.empty_table(), mode="overwrite", schema_mode="overwrite")
    declare(folder, filter='.filter("n > 1")')
    actual = lakehouse("plan", "app.py", "--json")
    assert actual.code == 1
    tables = {of["table"]: of for of in json.loads(actual.out)["tables"]}
    assert {name: of["change"] for name, of in tables.items()} == {
        "place": "refold", "cities": "same", "sizes": "same", "moves": "same", "alone": "same",
    }  # fmt: skip
    assert {name: of["read_by"] for name, of in tables.items() if "read_by" in of} == {
        "place": ["cities", "sizes", "moves"], "cities": ["sizes"],
    }  # fmt: skip
    text = " ".join(lakehouse("plan", "app.py").out.split())
    assert (
        "table 'place' is read by cities, sizes, moves. A backfill of place reaches them as changes of its rows; what "
        "they had looked up or counted before stays. `lakehouse deploy plan` gives all of them the new logic at one "
        "tick; or backfill them afterwards, in this order." in text
    )
    assert "table 'cities' is read by" not in text, "its rows are made as before"
    declare(folder)
    assert "is read by" not in lakehouse("plan", "app.py").out
