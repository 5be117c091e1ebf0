"""The audit of tables on a real lake: exact numbers for a sound lake, and each damage found and named.

topic audit-orders, partition 0 (partition 1: o3 ann 1, then o4 of nobody, 2)

    0     1     2       3   4   5      6     7    8      9          10
    ann   bob   commit  aborted        ann   bad  o2     key null   commit
    o1 5  o2 7          records abort  o1 9       null   eve 8

topic audit-clicks, tumbling windows of 10 without grace: 1 3 4 25 | 5 6 7 15 come too late
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.cli.main import main
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.audit.finding import Audit

ORDERS = lh.stream("audit-orders", key="id string", schema="customer string, amount bigint")
CLICKS = lh.stream("audit-clicks", key="user string", schema="n bigint")
CURRENT = ORDERS.latest("current")
TOTALS = ORDERS.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
BY_CUSTOMER = ORDERS.filter("amount < 9").rekey("customer").latest("by_customer")
WINDOWS = CLICKS.group_by("user").window(lh.tumbling("10 milliseconds", grace="0 seconds"))
CLICKED = WINDOWS.agg(n=lh.count(), total=lh.sum("n")).table("clicked")
APP = lh.app(CURRENT, TOTALS, BY_CUSTOMER, CLICKED)
TIMES = [("a", 1), ("a", 3), ("b", 4), ("a", 25), ("a", 5), ("b", 6), ("a", 7), ("a", 15)]

Capture = pytest.CaptureFixture[str]


def order(customer: str | None, amount: int) -> bytes:
    return json.dumps({"customer": customer, "amount": amount}).encode()


def fill(servers: str) -> None:
    cluster = Cluster(servers)
    cluster.create("audit-orders", 2)
    cluster.create("audit-clicks", 1)
    writer = Producer({"bootstrap.servers": servers, "transactional.id": "audit-test", "log_level": 0})
    writer.init_transactions()
    transactions = [
        (True, [("o1", order("ann", 5)), ("o2", order("bob", 7))]),
        (False, [("o1", order("bad", 1)), ("o5", order("bad", 2))]),
        (True, [("o1", order("ann", 9)), ("o6", b"no order"), ("o2", None), (None, order("eve", 8))]),
    ]
    for commit, records in transactions:
        writer.begin_transaction()
        for key, value in records:
            writer.produce("audit-orders", value, key, partition=0)
        writer.flush()
        if commit:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    last = [(b"o3", order("ann", 1)), (b"o4", order(None, 2))]
    produce(servers, {}, "audit-orders", [ProducerRecord(key, value, 1, partition=1) for key, value in last])
    clicks = [ProducerRecord(user.encode(), b'{"n": %d}' % n, time) for n, (user, time) in enumerate(TIMES)]
    produce(servers, {}, "audit-clicks", clicks)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A sound lake."""
    fill(broker.bootstrap_servers)
    made = lake_at(tmp_path_factory.mktemp("audit") / "lake", broker.bootstrap_servers)
    made.run(APP, until="caught_up")
    return made


def lake_at(folder: Path, servers: str | None) -> Lake:
    """A lake in a folder, on a real Kafka or on an embedded one that does not run."""
    folder.mkdir(exist_ok=True)
    environ = {"LAKEHOUSE_LAKE_PATH": str(folder)}
    if servers is not None:
        environ["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"] = servers
    return Lake(settings=load(environ=environ, start=folder))


@pytest.fixture
def damaged(whole: Lake, broker: Broker, tmp_path: Path) -> Lake:
    """A copy of the whole lake, to be damaged."""
    shutil.copytree(whole.settings.lake.path, tmp_path / "lake")
    return lake_at(tmp_path / "lake", broker.bootstrap_servers)


def by_hand(lake: Lake, path: str, *statements: str) -> None:
    """Somebody writes into a table of the lake; {} stands for the table."""
    table = f"delta.`{Path(lake.settings.lake.path) / path}`"
    for statement in statements:
        lake.spark.sql(statement.replace("{}", table))


def delta(lake: Lake, path: str) -> DeltaTable:
    """A table of the lake, for a test to write to without lakehouse."""
    return DeltaTable(str(Path(lake.settings.lake.path) / path))


def found(audit: Audit) -> list[str]:
    return [problem.found.split(": ", 1)[-1] for problem in audit.problems]


def missing(audit: Audit) -> dict[int, dict[str, int]]:
    names = ("noted", "expired", "aborted", "own", "lost", "unknown")
    return {
        item.partition: {name: getattr(item.missing, name) for name in names if getattr(item.missing, name)}
        for item in audit.partitions
    }


EXPECTED = {
    "current": {"current": 3, "superseded": 3, "null_key": 1, "quarantined": 1},
    "totals": {"applied": 5, "null_key": 1, "tombstone": 1, "quarantined": 1},
    "by_customer": {"current": 3, "superseded": 1, "null_key": 1, "quarantined": 1, "left_out": 2},
    "clicked": {"applied": 4, "late": 4},
}


# The fates of `totals` are also those of a damaged one, below.
@pytest.mark.rotated
@pytest.mark.parametrize(
    "table",
    [pytest.param(table, marks=[pytest.mark.slow] * (table is TOTALS)) for table in APP.tables],
    ids=lambda table: table.name,
)
def test_every_offset_has_its_fate(whole: Lake, table: lh.Table) -> None:
    audit = whole.audit(APP, table, deep=True)
    assert (audit.ok, audit.problems) == (True, [])
    assert (audit.fates, audit.notes, audit.waiting) == (EXPECTED[table.name], [], 0)
    assert all(sum(item.fates.values()) == item.offsets == item.records for item in audit.partitions)
    if table is CLICKED:
        assert missing(audit) == {0: {}}
    else:
        assert missing(audit) == {0: {"aborted": 2, "own": 3}, 1: {}}
        assert [(item.first, item.next, item.offsets) for item in audit.partitions] == [(0, 11, 6), (0, 2, 2)]


@pytest.mark.rotated
def test_the_command(whole: Lake, broker: Broker, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    assert main(["audit", "current", "--app", f"{__file__}:APP", "--lake", whole.settings.lake.path]) == 0
    out = capsys.readouterr().out
    assert "current: 3 rows at tick 1 (bronze: 1)" in out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert cells == [
        ["audit-orders", "0", "0 to 10", "6", "1", "3", "1", "1", "2", "3"],
        ["audit-orders", "1", "0 to 1", "2", "2", "0", "0", "0", "0", "0"],
    ]
    assert out.endswith("ok: 8 offsets, each accounted for.\n")
    assert main(["audit", "no such table", "--app", f"{__file__}:APP"]) == 2


@pytest.mark.rotated
def test_rows_that_were_changed_by_hand(damaged: Lake, capsys: Capture) -> None:
    delta(damaged, "quarantine/audit_orders").delete()
    by_hand(damaged, "silver/totals", "UPDATE {} SET total = 99 WHERE customer = 'ann'")
    where = ["--app", f"{__file__}:APP", "--lake", damaged.settings.lake.path]
    assert main(["audit", "totals", *where, "--deep", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    lost, changed = data["problems"]
    assert (data["ok"], data["fates"]) == (False, EXPECTED["totals"])
    assert lost["found"].endswith("1 records that do not fit are not in the quarantine; the first: offset 7")
    assert "remove its folder below quarantine/" in lost["do"]
    assert changed["found"].startswith("the table has 1 rows that a refold from bronze does not have")
    assert changed["found"].endswith('{"customer":"ann","n":3,"total":99}')
    assert changed["expected"] == '1 others, such as {"customer":"ann","n":3,"total":15}'


@pytest.mark.rotated
def test_late_records_that_were_removed_or_added(damaged: Lake) -> None:
    late = delta(damaged, "late/clicked")
    late.delete('"offset" = 6')
    rows = late.to_pyarrow_table()
    write_deltalake(late, rows.filter([offset == 4 for offset in rows["offset"].to_pylist()]), mode="append")
    assert found(damaged.audit(APP, CLICKED)) == [
        "1 records came too late and are not, or not for each window, in late/clicked; the first: offset 6",
        "1 records are in late/clicked for windows that took them, or more than once; the first: offset 4",
    ]


@pytest.mark.rotated
def test_rows_that_were_removed_from_bronze_or_are_there_twice(damaged: Lake) -> None:
    by_hand(
        damaged,
        "bronze/records",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
        f"INSERT INTO {{}} SELECT * FROM {{}} WHERE topic = 'audit-orders' AND value = X'{order('ann', 1).hex()}'",
        "DELETE FROM {} WHERE topic = 'audit-orders' AND partition = 0 AND offset = 6",
    )

    audit = damaged.audit(APP, CURRENT)
    assert missing(audit) == {0: {"aborted": 2, "own": 3, "lost": 1}, 1: {}}
    assert found(audit) == [
        "Kafka has 1 records that bronze does not have; the first: offset 6",
        "1 records are the last of their keys, and no row shows them; the first: offset 0",
        "1 records are shown by rows and are not in bronze; the first: offset 6",
        "1 offsets are in bronze more than once; the first: offset 0",
    ]
    assert [(item.records, item.offsets) for item in audit.partitions] == [(5, 5), (3, 2)]

    alone = lake_at(Path(damaged.settings.lake.path), None).audit(APP, TOTALS)
    assert missing(alone) == {0: {"unknown": 6}, 1: {}}
    assert "the embedded Kafka does not run (lakehouse kafka up): they are Kafka's own" in alone.notes[0]
    assert found(alone) == ["1 offsets are in bronze more than once; the first: offset 0"]
