"""Changes of a database's table, and bytes that are none: Spark reads what lakehouse.formats.codec.debezium reads.

The steps of a database are folded by other code, too: the table at the end is the database's.
"""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.plan.origin import Source
from lakehouse.semantics.record import Record
from lakehouse.testing import Replay
from tests.properties.compared import Comparison, bronze_rows
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "name string, amount decimal(10, 2), made timestamp, born date, photo binary, tags array<string>"
# Without an array Spark reads most records itself.
FLAT = "name string, amount decimal(10, 2), made timestamp, born date, photo binary, n int, ok boolean, x double"
META = "op string, lsn int from 'source.lsn', sent timestamp from 'ts_ms'"
READ_BY: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("int", SCHEMA, {}),
    ("int", SCHEMA, {"decimals": "precise", "times": {"made": "millis"}, "meta": "op string"}),
    ("int", SCHEMA, {"flattened": True}),
    ("int", SCHEMA, {"documents": True}),
    ("int", FLAT, {"decimals": "precise", "times": {"made": "micros"}, "meta": META}),
    ("bigint", FLAT, {"decimals": "string", "times": {"made": "nanos"}}),
    ("string", FLAT, {"decimals": "string", "flattened": True}),
    ("int", FLAT.replace("decimal(10, 2)", "decimal(4, 3)"), {"decimals": "precise", "times": {"made": "millis"}}),
    ("int", FLAT, {"meta": META}),
    ("bigint", FLAT, {"flattened": True}),
    ("int", FLAT, {"decimals": "string"}),
    ("int", FLAT.replace("decimal(10, 2)", "decimal(38, 4)"), {"times": {"made": "micros"}}),
    ("int", "NAME string, N int, AMOUNT decimal(10, 2), OK boolean, Born date", {"decimals": "precise"}),
    ("int", "NAME string, N int, Made timestamp", {"flattened": True, "times": {"Made": "micros"}}),
)
STREAMS_COMPARED = 10  # of all, drawn: another run compares others
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLACEHOLDER = "__debezium_unavailable_value"
TYPES: dict[str, dict[str, Any]] = {
    "id": {"type": "int32"},
    "name": {"type": "string"},
    "amount": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    "made": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "born": {"type": "int32", "name": "io.debezium.time.Date"},
    "photo": {"type": "bytes"},
    "tags": {"type": "array", "items": {"type": "string"}},
}
CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
ODD_TYPES: dict[str, tuple[Any, ...]] = {
    "amount": (
        {"type": "string"}, {"type": "double"}, {"type": "bytes"}, {"type": "bytes", "name": CONNECT + "Decimal"},
        *({"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": scale}}
          for scale in ("0", "3", "-1", "99999", 2, None, "x")),
    ),
    "made": (
        {"type": "string", "name": DEBEZIUM + "ZonedTimestamp"}, {"type": "int64"},
        *({"type": "int64", "name": name}
          for name in (DEBEZIUM + "Timestamp", DEBEZIUM + "NanoTimestamp", CONNECT + "Timestamp", DEBEZIUM + "Date")),
    ),
    "born": ({"type": "int32"}, {"type": "int64", "name": DEBEZIUM + "Timestamp"}, {"type": "string"}),
    "photo": ({"type": "string"}, {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "0"}}),
    "name": ({"type": "bytes"}, {"type": "string", "name": "io.debezium.data.Json"}),
}  # fmt: skip
ODD_VALUES = (
    None, "", "a", "AA==", 0, -1, 1.5, 10**20, True, [], ["a", None], {}, {"scale": 2, "value": "AQ=="}, PLACEHOLDER,
    base64.b64encode(PLACEHOLDER.encode()).decode(), 9223372036825200000, "2026-01-01", "\ud800", "é",
    float("inf"), float("nan"), 10**4000, 1e300, "1e999", {"scale": float("inf"), "value": "AQ=="},
    {"scale": 1.5, "value": "AQ=="}, {"scale": -1000, "value": "AQ=="}, {"scale": 1000, "value": "f39/f39/"},
    {"scale": True, "value": 7}, {"value": "AQ=="},
    "0", -0.0, "1.50", 1.50, 0.1249999999999999999999, 12345678901234567.25, "99999999.99", "-0.05", "//8=", "gA==",
    "AIA=", "fwAAAAAAAAAA", PLACEHOLDER.encode().hex(), "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00+02:00", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59.999999Z",
    253402300800000000, -1, 2**63 - 1, -(2**63), -62135596800000001, 2932897, 1000000000000000001,
    -1000000000000000001, "a\u0007", "{", {"a": "b"}, "null",
)  # fmt: skip


def values(draw: random.Random) -> dict[str, Any]:
    """Return the fields of a row, as a connector writes them."""
    unscaled = draw.randrange(-(10**9), 10**9)
    return {
        "name": draw.choice(["ann", "bob", "", "é", None]),
        "amount": draw.choice([None, base64.b64encode(unscaled.to_bytes(5, "big", signed=True)).decode()]),
        "made": draw.choice([None, draw.randrange(-(10**15), 10**16)]),
        "born": draw.choice([None, draw.randrange(-20000, 40000)]),
        "photo": draw.choice([None, "", base64.b64encode(draw.randbytes(3)).decode()]),
        "tags": draw.choice([None, [], ["a", None, "b"]]),
        "n": draw.choice([None, 0, -7, 2**31 - 1]),
        "ok": draw.choice([None, True, False]),
        "x": draw.choice([None, 1, 0.1, -1e-7, 1e22]),
    }


def schema_of_row(types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"field": name} | kind for name, kind in types.items()]}


def odd_types(draw: random.Random) -> dict[str, dict[str, Any]]:
    """Return the types of a schema that another connector may write, or somebody broke."""
    types = dict(TYPES)
    for _ in range(draw.randrange(3)):
        name = draw.choice(list(ODD_TYPES))
        types[draw.choice([name, name, name.upper()])] = draw.choice(ODD_TYPES[name])
    return types if draw.random() < 0.9 else {name.upper(): kind for name, kind in types.items()}


def event(draw: random.Random, operation: str, row: dict[str, Any] | None, *, with_schema: bool) -> dict[str, Any]:
    envelope = {
        "before": None, "after": row, "source": {"ts_ms": draw.randrange(10**12), "lsn": 1}, "op": operation, "ts_ms": 1
    }  # fmt: skip
    if not with_schema:
        return envelope
    after = schema_of_row(TYPES) | {"field": "after"}
    return {"schema": {"type": "struct", "fields": [after | {"field": "before"}, after]}, "payload": envelope}


def odd_value(draw: random.Random) -> bytes | None:
    """Return the bytes of a value that somebody broke."""
    row: dict[str, Any] = {"id": 1} | values(draw)
    for _ in range(draw.randrange(3)):
        name = draw.choice(list(row))
        row[draw.choice([name, name.upper(), "other"])] = draw.choice(ODD_VALUES)
    if draw.random() < 0.3:
        spelled = draw.choice([str.upper, str.title])
        row = {spelled(name): value for name, value in row.items()}
    operation = draw.choice(["c", "u", "r", "d", "t", "m", "x"])
    whole = event(draw, operation, draw.choice([row, row, row, None]), with_schema=draw.random() < 0.5)
    inner = whole.get("payload", whole)
    if draw.random() < 0.2:
        inner[draw.choice(["op", "after", "source", "payload", "schema"])] = draw.choice(ODD_VALUES)
    if draw.random() < 0.2:
        document = row | {"name": {"$symbol": "a"}, "made": {"$date": {"$numberLong": str(draw.randrange(10**15))}}}
        document |= {"amount": {"$numberDecimal": draw.choice(["1.5", "NaN", 7])}}
        inner["after"] = json.dumps(draw.choice([document, row, 7])) + draw.choice(["", "", "x"])
    if draw.random() < 0.5 and "schema" in whole and isinstance(whole["schema"], dict):
        whole["schema"] = {"type": "struct", "fields": [schema_of_row(odd_types(draw)) | {"field": "after"}]}
    if draw.random() < 0.1:
        whole["schema"] = draw.choice(ODD_VALUES)
    row_alone = row if draw.random() < 0.5 else row | {"__deleted": draw.choice(["true", "false"])}
    if draw.random() < 0.5:
        row_alone = {"schema": schema_of_row(odd_types(draw)), "payload": row_alone}
    if draw.random() < 0.1:
        whole[draw.choice(["payload", "x"])] = draw.choice(ODD_VALUES)
    separators = draw.choice([(",", ":"), (",", ":"), (", ", ": "), (" ,\n", "\t: ")])
    data = json.dumps(draw.choice([whole, whole, whole, row_alone, row_alone]), separators=separators).encode()
    if draw.random() < 0.05:
        data = (
            draw.choice(
                [
                    b"[%s]}",
                    b"%s}{}",
                    b"%s]}",
                    b'{"payload":%s}',
                    b'{"schema":{},"payload":%s}',
                    b'{"schema":{},"payload" :7}{"payload":%s}',
                ]
            )
            % data
        )
    match draw.randrange(12):
        case 0:
            return None
        case 1:
            return data[: draw.randrange(len(data))]
        case 2:
            return data + draw.choice([b"x", b"}", b"\xff", b" "])
        case 3:
            return draw.choice([b"", b"null", b"[]", b"7", b"\xff", b"{}", draw.randbytes(9)])
    return data


def is_same(read: Any, expected: Any) -> bool:
    """Say whether values are the same: with their digits, and the sign of a zero."""
    return repr(read) == repr(expected) if isinstance(expected, float | Decimal) else bool(read == expected)


def odd_key(draw: random.Random) -> bytes | None:
    key: Any = draw.choice(
        [
            {"id": 7},
            {"ID": 7},
            {"id": '{"$numberLong": "7"}'},
            {"id": "{"},
            7,
            {"id": None},
            {"id": "a"},
            {},
            None,
            [1],
            {"id": 1, "x": 2},
        ]
    )
    if draw.random() < 0.5:
        key = {"schema": draw.choice([None, {"type": "struct"}, 7]), "payload": key}
    return draw.choice([None, b"\xff", json.dumps(key).encode(), json.dumps(key).encode()])


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    records = [Record("docs", "id", 0, n, 1, odd_key(draw), odd_value(draw), 1, 1) for n in range(1000)]
    comparison, rows = Comparison(), bronze_rows(spark, records)
    streams = [
        lh.debezium("docs", key=f"id {key_type}", schema=schema, **options) for key_type, schema, options in READ_BY
    ]
    streams += [
        lh.stream("docs", key=f"id {key_type}", schema=schema, format="connect_json", key_format="connect_json")
        for key_type, schema in (("int", SCHEMA), ("int", FLAT), ("string", FLAT))
    ]
    for number, stream in enumerate(draw.sample(streams, STREAMS_COMPARED)):
        source = stream.source if number % 2 else stream.latest("rows").stream.source
        assert isinstance(source, Source)
        comparison.add(source, rows, records, is_same=is_same)
    comparison.check_equal()
    assert comparison.rows_read > 100, "most of them are read"
    assert comparison.deletes > 10, "some say when they were"
    reasons = {reason[:30] for reason in comparison.reasons}
    assert len(reasons) > 10, reasons


@pytest.mark.rotated
def test_spark_itself_reads_records_with_their_schema(spark: SparkSession) -> None:
    from lakehouse.spark.part.parts import make_part

    draw = random.Random(1)
    row: dict[str, Any] = {"id": 1, "name": "ann", "amount": "AeI6", "made": 7, "born": 8, "photo": "AAE=", "n": None}
    zoned = TYPES | {"made": {"type": "string", "name": DEBEZIUM + "ZonedTimestamp"}, "amount": {"type": "string"}}
    wholes = [event(draw, operation, row, with_schema=True) for operation in "curd"]
    rows_alone = [
        {"schema": schema_of_row(TYPES), "payload": row},
        {"schema": schema_of_row(zoned), "payload": row | {"made": "2026-01-01T00:00:00Z", "amount": "-12.50"}},
        {"schema": schema_of_row(TYPES), "payload": {name.upper(): value for name, value in row.items()}},
        row | {"made": "2026-01-01T00:00:00.5Z", "amount": 12.5},
    ]
    for stream, values_written in (
        (lh.debezium("docs", key="id int", schema=FLAT), wholes),
        (lh.debezium("docs", key="id int", schema=FLAT, flattened=True), rows_alone),
        (lh.stream("docs", key="id int", schema=FLAT, format="connect_json"), rows_alone),
    ):
        source = stream.source
        assert isinstance(source, Source)
        part = make_part("value", source.value_format, source.value, {})
        texts = [json.dumps(value, separators=(",", draw.choice([":", ": "]))) for value in values_written]
        frame = spark.createDataFrame([(text.encode(),) for text in texts], "value binary")
        frame = frame.select(*[column.alias(name) for name, column in part.bronze_columns.items()])
        for columns in part.separate_columns:
            frame = frame.withColumns(columns)
        slow = [row["text"] for row in frame.where("_slow_value").select(part.text.alias("text")).collect()]
        assert not slow, source.value_format
        assert frame.where(part.is_bad).count() == 0


@pytest.mark.parametrize("seed", seeds(5))
def test_the_table_is_the_database_s(seed: int) -> None:
    """Creates, updates, deletes with and without a tombstone, changes of keys, snapshots, and changes sent again."""
    draw = random.Random(seed)
    database: dict[int, dict[str, Any]] = {}
    sent: list[tuple[int, Any]] = []
    for _ in range(300):
        key, with_schema = draw.randrange(12), draw.random() < 0.5
        old_key = draw.choice(list(database)) if database and draw.random() < 0.5 else None
        if old_key is not None:
            del database[old_key]
            sent.append((old_key, event(draw, "d", None, with_schema=with_schema)))
            if draw.random() < 0.5:
                sent.append((old_key, None))
        if draw.random() < 0.7:
            operation = "u" if key in database else "c"
            database[key] = values(draw)
            sent.append((key, event(draw, operation, {"ID": key} | database[key], with_schema=with_schema)))
        if draw.random() < 0.1:
            sent += [(read, event(draw, "r", {"id": read} | row, with_schema=False)) for read, row in database.items()]
        if draw.random() < 0.1:
            sent += sent[-draw.randrange(1, 4) :]  # at least once: the connector starts again
    stream = lh.debezium("docs", key="id int", schema=SCHEMA, decimals="precise", times={"made": "micros"})
    replay = Replay(lh.app(stream.latest("rows")))
    for key, value in sent:
        key_value: Any = draw.choice([{"id": key}, {"schema": {"type": "struct"}, "payload": {"id": key}}])
        value_bytes = None if value is None else json.dumps(value).encode()
        replay.send("docs", key_bytes=json.dumps(key_value).encode(), value_bytes=value_bytes)
    result = replay.run()
    assert not result.quarantined("docs")
    rows = {row["id"]: row for row in result.rows("rows")}
    assert rows.keys() == database.keys()
    for key, expected in database.items():
        row, amount = rows[key], expected["amount"]
        unscaled = None if amount is None else int.from_bytes(base64.b64decode(amount), "big", signed=True)
        assert row["amount"] == (None if unscaled is None else Decimal(unscaled).scaleb(-2))
        assert (None if row["made"] is None else (row["made"] - EPOCH) // timedelta(microseconds=1)) == expected["made"]
        assert (row["name"], row["tags"]) == (expected["name"], expected["tags"])
