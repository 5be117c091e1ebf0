"""The offsets of a database's position: kinds of logs, formats, and what can't be told. Only bronze is read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.plan.databases.debezium import list_change_logs
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark.history.database_position import offsets_at_position
from tests.bench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.plan.stream import Stream

A = lh.debezium("a", key="id int", schema="n int")
B = lh.debezium("b", key="id int", schema="n int", own_table=True)
Change = tuple[str, int, dict[str, Any] | bytes | None]  # topic, partition, the record's `source`, or its bytes


def postgres(before: int | None, lsn: int, **others: Any) -> dict[str, Any]:
    sequence = json.dumps([None if before is None else str(before), str(lsn)])
    return {"connector": "postgresql", "name": "shop", "lsn": lsn, "sequence": sequence, "snapshot": "false"} | others


def binlog(file: int, pos: int, **others: Any) -> dict[str, Any]:
    return {"connector": "mysql", "name": "shop", "file": f"mysql-bin.{file:06}", "pos": pos} | others


def sqlserver(commit: int, **others: Any) -> dict[str, Any]:
    return {"connector": "sqlserver", "name": "shop", "commit_lsn": f"00000027:0000075{commit}:000A"} | others


def write(bench: Bench, changes: list[Change], *, topic_id: str = "id", tick: int = 1) -> None:
    offsets: dict[tuple[str, int], int] = {}
    records = []
    for topic, partition, change in changes:
        offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
        value: Any = change
        if isinstance(change, dict):
            event = {"op": "c", "before": None, "after": {"id": 1, "n": 1}, "source": change, "ts_ms": 1}
            # Each record may have its schema around it, or not.
            value = json.dumps({"schema": None, "payload": event} if offset % 2 else event).encode()
        records.append(Record(topic, f"{topic}-{topic_id}", partition, offset, 1, b'{"id": 1}', value, tick, 1))
    write_bronze(bench.lake, lh.app(A.latest("a"), B.latest("b")), records)


def offsets_of(bench: Bench, position: str, *streams: Stream, tick: int = 1) -> str:
    tables = [stream.latest(stream.source.name) for stream in streams or (A, B)]
    return str(offsets_at_position(bench.lake, list_change_logs(tables), position, tick)).removeprefix("offsets ")


@pytest.mark.rotated
def test_postgres(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path)
    write(bench, [
        ("a", 0, postgres(None, 100, snapshot="first")), ("b", 0, postgres(None, 100, snapshot="last")),
        ("a", 0, postgres(None, 110)), ("b", 0, postgres(None, 112)),  # commits at 120
        ("a", 0, None), ("a", 1, b"no json"), ("a", 0, postgres(120, 105)),  # began before it, commits at 130
        ("b", 0, postgres(130, 140, snapshot="incremental")), ("b", 0, postgres(130, 140)),  # commits at 150
        ("a", 0, postgres(120, 105)), ("a", 0, postgres(150, 160)),  # after a restart one is sent again
    ])  # fmt: skip
    assert offsets_of(bench, "100") == "a/0=1,a/1=1,b/0=1"
    assert offsets_of(bench, "0/6E") == "a/0=1,a/1=1,b/0=1", "at 110 the change is there, and no commit"
    assert offsets_of(bench, "120") == "a/0=3,a/1=1,b/0=3", "a row that was read again stands for no transaction"
    assert offsets_of(bench, "135") == "a/0=5,a/1=1,b/0=3"
    assert offsets_of(bench, "150") == "a/0=5,a/1=1,b/0=4"
    for position, said in (
        ("99", "knows the database from 0/64 on"), ("115", "committed after 0/64 and by 0/78"),
        ("161", "changes up to 0/A0"), ("x", "such as 16/B374D848"),
    ):  # fmt: skip
        with pytest.raises(LakehouseError, match=said):
            offsets_of(bench, position)


@pytest.mark.rotated
def test_binlogs_and_commit_positions(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path / "mysql")
    write(bench, [
        ("a", 0, binlog(9, 500, snapshot="true")), ("a", 0, binlog(9, 600, gtid="u:1")),
        ("b", 0, binlog(9, 700, gtid="u:1")), ("b", 0, binlog(10, 4, gtid="u:2")), ("a", 1, binlog(10, 90)),
    ])  # fmt: skip
    assert offsets_of(bench, "mysql-bin.000009:800") == "a/0=2,a/1=0,b/0=1"
    assert offsets_of(bench, "10:90") == "a/0=2,a/1=0,b/0=2"
    assert offsets_of(bench, "9:500") == "a/0=1,a/1=0,b/0=0"
    for position, said in (("9:650", "inside of transaction u:1"), ("10:91", "changes up to binlog 10:90")):
        with pytest.raises(NotFound, match=said):
            offsets_of(bench, position)
    bench = Bench(spark, tmp_path / "sqlserver")
    write(bench, [("a", 0, sqlserver(1, snapshot="last")), ("a", 0, sqlserver(2)), ("b", 0, sqlserver(2)),
                  ("b", 0, sqlserver(3))])  # fmt: skip
    assert offsets_of(bench, "0x00000027000007520000") == "a/0=1,b/0=0"
    assert offsets_of(bench, "00000027:00000752:000a") == "a/0=2,b/0=1"
    with pytest.raises(NotFound, match="needs one after the position"):
        offsets_of(bench, "00000027:00000753:000A")


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ([("a", 0, b"null")], NotFound, "has no change of a database"),
        ([("a", 0, postgres(1, 2)), ("b", 0, postgres(1, 2, name="till"))], ConfigError,
         r"several databases, shop \(postgresql\), till \(postgresql\)"),
        ([("a", 0, {"connector": "mongodb", "name": "shop", "ord": 1})], ConfigError, "connector 'mongodb'"),
        ([("a", 0, postgres(1, 2)), ("b", 0, {"connector": "postgresql", "name": "shop", "lsn": 3})], NotFound,
         "the change at b/0=0 does not name its position"),
        ([("a", 0, postgres(1, 2)), ("b", 0, postgres(None, 20, snapshot="first")), ("a", 0, postgres(5, 30))],
         NotFound, "b begins later, with a snapshot"),
    ],
)  # fmt: skip
def test_what_records_do_not_tell(
    spark: SparkSession, tmp_path: Path, changes: list[Change], error: type[LakehouseError], said: str
) -> None:
    bench = Bench(spark, tmp_path)
    write(bench, changes)
    with pytest.raises(error, match=said):
        offsets_of(bench, "5")


@pytest.mark.rotated
def test_a_topic_that_was_made_again(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path)
    write(bench, [("a", 0, postgres(10, 11)), ("a", 0, postgres(20, 21))])
    write(bench, [("a", 0, postgres(None, 30, snapshot="last")), ("a", 0, postgres(40, 41))], topic_id="new", tick=2)
    assert offsets_of(bench, "40", A, tick=2) == "a/0=1"
    with pytest.raises(NotFound, match="topic a was made again since then"):
        offsets_of(bench, "20", A, tick=2)
    assert offsets_of(bench, "20", A, tick=1) == "a/0=1"


@pytest.mark.rotated
def test_avro_and_flattened_rows(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path)
    optional = {"lsn": ["null", "long"], "sequence": ["null", "string"], "snapshot": ["null", "string"]}
    fields = [
        {"name": name, "type": type} for name, type in ({"connector": "string", "name": "string"} | optional).items()
    ]
    source = {"type": "record", "name": "Source", "fields": fields}
    row = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
    members = [("after", ["null", row]), ("source", source), ("op", "string")]
    envelope = {"type": "record", "name": "Envelope", "fields": [{"name": n, "type": t} for n, t in members]}
    changes: list[Change] = []
    for change in (postgres(None, 100, snapshot="true"), postgres(110, 111), None, postgres(120, 121)):
        written = io.BytesIO(b"")
        if change is not None:
            fastavro.schemaless_writer(
                written, fastavro.parse_schema(envelope), {"after": None, "source": change, "op": "d"}
            )
        changes.append(("a", 0, None if change is None else with_prefix(7, written.getvalue())))
    write(bench, changes)
    bench.lake.schemas.keep("a", {"key": {}, "value": {7: WriterSchema("AVRO", json.dumps(envelope))}}, 1)
    in_avro = lh.debezium("a", key="id int", schema="n int", format="avro")
    assert offsets_of(bench, "110", in_avro) == "a/0=1"
    assert offsets_of(bench, "120", in_avro) == "a/0=3"
    flattened = lh.debezium("a", key="id int", schema="n int", flattened=True)
    with pytest.raises(ConfigError, match="flattened rows name no position"):
        offsets_of(bench, "120", flattened)
