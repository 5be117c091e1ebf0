"""The DAGs and the page of an application whose lake is on S3 and whose Spark is a cluster, on a real Airflow."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster as KafkaCluster
from lakehouse.process import find_free_port
from tests.cluster.conftest import Cluster
from tests.dags.living import SETTINGS, Living
from tests.s3.server import SECRET, ObjectStore

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, name="orders", key="id string", schema="customer string, amount bigint")
totals = orders.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(totals, totals.changes().to_topic({topic!r} + "-totals"))
"""
PAGE = "/lakehouse/api/applications/shop"
CUSTOMERS = 20


class Shop(Living):
    """The application; orders of amount 1, one customer after the other."""

    def __init__(self, folder: Path, servers: str, store: ObjectStore, master: str) -> None:
        super().__init__(folder, "shop")
        self.topic, self.servers, self.store = f"orders-{uuid.uuid4().hex[:8]}", servers, store
        self.uri, self.sent = store.new_lake(), 0
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        settings = SETTINGS.format(servers=servers, port=find_free_port()).replace(
            'path = "./lake"', f'path = "{self.uri}"\noptions = {store.options()}'
        )
        options = '{ "spark.executor.memory" = "700m", "spark.executor.cores" = "1" }'
        spark = f'[spark]\nmaster = "{master}"\npython = "{sys.executable}"\nmemory = "1g"\noptions = {options}\n'
        (folder / "lakehouse.toml").write_text(settings + spark)
        KafkaCluster(servers).create(self.topic, partitions=2)

    def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        values = [(str(n).encode(), f'{{"customer": "c{n % CUSTOMERS:02}", "amount": 1}}'.encode()) for n in numbers]
        produce(self.servers, {}, self.topic, [ProducerRecord(key, value, 1_000) for key, value in values])
        self.sent += count

    def check(self) -> None:
        """Compare the table with the orders: as many for each customer."""
        table = deltalake.DeltaTable(str(self.store.files(self.uri) / "silver/totals"))
        rows = sorted((row["customer"], row["n"], row["total"]) for row in table.to_pyarrow_table().to_pylist())
        each = self.sent // CUSTOMERS
        assert rows == [(f"c{n:02}", each, each) for n in range(CUSTOMERS)]

    def page(self, path: str = "") -> dict[str, Any]:
        return self.ask("GET", PAGE + path)


@pytest.fixture(scope="module")
def shop(
    broker: Broker, cluster: Cluster, object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    project = Shop(tmp_path_factory.mktemp("shop"), broker.bootstrap_servers, object_store, cluster.master)
    with project.running("app.py") as running:
        yield running


def test_the_dags_work_on_a_lake_on_s3_by_a_cluster(shop: Shop, cluster: Cluster) -> None:
    for _ in range(2):
        shop.send(200)
        run = shop.trigger("catch_up")
        assert set(shop.end("catch_up", run).values()) == {"success"}
        shop.check()
    assert (cluster.folder / "work-0").exists(), "an executor ran on the cluster"
    assert [event["rows"] for event in shop.events("totals")] == [CUSTOMERS, CUSTOMERS]

    run = shop.trigger("reconstruct_point_in_time", table="totals", clock="tick", moment="1", target="totals_then")
    shop.end("reconstruct_point_in_time", run)
    proof = shop.xcom("reconstruct_point_in_time", run, "compare")
    assert (proof["rows"], proof["ways"]) == (CUSTOMERS, 3)

    run = shop.trigger("recovery_drill", table="totals", damage="lost file")
    shop.end("recovery_drill", run)
    assert shop.xcom("recovery_drill", run, "drill", index=0)["ok"] is True

    run = shop.trigger("backfill_range", table="totals", dry_run=False, reason="all of it")
    shop.approve("backfill_range", run)
    shop.end("backfill_range", run)
    shop.check()


def test_the_page_reads_the_lake_on_s3(shop: Shop) -> None:
    overview = shop.page()
    assert overview["lake"] == shop.uri
    versions = shop.page("/tables/totals/versions")["versions"]
    assert versions[-1]["rows"] == CUSTOMERS
    rows = shop.page("/tables/totals/rows?limit=1")
    assert rows["total"] == CUSTOMERS
    difference = shop.page("/tables/totals/difference?a=tick:1&b=tick:2")
    assert (difference["added"], difference["changed"]) == (0, CUSTOMERS)
    assert shop.page("/tables/totals/history?key=c01")
    (explained,) = shop.ask("POST", f"{PAGE}/tables/totals/explain", {"key": "c01"})
    assert len(explained["steps"]) == 20
    (drill,) = shop.page("/drills")
    assert (drill["table"], drill["ok"]) == ("totals", True)
    assert SECRET not in json.dumps([overview, versions, rows, drill])
    logs = [path for path in (shop.folder / ".lakehouse").rglob("*") if path.is_file()]
    assert not [path for path in logs if SECRET.encode() in path.read_bytes()]
