"""Streams and tables over a database's change log, VALUE_FORMAT='DEBEZIUM': the plans of lh.debezium, and refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import SqlError
from lakehouse.ksql.script import Script, application
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.testing import Replay

WITH = "WITH (KAFKA_TOPIC='shop.public.orders', "


def debezium(**options: Any) -> Stream:
    own = {"key": "ID int", "schema": "NAME string, MADE timestamp, BORN date", "name": "ORDERS"} | options
    return lh.debezium("shop.public.orders", **own)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "(id INT PRIMARY KEY, name VARCHAR, made TIMESTAMP, born DATE) " + WITH + "VALUE_FORMAT='DEBEZIUM')",
            debezium(),
        ),
        (
            "(id INT PRIMARY KEY, name VARCHAR, made TIMESTAMP, born DATE, op VARCHAR METADATA('op'), "
            "lsn BIGINT METADATA('source.lsn')) " + WITH + "FORMAT='DEBEZIUM', DECIMALS='string', DOCUMENTS=false, "
            "TIMES='made micros, `BORN` days', UNAVAILABLE='<nothing>', UNSENT='quarantine')",
            debezium(
                meta="OP string from 'op', LSN bigint from 'source.lsn'", decimals="string",
                times={"MADE": "micros", "BORN": "days"}, unavailable="<nothing>", unsent="quarantine",
            ),
        ),
        (
            "(id INT PRIMARY KEY, name VARCHAR, made TIMESTAMP, born DATE) "
            + WITH + "VALUE_FORMAT='DEBEZIUM_AVRO', TIMESTAMP='made', MAX_AHEAD='1 day', TRUNCATES='apply')",
            debezium(format="avro", event_time="MADE", max_ahead="1 day", truncates="apply"),
        ),
        (
            "(id INT PRIMARY KEY, name VARCHAR, made TIMESTAMP, born DATE) "
            + WITH + "VALUE_FORMAT='DEBEZIUM_AVRO', KEY_FORMAT='DEBEZIUM', MAX_AHEAD='1 day')",
            debezium(format="avro", key_format="debezium", max_ahead="1 day"),
        ),
        (
            "(id INT PRIMARY KEY, name VARCHAR, total DECIMAL(9, 2), seen TIMESTAMP) "
            + WITH + "VALUE_FORMAT='DEBEZIUM', FLATTENED=true, KEY_FORMAT='KAFKA')",
            debezium(schema="NAME string, TOTAL decimal(9, 2), SEEN timestamp", flattened=True, key_format="kafka"),
        ),
        (
            "(id VARCHAR PRIMARY KEY, name VARCHAR, home STRUCT<zip INT>) " + WITH + "FORMAT='DEBEZIUM', "
            "DOCUMENTS=TRUE)",
            debezium(key="ID string", schema="NAME string, HOME struct<ZIP: int>", documents=True),
        ),
    ],
)  # fmt: skip
def test_a_table_is_the_one_of_python(statement: str, expected: Stream) -> None:
    (table,) = application(f"CREATE TABLE orders {statement};").tables
    assert table == expected.latest("ORDERS")


def test_a_stream_without_a_key_and_with_headers() -> None:
    app = application(
        "CREATE STREAM orders (name VARCHAR, hs ARRAY<STRUCT<key VARCHAR, value BYTES>> HEADERS, op VARCHAR "
        f"METADATA('op')) {WITH} VALUE_FORMAT='DEBEZIUM');"
        "CREATE TABLE n AS SELECT op, COUNT(*) AS n, MAX(ARRAY_LENGTH(hs)) AS h FROM orders GROUP BY op;"
    )
    replay = Replay(app)
    for op in ("c", "u", "d"):
        replay.send(
            "shop.public.orders", value={"op": op, "after": {"Name": "a"}, "source": {"ts_ms": 1}}, headers=[("a", "b")]
        )
    assert replay.run().rows("N") == [{"OP": "c", "N": 1, "H": 1}, {"OP": "u", "N": 1, "H": 1}]
    (source,) = app.sources
    assert (source.key_format, source.headers) == ("none", "RECORD_HEADERS")


def test_names_of_any_characters() -> None:
    app = application(
        "CREATE TABLE orders (`order id` INT PRIMARY KEY, `price (EUR)` DECIMAL(9, 2), `made at` TIMESTAMP, `__op` "
        "VARCHAR, home STRUCT<`zip code` INT>) "
        f"{WITH} VALUE_FORMAT='DEBEZIUM', FLATTENED=true, TIMES='`made at` millis', DECIMALS='precise');"
    )
    value = {"price (EUR)": "AeI6", "made at": 1, "__op": "r", "home": {"zip code": 9}}
    result = Replay(app).send("shop.public.orders", key_bytes=b'{"order id": 7}', value=value).run()
    assert result.quarantined("ORDERS") == []
    (row,) = result.rows("ORDERS")
    (source,) = app.sources
    assert isinstance(source, Source)
    assert [column.in_topic.name for column in source.value[:4]] == ["price (EUR)", "made at", "__op", "HOME"]
    moment = datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)
    assert list(row.values()) == [7, Decimal("1234.50"), moment, "r", {"zip_x20_code": 9}]


@pytest.mark.parametrize("format", ["DEBEZIUM", "DEBEZIUM_AVRO"])
def test_what_a_query_makes_of_it_has_another_format(format: str) -> None:
    script = Script()
    script.run(
        f"CREATE STREAM s (id INT KEY, name VARCHAR) {WITH} FORMAT='{format}'); CREATE STREAM c AS SELECT * FROM s;"
    )
    written = "JSON" if format == "DEBEZIUM" else "AVRO"
    assert script.catalog.get("C", 0).formats == (written, written)


TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR, made TIMESTAMP) " + WITH


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (TABLE + "VALUE_FORMAT='DEBEZIUM', FLATTENED=1)", "FLATTENED=1", "FLATTENED is true or false. Found 1"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', DECIMALS='x')", "DECIMALS='x'", "decimals='x': expected 'precise' or"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', TIMES='nope micros')", "TIMES='nope", "times: 'NOPE' is not a column"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', TIMES='name micros')", "TIMES='name", "NAME string has no moments"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', TIMES='made micros;')", "TIMES='made", "TIMES has a column and its unit"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', TIMES='made')", "TIMES='made", "Found made. Expected 'MADE micros, BORN"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', UNAVAILABLE='')", "UNAVAILABLE=''", "unavailable='': expected a text"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', UNSENT='x')", "UNSENT='x'", "unsent='x': expected 'keep' or 'quarantine'"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM', UNAVAILABLE=1)", "UNAVAILABLE=1", "UNAVAILABLE takes a text in quotes"),
        (TABLE + "VALUE_FORMAT='DEBEZIUM_AVRO', DECIMALS='precise')", "DECIMALS=", "in Avro the schema says the types"),
        (TABLE + "VALUE_FORMAT='JSON', DECIMALS='precise')", "DECIMALS=", "DECIMALS is for a database's change log"),
        (TABLE + "VALUE_FORMAT='JSON', KEY_FORMAT='DEBEZIUM')", "KEY_FORMAT=", "KEY_FORMAT='DEBEZIUM' is for a VALUE_"),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, op VARCHAR METADATA('op')) " + WITH + "VALUE_FORMAT='JSON')",
            "op VARCHAR", "METADATA('op') is of the envelope of a database's change",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, op VARCHAR METADATA('after.op')) " + WITH + "FORMAT='DEBEZIUM')",
            "op VARCHAR", "METADATA('after.op') is not in the envelope. Expected op, source, ",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, op VARCHAR METADATA('op')) " + WITH + "FORMAT='DEBEZIUM', "
            "FLATTENED=true)",
            "op VARCHAR", "flattened rows have no envelope",
        ),
        ("CREATE STREAM s " + WITH + "FORMAT='DEBEZIUM_AVRO')", "CREATE", "name those of the database's table that"),
        ("CREATE STREAM s (a INT METADATA('')) " + WITH + "FORMAT='DEBEZIUM')", "a INT", "is not in the envelope"),
    ],
)  # fmt: skip
def test_refusals_name_the_place(text: str, place: str, reason: str) -> None:
    with pytest.raises(SqlError) as refused:
        application(text + ";")
    assert reason in str(refused.value)
    assert text.index(place) <= refused.value.position <= text.index(place) + len(place)


def test_metadata_is_a_name_too() -> None:
    app = application("CREATE TABLE metadata (metadata INT PRIMARY KEY, x INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');")
    assert [column.name for column in app.tables[0].columns] == ["METADATA", "X"]


def test_deletes_reach_the_table_and_its_changelog() -> None:
    app = application(
        TABLE.replace("CREATE TABLE t", "CREATE TABLE orders") + "VALUE_FORMAT='DEBEZIUM', TIMES='made micros');"
        "CREATE TABLE named AS SELECT id, name FROM orders WHERE name IS NOT NULL;"
    )
    replay = Replay(app)
    for key, op, after in ((1, "c", {"name": "ann", "made": 1}), (2, "r", {"name": "bob"}), (1, "d", None)):
        envelope = {"op": op, "before": None, "after": after, "source": {"ts_ms": 5}}
        replay.send("shop.public.orders", key={"schema": {"type": "int32"}, "payload": key}, value=envelope)
    result = replay.run()
    assert result.rows("ORDERS") == [{"ID": 2, "NAME": "bob", "MADE": None}]
    assert result.rows("NAMED") == [{"ID": 2, "NAME": "bob"}]
