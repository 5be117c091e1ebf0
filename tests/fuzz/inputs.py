"""What takes a text, or bytes, from outside, each with examples of valid ones. Nothing here needs Spark or Kafka."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakehouse as lh
from lakehouse.airflow.cron import check_schedule
from lakehouse.airflow.manifest import check_app_name
from lakehouse.formats.codec.codec_choice import CODECS, codec_of
from lakehouse.formats.codec.registered import WriterSchemas
from lakehouse.formats.decode import decode_record
from lakehouse.formats.key_text import parse_key
from lakehouse.formats.values.unfit import Unfit
from lakehouse.kafka.covers import Cover, parse_cover
from lakehouse.ksql.script import Script
from lakehouse.lake.commit_metadata import BronzeTick, CommitMetadata, CommitNumber, parse_metadata, write_metadata
from lakehouse.page import applications, past
from lakehouse.plan.avro.avro_schema import parse_avro
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.scenario.scenario import build_records, load_application, read_scenario
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.named_moment import moment_from_text, moment_of
from lakehouse.settings.config import load

STREAM = lh.stream("orders", key="id string", schema="a bigint, s string, at timestamp, l array<int>, d decimal(10, 2)")
COUNTS = STREAM.group_by("s").agg(n=lh.count())
SQL = "CREATE STREAM s (k VARCHAR KEY, a INT, v VARCHAR, b ARRAY<INT>) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"


@dataclass(frozen=True)
class Input:
    """A place where texts come in. examples: texts, or bytes, that it takes."""

    name: str
    take: Callable[[Any], object]
    examples: Sequence[Any]

    @property
    def takes_bytes(self) -> bool:
        return isinstance(self.examples[0], bytes)


def _take_sql(text: str) -> None:
    script = Script()
    script.run(SQL)
    script.run(text)
    script.app()


def _take_settings_file(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, "lakehouse.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
        load(environ={}, start=Path(name))


def _take_scenario(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "scenario.json")
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        scenario = read_scenario(file)
        build_records(scenario, load_application(scenario))


def _take_manifest(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, "shop.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        applications.read_application(Path(name), "shop")


def _take_variable(text: str) -> None:
    name, _, value = text.partition("=")
    load(environ={f"LAKEHOUSE_{name}": value}, start=Path("/"))


def _take_avro_schema(text: str) -> None:
    with suppress(UnfitSchema):
        parse_avro(text)


def _decode(format: str) -> Callable[[bytes], None]:
    codec = codec_of(format)
    columns = STREAM.columns[2:3] if codec.format.traits.is_single else STREAM.columns[1:]
    kind = "PROTOBUF" if "protobuf" in format else "JSON" if "json" in format else "AVRO"
    codec = codec.with_schemas(WriterSchemas({7: WriterSchema(kind, SCHEMAS[kind])}))

    def take(data: bytes) -> None:
        for read in (codec.decode, codec.decode_key):
            with suppress(Unfit):
                read(data, columns)
        codec.field_names(data)
        codec.is_truncate(data)
        codec.deleted_ms(data)

    return take


def _take_record(data: bytes) -> None:
    (source,) = lh.app(STREAM.latest("t")).sources
    decode_record(source, Record("orders", "id", 0, 0, 0, data[: len(data) // 2], data[len(data) // 2 :], 1, 0))


EXPRESSIONS = (
    "a > 0 AND s <> 'x'", "length(s) + 1 AS n", "CASE WHEN a = 1 THEN 'x' ELSE s END", "date_trunc('day', at) AS d",
    "transform(l, x -> x + 1) AS l", "CAST(s AS decimal(10, 2)) AS d", "get_json_object(s, '$.a[0].b') AS g",
    "regexp_replace(s, '(a+)+$', '') AS r", "at + INTERVAL 1 DAY AS t", "`a` IN (1, 2, NULL)",
    "named_struct('x', a) AS x",
)  # fmt: skip
JSON_VALUES = (
    b'{"a": 1, "s": "x", "at": "2026-01-31T12:00:00Z", "l": [1, null], "d": 1.25}', b"null", b"7", b'"text"', b"[1]",
    b'{"schema": {"type": "struct", "fields": [{"field": "a", "type": "int64"}]}, "payload": {"a": 1}}',
    b'{"op": "u", "before": null, "after": {"a": 1, "s": "x"}, "source": {"ts_ms": 5, "lsn": 7}, "ts_ms": 6}',
)  # fmt: skip
BINARY_VALUES = (
    b"\0\0\0\0\7\2\4\2\2x\2\2\2\2\2\4\0\0",
    b"\0\0\0\0\7\0\x08\1\x12\1x",
    b"\0\0\0\0\0\0\0\1",
    b"1,x,2026-01-31,,1.25",
    b"text",
)
PROTO = 'syntax = "proto3"; message Order { int64 a = 1; string s = 2; repeated int32 l = 3; }'
AVRO = json.dumps(
    {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}}]}
)  # fmt: skip
ROW_AVRO = json.dumps(
    {"type": "record", "name": "Row", "fields": [
        {"name": "a", "type": ["null", "long"]}, {"name": "s", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "l", "type": ["null", {"type": "array", "items": ["null", "int"]}]}]}
)  # fmt: skip
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})
SCHEMAS = {"AVRO": ROW_AVRO, "PROTOBUF": PROTO, "JSON": JSON_SCHEMA}
MANIFEST = json.dumps(
    {"version": 1, "name": "shop", "app": "/srv/app.py", "config": None, "lake": "/srv/lake", "topics": ["orders"],
     "streams": ["orders"], "sinks": [],
     "tables": [{"name": "totals", "key": ["id"], "windowed": False, "source_topics": ["orders"]}],
     "lineage": {"nodes": [{"id": "topic:orders", "kind": "topic", "name": "orders"},
                           {"id": "table:totals", "kind": "table", "name": "totals"}],
                 "edges": [["topic:orders", "table:totals"]]},
     "schedule": None, "backfill_schedule": None, "freshness_minutes": None}
)  # fmt: skip
SCENARIO = json.dumps(
    {"name": "s", "statements": [SQL, "CREATE TABLE t AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;"],
     "inputs": [{"topic": "t", "key": "k", "value": {"a": 1, "v": "x"}, "timestamp": 5, "headers": [["h", "x"]]}],
     "tables": {"T": [{"key": "x", "value": {"N": 1}}]}}
)  # fmt: skip
COMMIT = write_metadata(CommitMetadata(BronzeTick(topics={}, run="r"), CommitNumber("lakehouse.ingest", 3, 7, "n")))
COVER = Cover("t", "totals", "origin", 7, {"id": {"0": 5}}, state="").data()
TOML = """
[lake]
path = "./lake"
app = "app.py"
[kafka]
bootstrap_servers = "one:9092"
[kafka.options]
"security.protocol" = "SSL"
[spark]
memory = "3g"
keep = "10 minutes"
options = { "spark.ui.enabled" = "true" }
[upkeep]
keep_versions = "7 days"
[airflow]
users = { admin = "admin" }
"""

INPUTS = (
    Input("topic", lambda text: lh.stream(text, key="k string", schema="v string"), ("orders", "shop.public.orders-2")),
    Input("stream", lambda text: lh.stream("t", name=text, key="k string", schema="v string"), ("orders", "x_1")),
    Input("table", STREAM.latest, ("orders", "current_orders")),
    Input("schema", lambda text: parse_schema(text, "schema"), (
        "a bigint, b string from 'B b', c struct<x: int, y: array<map<string, decimal(10, 2)>>>", "at timestamp")),
    Input("key", lambda text: lh.stream("t", key=text, schema="v string"), ("id string", "a bigint, b date")),
    Input("format", lambda text: lh.stream("t", key="k string", schema="v string", format=text),
          ("json", "csv", "delimited|", "avro", "kafka", "protobuf", "json_sr", "connect_json")),
    Input("filter", STREAM.filter, EXPRESSIONS),
    Input("select", STREAM.select, EXPRESSIONS),
    Input("expect", lambda text: STREAM.expect("x", text), EXPRESSIONS),
    Input("event time", lambda text: lh.stream("t", key="k string", schema="at timestamp, s string", event_time=text),
          ("at", "to_timestamp(s, 'yyyy-MM-dd')")),
    Input("window", lambda text: COUNTS and STREAM.group_by("s").window(lh.tumbling(text)), ("1 hour", "90 seconds")),
    Input("snapshots", lambda text: lh.snapshots("t", text, key="k string", schema="v string"),
          ("exports/{at}.csv", "s3://b/x-{at}/part-*.parquet")),
    Input("sql", _take_sql, (
        "CREATE TABLE t AS SELECT v, COUNT(*) AS n, SUM(a) AS total FROM s WHERE a > 0 GROUP BY v;",
        "CREATE STREAM u WITH (KAFKA_TOPIC='u', PARTITIONS=3) AS SELECT k, UCASE(v) AS w FROM s EMIT CHANGES;",
        "CREATE TABLE w AS SELECT v, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY v EMIT FINAL;",
        "CREATE TABLE p (id VARCHAR PRIMARY KEY, x DECIMAL(10, 2), CONSTRAINT c EXPECT (x > 0)) "
        "WITH (KAFKA_TOPIC='p', VALUE_FORMAT='JSON', TIMESTAMP='x');",
        "INSERT INTO s SELECT k, a, v, TRANSFORM(b, x => x + 1) AS b FROM s; DROP STREAM IF EXISTS z; SHOW TABLES;")),
    Input("settings file", _take_settings_file, (TOML,)),
    Input("variable", _take_variable, (
        "LAKE_PATH=/srv/lake", "KAFKA_OPTIONS={\"a\": \"b\"}", "SPARK_MEMORY=3g", "RUN_TRIGGER_SECONDS=0.5",
        "UPKEEP_KEEP_VERSIONS=7 days", "METRICS_PORT=9108", "AIRFLOW_USERS={\"a\": \"admin\"}", "LINEAGE_URL=http://c/")),
    Input("moment", moment_of, ("2026-01-31T12:00:00Z", "2026-01-31", "source:16/B374D848")),
    Input("moment of a command", moment_from_text, ("tick:7", "version:3", "commit:2026-01-31", "offsets:t/0=5", "now",
        "12")),
    Input("moment of the page", past.parse_moment, ("tick:7", "2026-01-31T12:00+02:00", "now")),
    Input("offsets", lambda text: moment_of(offsets=text), ("orders/0=120,orders/1=7", "t/0=0")),
    Input("key of a command", lambda text: parse_key(text, STREAM.columns[:1]), ("ann", '{"id": "x"}', "a,b")),
    Input("key of several columns", lambda text: parse_key(text, STREAM.columns[:3]), ("a,1,x", '"a, b",7,')),
    Input("schedule", lambda text: check_schedule(text, "--schedule"), ("*/15 * * * *", "@hourly", "0 4 * * MON-FRI")),
    Input("name of an application", check_app_name, ("shop", "a_1")),
    Input("manifest", _take_manifest, (MANIFEST,)),
    Input("scenario", _take_scenario, (SCENARIO,)),
    Input("commit", lambda text: parse_metadata(text, "commit"), (COMMIT,)),
    Input("avro schema", _take_avro_schema, (AVRO, '"string"', '["null", "int"]')),
    Input("cover", lambda data: parse_cover(data, "t/0/5"), (COVER,)),
    Input("record", _take_record, JSON_VALUES),
    *(
        Input(f"bytes of {format}", _decode(format), (*JSON_VALUES, *BINARY_VALUES)[:: 1 if "json" in format else -1])
        for format in CODECS
    ),
)  # fmt: skip
