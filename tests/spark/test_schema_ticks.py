"""Tables wait for the schemas of their records: for those of a topic's keys and values apart, and not for garbage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import RegistryUnavailable, StorageError
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.lake.layout import Layout
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.scenario.replay import write_bronze as write_bronze_of_model
from lakehouse.semantics.record import Record
from tests.bench import Bench

from ..written_bronze import write_bronze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.spark.silver.schema_ticks import SchemaTicks

ROW = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]})


class Registry:
    """Gives the schemas that it has, and counts what it is asked; `is_away` makes it fail."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids, self.asked, self.is_away = set(ids), [], False  # type: ignore[var-annotated]

    def __call__(self, id: int) -> WriterSchema | None:
        if self.is_away:
            raise RegistryUnavailable("no answer")
        self.asked.append(id)
        return WriterSchema("AVRO", ROW) if id in self.ids else None


def records(*ids: int, tick: int = 1, key_id: int | None = None) -> list[Record]:
    key = None if key_id is None else with_prefix(key_id, b"\x02")
    return [
        Record("t", "id", 0, tick * 10_000 + n, 1, key, with_prefix(id, b"\x02"), tick, 1) for n, id in enumerate(ids)
    ]


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """make(registry, app): the ticks of an application in the test's lake; nothing is waited for between two tries."""
    from lakehouse.spark.changelog.upstream import open_lake
    from lakehouse.spark.silver import schema_ticks

    monkeypatch.setattr(schema_ticks, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(schema_ticks, "RETRY_SHARE", 0)
    monkeypatch.setattr(schema_ticks, "UNKNOWN_SECONDS", 0.0)

    def make_ticks(registry: Registry, app: lh.App) -> SchemaTicks:
        return schema_ticks.SchemaTicks(open_lake(spark, Layout(str(tmp_path)), look_up_schema=registry), app)

    return make_ticks


def app_of(format: str = "avro", key_format: str = "kafka") -> lh.App:
    schema = "n int" if format == "avro" else "n string"
    return lh.app(lh.stream("t", key="id string", schema=schema, format=format, key_format=key_format).latest("rows"))


def test_ids_are_asked_for_once_and_kept_for_other_processes(make: Any, tmp_path: Path) -> None:
    write_bronze(tmp_path, records(7, 7, 9))
    registry, app = Registry([7, 9]), app_of()
    ticks = make(registry, app)
    assert [ticks.tick_limit(app.tables[0], 1), ticks.refresh(1), ticks.tick_limit(app.tables[0], 1)] == [0, True, 1]
    assert registry.asked == [7, 9]
    nobody = Registry([])
    nobody.is_away = True
    other = make(nobody, app)
    assert [other.refresh(1), other.tick_limit(app.tables[0], 5), other.find_waiting(1)] == [False, 1, []]
    write_bronze(tmp_path, records(9, tick=2))
    assert other.refresh(2), "no new id: nobody has to be asked"


def test_while_the_registry_is_away_its_streams_wait(make: Any, tmp_path: Path) -> None:
    write_bronze(tmp_path, records(7))
    registry, app = Registry([7]), app_of()
    registry.is_away = True
    ticks = make(registry, app)
    assert not ticks.refresh(1)
    (waiting,) = ticks.find_waiting(1)
    assert (waiting.topic, waiting.tick, waiting.reason, waiting.readers) == ("t", 0, "no answer", ("rows",))
    with pytest.raises(RegistryUnavailable, match="topic 't': no answer Bronze has all records; rows waits at tick 0"):
        ticks.check_known(1)
    registry.is_away = False
    assert ticks.refresh(1)
    ticks.check_known(1)


def test_keys_and_values_of_a_topic_are_looked_up_apart(make: Any, tmp_path: Path) -> None:
    """Another application may read what this one did not."""
    write_bronze(tmp_path, records(7, key_id=3))
    registry = Registry([3, 7])
    assert make(registry, app_of()).refresh(1)
    assert registry.asked == [7]
    ticks = make(registry, app_of("kafka", "avro"))
    assert ticks.find_waiting(1) != []
    assert ticks.refresh(1)
    assert registry.asked == [7, 3]


def test_an_unknown_id_is_a_record_s_fault_if_the_registry_has_others(make: Any, tmp_path: Path) -> None:
    write_bronze(tmp_path, records(99))
    registry, app = Registry([7]), app_of()
    ticks = make(registry, app)
    assert not ticks.refresh(1), "it may be the wrong registry"
    assert "is it the right one?" in ticks.find_waiting(1)[0].reason
    write_bronze(tmp_path, records(7, 7, tick=2))
    assert ticks.refresh(2)
    registry.ids.add(99)
    write_bronze(tmp_path, records(99, tick=3))
    assert ticks.refresh(3)
    assert registry.asked.count(99) <= 3, "what is bad stays bad"
    assert ticks._lake.schemas.unknown_ids("t", "value") == {99}


def test_garbage_is_not_asked_for_id_by_id(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehouse.spark.silver import schema_ticks

    monkeypatch.setattr(schema_ticks, "IDS_MAX", 10)
    monkeypatch.setattr(schema_ticks, "UNKNOWN_MAX", 15)
    registry, app = Registry([7]), app_of()
    ticks = make(registry, app)
    for tick in (1, 2, 3):
        garbage = records(*range(1000 * tick, 1000 * tick + 500), 7, 7, tick=tick)
        write_bronze(tmp_path, [replace(record, offset=tick * 10_000 + n) for n, record in enumerate(garbage)])
        assert ticks.refresh(tick)
    assert len(registry.asked) == 30
    assert registry.asked[0] == 7, "the usual ones first"
    assert len(ticks._lake.schemas.unknown_ids("t", "value")) <= 25


@pytest.mark.rotated
def test_a_read_needs_the_schemas_of_the_records_that_are_there(make: Any, tmp_path: Path) -> None:
    """Ticks without a record of the topic need none: others bring them, and nobody may be there to take them in."""
    from lakehouse.spark.bronze.schema_ids import check_schemas

    write_bronze(tmp_path, records(7))
    registry, app = Registry([7]), app_of()
    ticks = make(registry, app)
    assert ticks.refresh(1)
    write_bronze(tmp_path, [replace(record, topic="other") for record in records(99, tick=2)])
    (source,) = app.sources
    check_schemas(ticks._lake, source, 2)
    write_bronze(tmp_path, records(7, tick=3))
    check_schemas(ticks._lake, source, 3)
    write_bronze(tmp_path, records(8, tick=4))
    with pytest.raises(StorageError, match="known up to tick 1 of bronze, and tick 4 is read"):
        check_schemas(ticks._lake, source, 4)


@pytest.mark.rotated
def test_a_schema_that_is_learned_later_is_read_by_from_then_on_and_by_a_backfill(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench, table = Bench(spark, tmp_path), lh.stream("t", key="id string", schema="n int", format="avro").latest("t")
    app = lh.app(table)
    keyed = [replace(record, key=f"k{n}".encode()) for n, record in enumerate(records(21, 22))]
    write_bronze_of_model(bench.lake, app, keyed)
    schema = WriterSchema("AVRO", ROW)
    bench.lake.schemas.keep("t", {"value": {21: schema, 22: None}}, 2)
    bench.catch_up(app, 1)
    assert set(bench.rows(table)) == {("k0",)}
    bench.lake.schemas.learn("t", {"value": {22: schema, 23: None}})
    write_bronze_of_model(bench.lake, app, [replace(record, key=b"k2") for record in records(22, tick=2)])
    bench.lake.schemas.reload("t")
    bench.catch_up(app, 2)
    assert set(bench.rows(table)) == {("k0",), ("k2",)}
    assert bench.rebuilt(table, 2) == {(f"k{n}",): {"n": 1} for n in range(3)}
