"""`lakehouse status`: late records, and the spread of records; over a lake written without Spark."""

from __future__ import annotations

import json
import os
import shlex
import socket
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.cli.start import facts, skew
from lakehouse.errors import LeaseHeld
from lakehouse.ksql.script import application
from lakehouse.lake.commit_metadata import RecordCounts, UnchangedRows
from lakehouse.lake.control.stream_declaration import declare_stream
from lakehouse.lake.control.writer_leases import ingest_lease, quarantine_lease, sink_lease, table_lease
from lakehouse.lake.layout import Layout
from lakehouse.run.start.application import load_app
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.clock import ClockState

from ..written_bronze import write_quarantine
from ..written_commits import batch
from .written import WrittenLake


@pytest.fixture
def lake(folder: Path) -> WrittenLake:
    """Ten clicks: partition 0 has seven of them, ann six; a null key among the last."""
    lake = WrittenLake(folder / "lake")
    lake.tick(1, *[("clicks", "ann", 0, n, "v") for n in range(4)], ("clicks", "bob", 1, 1, "v"))
    lake.tick(2, *[("clicks", "ann", 0, n, "v") for n in range(10, 12)], ("clicks", "bob", 1, 12, "v"))
    lake.tick(3, ("clicks", None, 0, 20, "v"), ("clicks", "eve", 1, 20, "v"))
    return lake


def test_late_records_are_counted_by_table(lake, lakehouse):
    lake.rows("hourly", 3, ("ann", 0, 10, 1), topic="clicks")
    lake.rows("calm", 3, topic="clicks")
    lake.late("hourly", 2, ("clicks", 0, 4, "ann", 0, 10), ("clicks", 0, 5, "ann", 0, 10))
    actual = json.loads(lakehouse("status", "--json").out)
    assert {table["name"]: table["late"] for table in actual["tables"]} == {"calm": 0, "hourly": 2}
    assert "skew" not in actual
    assert "Late records: 2." in lakehouse("status").out


def test_a_table_whose_stream_time_is_ahead_of_the_clock(lake, lakehouse):
    times = {"clicks/id-1/0": 253402300799999, "clicks/id-1/1": 7}
    calm_times = {"clicks/id-1/0": 7}
    lake.rows("hourly", 3, ("ann", 0, 10, 1), topic="clicks", content=batch(clock=ClockState(times, times, 7)))
    lake.rows("calm", 3, topic="clicks", content=batch(clock=ClockState(calm_times, times, 7)))
    (actual,) = json.loads(lakehouse("status", "--json").out)["ahead"]
    assert (actual["table"], actual["partition"], actual["stream_time"]) == ("hourly", "clicks/id-1/0", 253402300799999)
    out = " ".join(lakehouse("status").out.split())
    assert "Table 'hourly': its stream time of clicks, partition 0, is 9999-12-31 23:59:59Z" in out
    assert 'max_ahead="1 day"' in out


def test_how_records_spread_over_partitions_and_keys(lake, lakehouse):
    (topic,) = json.loads(lakehouse("status", "--skew", "--json").out)["skew"]
    assert topic["name"] == "clicks"
    assert topic["partitions"] == [
        {"topic_id": "id-1", "partition": 0, "records": 7, "share": 0.7},
        {"topic_id": "id-1", "partition": 1, "records": 3, "share": 0.3},
    ]
    assert topic["looked_at"] == {"records": 10, "first_tick": 1, "last_tick": 3}
    assert topic["keys"] == [
        {"key": "ann", "records": 6, "share": 0.6}, {"key": "bob", "records": 2, "share": 0.2},
        {"key": "eve", "records": 1, "share": 0.1}, {"key": None, "records": 1, "share": 0.1},
    ]  # fmt: skip
    out = lakehouse("status", "--skew").out
    assert "70.0%" in out
    assert "counted over its last 10 records, ticks 1 to 3" in out


@pytest.mark.parametrize(
    ("most", "looked_at", "keys"),
    [
        (5, (5, 2, 3), [("ann", 2), ("bob", 1), ("eve", 1), (None, 1)]),  # two whole ticks
        (4, (2, 3, 3), [("eve", 1), (None, 1)]),  # a tick counts as a whole or not at all
        (1, (1, 3, 3), [(None, 1)]),  # except the newest one, whose last records count
    ],
)
def test_keys_are_counted_over_the_last_records_only(lake, lakehouse, monkeypatch, most, looked_at, keys):
    monkeypatch.setattr(skew, "LOOKED_AT_MAX", most)
    (topic,) = json.loads(lakehouse("status", "--skew", "--json").out)["skew"]
    assert tuple(topic["looked_at"].values()) == looked_at
    assert [(key["key"], key["records"]) for key in topic["keys"]] == keys


def test_a_recreated_topic_has_shares_of_its_own(lake, lakehouse):
    lake.tick(4, ("clicks", "ann", 0, 30, "v"), topic_id="a-later-id")
    (topic,) = json.loads(lakehouse("status", "--skew", "--json").out)["skew"]
    assert [(p["topic_id"], p["partition"], p["share"]) for p in topic["partitions"]] == [
        ("id-1", 0, 0.7), ("id-1", 1, 0.3), ("a-later-id", 0, 1.0),
    ]  # fmt: skip
    assert "0, before it was recreated" in lakehouse("status", "--skew").out


def test_keys_that_are_no_text(lake, lakehouse):
    lake.tick(4, *[("numbers", "\x00\x00\x00\x07", 0, n, "v") for n in range(3)])
    assert "0x00000007" in lakehouse("status", "--skew").out


def test_a_lake_that_is_not_there(folder, lakehouse):
    assert json.loads(lakehouse("status", "--skew", "--json").out)["skew"] == []
    assert "Late records: 0." in lakehouse("status", "--skew").out


def test_a_configured_kafka_is_asked_before_the_lake_has_a_topic(folder, lakehouse, monkeypatch):
    monkeypatch.setattr(facts, "KAFKA_PATIENCE_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = f"127.0.0.1:{server.getsockname()[1]}"
    (folder / "lakehouse.toml").write_text(f'[kafka]\nbootstrap_servers = "{servers}"\n')
    kafka = json.loads(lakehouse("status", "--json").out)["kafka"]
    assert kafka["running"] is False
    assert kafka["error"].startswith(f"Kafka on {servers} did not answer within 1 s: ")
    assert f"Kafka  configured, {servers}: Kafka on {servers} did not answer within 1 s: " in lakehouse("status").out


def test_records_without_a_key_are_counted_by_table(lake, lakehouse):
    lake.rows("hourly", 1, ("ann", 0, 10, 1), topic="clicks", content=batch(counts=RecordCounts(7), null_keys_so_far=2))
    lake.rows("hourly", 2, topic="clicks", content=UnchangedRows(operation="open epoch"))
    lake.rows("calm", 3, topic="clicks", content=batch(counts=RecordCounts(3, null_keys=1), null_keys_so_far=1_003))
    lake.rows("whole", 3, topic="clicks", content=batch(counts=RecordCounts(3)))
    actual = json.loads(lakehouse("status", "--json").out)
    assert {t["name"]: t["null_keys"] for t in actual["tables"]} == {"calm": 1_003, "hourly": 2, "whole": 0}
    out = " ".join(lakehouse("status").out.split())
    assert "calm: 0 rows, 1,003 records without a key: a table needs one. `rekey` gives one, in SQL" in out
    assert "hourly: 2 records without a key, left out." in out
    assert "whole:" not in out
    versions = [json.loads(line) for line in lakehouse("log", "calm", "--json").out.splitlines()]
    assert [version["null_keys"] for version in versions if version["records"] == 3] == [1]
    assert "null keys" in lakehouse("log", "calm").out
    assert "null keys" not in lakehouse("log", "whole").out


def test_expectations_that_warn_are_shown_apart_from_functions(lake, lakehouse):
    unmet = FunctionFailures("expectation clicks.positive", 3, "clicks/0/4", "page <> '', found \"\x1b[2J\"")
    lake.rows("hourly", 2, ("ann", 0, 10, 1), topic="clicks", content=batch(counts=RecordCounts(7), failures=(unmet,)))
    (table,) = json.loads(lakehouse("status", "--json").out)["tables"]
    assert table["failed"] == []
    assert table["unmet"] == [
        {"expectation": "clicks.positive", "records": 3, "first": "clicks/0/4", "reason": unmet.error}
    ]
    out = lakehouse("status").out
    assert "Expectations that warn" in out
    assert "Functions that failed" not in out
    assert all(text in out for text in ("clicks.positive", r"\x1b[2J"))


def test_functions_that_failed_are_shown_escaped(lake, lakehouse):
    failed = FunctionFailures("map price", 3, "clicks/0/4", "ValueError: \x1b[2J")
    lake.rows("calm", 3, topic="clicks")
    lake.rows("hourly", 2, ("ann", 0, 10, 1), topic="clicks", content=batch(counts=RecordCounts(7), failures=(failed,)))
    lake.rows("hourly", 3, topic="clicks", content=UnchangedRows(operation="open epoch"))
    actual = json.loads(lakehouse("status", "--json").out)
    assert {table["name"]: table["failed"] for table in actual["tables"]} == {"calm": [], "hourly": [asdict(failed)]}
    out = lakehouse("status").out
    assert "Functions that failed" in out
    assert all(text in out for text in ("map price", "clicks/0/4", r"ValueError: \x1b[2J"))
    lake.rows("hourly", 4, topic="clicks", content=batch(counts=RecordCounts(2)))
    assert "Functions that failed" not in lakehouse("status").out


def test_the_running_processes_and_what_each_keeps(lake, lakehouse, folder):
    """A lease that a killed process left is nobody's; a quarantine's lease is held for one commit."""
    layout = Layout(str(folder / "lake"))
    killed = table_lease(layout, "left")
    killed.acquire().release()
    Path(layout.lease("silver-left")).write_text('{"pid": 1, "since": 1763741673, "program": "lakehouse"}')
    assert json.loads(lakehouse("status", "--json").out)["processes"] == []
    leases = [ingest_lease, lambda of: table_lease(of, "hourly"), lambda of: sink_lease(of, "out-topic")]
    with ExitStack() as stack:
        for lease in (*leases, lambda of: quarantine_lease(of, "clicks")):
            stack.enter_context(lease(layout))
        (process,) = json.loads(lakehouse("status", "--json").out)["processes"]
        assert process["keeps"] == ["bronze", "table hourly", "topic out-topic"]
        assert f"process {os.getpid()}, since 20" in process["process"]
        assert "bronze, table hourly, topic" in " ".join(lakehouse("status").out.split())
        with pytest.raises(LeaseHeld):
            table_lease(layout, "hourly").check()  # looking took nothing away
    assert json.loads(lakehouse("status", "--json").out)["processes"] == []


def test_doctor_says_what_a_run_would_lack_and_ends_with_1_if_it_can_not_work(lakehouse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no tick yet" in lakehouse("doctor").out
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    result = lakehouse("doctor", "--report")
    assert result.code == 1
    assert "| kafka | problem | Kafka on 127.0.0.1:9 did not answer" in result.out


def test_records_that_expectations_refuse_are_counted_by_expectation(lake, lakehouse):
    orders = lh.stream("orders", key="id string", schema="amount bigint, expectation string")
    judged = orders.expect("positive", "amount > 0").expect("named", "expectation <> ''", otherwise="fail")
    values = ('{"amount": 0, "expectation": "x"}', '{"amount": 1}', '{"amount": -1, "expectation": "y"}', "no JSON",
              '{"amount": "expectation fake: 1", "expectation": "x"}')  # fmt: skip
    records = [Record("orders", "id", 0, offset, 9, b"k", value.encode(), 7, 9) for offset, value in enumerate(values)]
    write_quarantine(lake.root, lh.app(judged.latest("newest")).sources[0], records)
    assert json.loads(lakehouse("status", "--json").out)["refused"] == [
        {"stream": "orders", "expectation": "named", "records": 1, "open": 1},
        {"stream": "orders", "expectation": "positive", "records": 2, "open": 2},
    ]
    assert "Expectations that refuse" in lakehouse("status").out


def declare(lake: WrittenLake, app: lh.App) -> None:
    """Leave what a run of an application leaves of its streams: their declarations, and empty quarantines."""
    for source in app.sources:
        declare_stream(Layout(str(lake.root)), app, source)
        write_quarantine(lake.root, source, [])


def test_fields_that_a_topic_has_and_a_stream_does_not_declare(lake, lakehouse):
    old = '{"id": 1, "before": 1}'
    lake.tick(4, ("orders", "k", 0, 40, old), ("payments", "k", 0, 40, '{"Amount": 1, "other": 1, "Memo": "x"}'))
    for tick in range(5, 30):
        lake.tick(tick, ("orders", "k", 0, tick, '{"id": 1, "amount": 2, "price (EUR)": 3, "nested": {"x": 1}}'))
    lake.tick(30, ("orders", "k", 0, 50, '{"id": 1, "colour\\u001b[2J": 3, "ID": 4}'), ("orders", "k", 0, 51, None))
    orders = lh.stream("orders", key="id bigint", schema="amount bigint, price double from 'price (EUR)'")
    clicks = lh.stream("clicks", key="user string", schema="page string")  # its values are no JSON
    declare(lake, lh.app(orders.latest("newest_orders"), clicks.latest("newest_clicks")))
    script = "CREATE TABLE payments (id VARCHAR PRIMARY KEY, amount INT, other INT) WITH (KAFKA_TOPIC='payments', "
    declare(lake, application(f"{script}VALUE_FORMAT='JSON');"))
    fields = json.loads(lakehouse("status", "--json").out)["undeclared"]
    found = [(field["stream"], field["field"], field["records"], field["of_records"]) for field in fields]
    # Only the newest ticks are looked at, and the names of JSON are as they are but for SQL.
    assert found == [
        ("PAYMENTS", "Memo", 1, 1),
        ("orders", "nested", 19, 20), ("orders", "ID", 1, 20), ("orders", "colour\x1b[2J", 1, 20),
    ]  # fmt: skip
    out = lakehouse("status").out
    assert "Fields that are not declared" in out
    assert r"colour\x1b[2J" in out
    assert "19 of 20" in out


def test_a_topic_with_a_field_for_each_record_shows_some(lake, lakehouse):
    lake.tick(4, *[("orders", "k", 0, n, json.dumps({f"f{n}": 1, "often": 1})) for n in range(100)])
    declare(lake, lh.app(lh.stream("orders", key="id bigint", schema="amount bigint").latest("newest_orders")))
    fields = json.loads(lakehouse("status", "--json").out)["undeclared"]
    assert len(fields) == 20
    assert fields[0]["field"] == "often"


def test_a_plan_tries_new_rules_on_the_newest_records(lake, lakehouse, folder):
    for tick in range(4, 40):
        lake.tick(tick, ("orders", "k", 0, tick, json.dumps({"amount": tick - 30, "item": "tea"})))
    orders = lh.stream("orders", key="id string", schema="amount bigint, item string").expect("old", "amount < 999")
    declare(lake, lh.app(orders.latest("newest_orders")))
    (folder / "app.py").write_text(
        "import lakehouse as lh\n"
        "orders = lh.stream('orders', key='id string', schema='amount bigint, item string', headers='sent')\n"
        "orders = orders.expect('old', 'amount < 999').expect('positive', 'amount > 0', otherwise='warn')\n"
        "orders = orders.expect('named', \"item <> ''\").expect('hashed', 'xxhash64(item) <> 7')\n"
        "orders = orders.expect('sent', 'size(sent) > 0')\n"
        "app = lh.app(orders.latest('newest_orders'))\n"
    )
    rules = json.loads(lakehouse("plan", "--app", "app.py", "--json").out)["new_rules"]
    # Only the newest 20 ticks count; a rule over headers, or that the model can't compute, is left to `test expect`.
    assert [(rule["expectation"], rule["refused"], rule["of_records"], rule["first"]) for rule in rules] == [
        ("positive", 11, 20, "orders/0/16"), ("named", 0, 20, ""),
    ]  # fmt: skip
    out = " ".join(lakehouse("plan", "--app", "app.py").out.split())
    assert (
        "rule positive is new (amount > 0). Of the newest 20 records 11 do not meet it, for example orders/0/16" in out
    )
    assert "lakehouse test expect orders --rule 'amount > 0'" in out
    assert f"lakehouse test expect orders --rule {shlex.quote(rules[1]['condition'])}" in out
    declare(lake, load_app(str(folder / "app.py")))
    assert "new_rules" not in json.loads(lakehouse("plan", "--app", "app.py", "--json").out)
