"""The DAGs of an application for real: Airflow's four processes, its REST API, Kafka, Spark, Delta. In this order.

What it builds on, and where each part comes from:

    broker          the session fixture `broker` of tests/conftest.py
    Airflow         `lakehouse airflow up`, in the folder of the application, ended by `lakehouse airflow down`
    application     APP below, on a topic of its own; `lakehouse airflow add` wrote its manifest

Starting Spark costs seconds, so the tests share one lake, and each goes on where the one before ended.
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.process import find_free_port

from .living import KEPT_SPARK, SETTINGS, Living, Refused, wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.airflow

APP = """
import dataclasses
import lakehouse as lh

orders = lh.stream({topic!r}, name="orders", key="id string", schema="customer string, amount decimal(10, 2)")
totals = orders.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(totals, totals.changes().to_topic({topic!r} + "-totals"))


def repair(record):
    return dataclasses.replace(record, value=record.value.replace(b" EUR", b""))
"""
DAY_MS = 86_400_000
START_MS = 1_372_896_000_000  # 2013-07-04T00:00Z


class Shop(Living):
    """The application, and every order it ever got."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, "shop")
        self.topic, self.servers = f"orders-{uuid.uuid4().hex[:8]}", servers
        self.orders: list[tuple[str, Decimal]] = []
        self.count = 0
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        self.settings = SETTINGS.format(servers=servers, port=find_free_port())
        (folder / "lakehouse.toml").write_text(self.settings + KEPT_SPARK)
        Cluster(servers).create(self.topic, partitions=2)

    def send(self, count: int, day: int, bad: bool = False) -> None:
        """Produce orders of a day; `bad`: one more, which doesn't fit until it is repaired."""
        records = []
        for n in range(count):
            customer, amount = f"c{n % 200:03}", Decimal(n % 97) / 4
            self.orders.append((customer, amount))
            records.append(self._record(customer, str(amount), day))
        if bad:
            records.append(self._record("c000", '"9.25 EUR"', day))
        produce(self.servers, {}, self.topic, records)

    def _record(self, customer: str, amount: str, day: int) -> ProducerRecord:
        self.count += 1
        value = f'{{"customer": "{customer}", "amount": {amount}}}'
        return ProducerRecord(str(self.count).encode(), value.encode(), START_MS + day * DAY_MS + self.count % 1000)

    def wanted(self) -> list[tuple[str, int, Decimal]]:
        """The expected table, folded here in plain Python."""
        sums: dict[str, tuple[int, Decimal]] = {}
        for customer, amount in self.orders:
            n, total = sums.get(customer, (0, Decimal(0)))
            sums[customer] = (n + 1, total + amount)
        return sorted((customer, *of) for customer, of in sums.items())

    def check(self) -> None:
        assert [tuple(row) for row in self.rows("totals")] == self.wanted()

    def damage(self, spark: SparkSession) -> None:
        """Write into the table by hand."""
        spark.sql(f"UPDATE delta.`{self.folder}/lake/silver/totals` SET total = -1 WHERE customer = 'c001'")
        assert self.rows("totals") != self.wanted()


@pytest.fixture(scope="module")
def shop(broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop"), broker.bootstrap_servers).running(
        "app.py", "--freshness-minutes", "1"
    ) as running:
        yield running


def test_a_catch_up_brings_the_tables_forward_and_reports_them(shop: Shop) -> None:
    shop.send(600, day=0)
    shop.send(400, day=1, bad=True)
    run = shop.trigger("catch_up")
    states = shop.end("catch_up", run)
    assert set(states.values()) == {"success"}
    shop.check()
    ingested, silver = (shop.xcom("catch_up", run, task) for task in ("ingest", "silver"))
    assert (ingested["event"], ingested["rows"]) == ("done", 1001)
    (told,) = shop.events("totals")
    assert (told["rows"], told["tick"], told["version"]) == (200, silver["tick"], silver["tables"]["totals"]["version"])
    assert sum(told["offsets"][shop.topic].values()) == 1001
    assert shop.tasks("catch_up", run)["silver"]["pool"] == "lakehouse_shop"
    assert shop.ask("GET", "/api/v2/pools/lakehouse_shop")["slots"] == 1, "one writer of the application at a time"
    link = shop.ask("GET", f"/api/v2/dags/shop__catch_up/dagRuns/{run}/taskInstances/silver/links")
    assert link["extra_links"] == {"Streams & Tables": "/lakehouse/?app=shop"}


def test_a_moment_becomes_a_table_that_is_proved(shop: Shop) -> None:
    asked = {"table": "totals", "clock": "tick", "moment": "1", "target": "totals_then"}
    run = shop.trigger("reconstruct_point_in_time", **asked)
    shop.end("reconstruct_point_in_time", run)
    proof = shop.xcom("reconstruct_point_in_time", run, "compare")
    assert (proof["rows"], proof["ways"]) == (200, 3)
    assert shop.rows("totals_then") == shop.wanted()


def test_hostile_and_unknown_params_start_nothing(shop: Shop) -> None:
    for conf in ({"table": "totals; id"}, {"table": "totals", "from": "$(id)"}, {"table": ["totals"]}):
        with pytest.raises(Refused, match="400"):
            shop.trigger("backfill_range", **conf)
    run = shop.trigger("backfill_range", table="totals", **{"--help": "{{ 7 * 7 }}"})
    assert wait(lambda: (state := shop.state("backfill_range", run)) in ("success", "failed") and state, "its end") == (
        "failed"
    )
    states = {task: of["state"] for task, of in shop.tasks("backfill_range", run).items()}
    assert states.pop("check_request") == "failed"
    assert set(states.values()) == {"upstream_failed"}


def test_a_backfill_is_planned_approved_done_and_reported_once(shop: Shop, spark: SparkSession) -> None:
    shop.damage(spark)
    reason = "a wrong UPDATE; $(id) `id` \"'{{ 7 * 7 }}"
    run = shop.trigger(
        "backfill_range", table="totals", dry_run=False, reason=reason, **{"from": "2013-07-04", "to": "2013-07-06"}
    )
    shown = shop.approve("backfill_range", run)
    assert "changed: **1**" in shown
    states = shop.end("backfill_range", run)
    assert [states[task] for task in ("backfill/0", "backfill/1", "reconcile", "discard")] == ["success"] * 4
    shop.check()
    assert [told.get("reason") for told in shop.events("totals")] == ["", reason]
    (done,) = [json.loads(item) for item in shop.lakehouse("look", "interventions", "totals", "--json").splitlines()]
    assert done["reason"] == reason


def test_airflows_own_backfill_repairs_without_a_flood_of_events(shop: Shop, spark: SparkSession) -> None:
    shop.damage(spark)
    told = shop.events("totals")
    shop.pause("backfill_interval", False)
    body = {
        "dag_id": "shop__backfill_interval", "from_date": "2013-07-04T00:00:00Z", "to_date": "2013-07-05T00:00:00Z",
        "max_active_runs": 2,
    }  # fmt: skip
    made = shop.ask("POST", "/api/v2/backfills", body)["id"]
    wait(lambda: shop.ask("GET", f"/api/v2/backfills/{made}")["completed_at"], "the end of the backfill")
    by_hand = shop.trigger("backfill_interval")  # has no logical date, so no interval, and names none
    wait(lambda: shop.state("backfill_interval", by_hand) == "failed", "the refusal")
    named = shop.trigger("backfill_interval", **{"from": "2013-07-04", "to": "2013-07-05"})
    assert shop.end("backfill_interval", named)["backfill/0"] == "success"
    shop.pause("backfill_interval", True)
    runs = shop.ask("GET", "/api/v2/dags/shop__backfill_interval/dagRuns")["dag_runs"]
    actual = {item["data_interval_start"][:10]: item["state"] for item in runs if item["run_type"] == "backfill"}
    assert actual == {"2013-07-04": "success", "2013-07-05": "success"}
    shop.check()
    assert shop.events("totals") == told


def test_a_drill_finds_the_damage_and_restores(shop: Shop) -> None:
    run = shop.trigger("recovery_drill", table="totals", damage="lost file")
    shop.end("recovery_drill", run)
    (drilled,) = [json.loads(item) for item in shop.lakehouse("test", "drill", "--history", "--json").splitlines()]
    assert (drilled["table"], drilled["ok"]) == ("totals", True)
    assert shop.xcom("recovery_drill", run, "drill", index=0)["ok"] is True


def test_quarantined_records_count_after_approval(shop: Shop) -> None:
    run = shop.trigger("quarantine_replay", stream="orders", fix="repair", dry_run=False, reason="units")
    assert "fit: **1**" in shop.approve("quarantine_replay", run)
    shop.end("quarantine_replay", run)
    shop.orders.append(("c000", Decimal("9.25")))
    shop.check()
    again = shop.trigger("quarantine_replay", stream="orders", fix="repair", dry_run=False, reason="once more")
    shop.approve("quarantine_replay", again)
    shop.end("quarantine_replay", again)
    assert shop.xcom("quarantine_replay", again, "replay")["tick"] is None, "what was replayed is left out"
    shop.check()


def test_new_logic_is_refused_deployed_after_approval_and_taken_back(shop: Shop) -> None:
    file, orders = shop.folder / "app.py", shop.orders
    before = file.read_text()
    file.write_text(before.replace("orders.group_by", 'orders.filter("amount >= 10").group_by'))
    refused = shop.trigger("catch_up")
    wait(lambda: shop.state("catch_up", refused) == "failed", "the refusal of the new logic")
    shop.send(50, day=2)
    run = shop.trigger("deploy", dry_run=False, reason="large orders only")
    assert "totals\\: 0 rows added" in shop.approve("deploy", run)
    states = shop.end("deploy", run)
    assert [states[task] for task in ("stage", "promote", "unstage")] == ["success"] * 3
    shop.end("catch_up", shop.trigger("catch_up"))
    shop.orders = [order for order in orders if order[1] >= 10]
    shop.check()
    assert shop.events("totals")[-2]["reason"] == "large orders only"
    file.write_text(before)
    back = shop.trigger("deploy", dry_run=False, reason="all orders")
    shop.approve("deploy", back)
    shop.end("deploy", back)
    shop.orders = orders
    shop.check()


def test_what_is_approved_is_what_was_shown(shop: Shop) -> None:
    """Airflow keeps the first text of a run: after a clear, another plan would be approved unseen."""
    file = shop.folder / "app.py"
    before = file.read_text()
    file.write_text(before.replace("orders.group_by", 'orders.filter("amount >= 20").group_by'))
    run = shop.trigger("deploy", dry_run=False, reason="twenty or more")
    wait(lambda: shop.tasks("deploy", run)["approve"]["state"] == "awaiting_input", "the question")
    file.write_text(before.replace("orders.group_by", 'orders.filter("amount >= 5").group_by'))
    body = {
        "dry_run": False, "dag_run_id": run, "task_ids": ["stage"], "include_downstream": True, "only_failed": False,
        "reset_dag_runs": True,
    }  # fmt: skip
    shop.ask("POST", "/api/v2/dags/shop__deploy/clearTaskInstances", body)
    wait(lambda: shop.state("deploy", run) == "failed", "the refusal of another text")
    states = {task: of["state"] for task, of in shop.tasks("deploy", run).items()}
    assert (states["approve"], states["promote"]) == ("failed", "upstream_failed")
    file.write_text(before)
    shop.check()


def test_maintenance_keeps_versions_for_a_week(shop: Shop) -> None:
    with pytest.raises(Refused, match="400"):
        shop.trigger("table_maintenance", keep_hours=167)
    run = shop.trigger("table_maintenance", table="totals", keep_hours=200)
    shop.end("table_maintenance", run)
    (actual,) = [
        item for item in shop.xcom("table_maintenance", run, "upkeep")["tables"] if item["name"] == "silver/totals"
    ]
    assert actual["kept"][0] == "versions of 8.33333 days"


def _family(folder: Path) -> list[psutil.Process]:
    """The leash process of a task's command for this folder, and all its descendants."""
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if "lakehouse_leash.py" in words and "--only=silver" in words and str(folder) in words:
            return [process, *process.children(recursive=True)]
    return []


def test_killed_in_the_middle_of_a_merge_and_cleared_it_is_the_identical_table(shop: Shop) -> None:
    """The worker's task and all its descendants get SIGKILL when MERGE has written files and not committed them.

    By then the run is late, and this is reported: the DAG was paused until its minute had passed.
    """
    (shop.folder / "lakehouse.toml").write_text(shop.settings)  # each task with a Spark of its own, which is killed too
    shop.lakehouse("spark", "stop")
    shop.send(40_000, day=2)
    silver = shop.folder / "lake" / "silver" / "totals"
    shop.pause("catch_up", True)
    run = shop.trigger("catch_up")
    path = f"/ui/dags/shop__catch_up/dagRuns/{run}/deadlines"
    wait(lambda: any(item["missed"] for item in shop.ask("GET", path)["deadlines"]), "the missed deadline", 200)
    logs = shop.folder / ".lakehouse" / "airflow" / "logs"
    wait(lambda: any("is not fresh" in file.read_text(errors="replace") for file in logs.rglob("*.log")), "alert", 100)
    shop.pause("catch_up", False)

    wait(lambda: _family(shop.folder), "the silver task", pause_s=0.05)
    before = set(silver.rglob("*.parquet"))
    wait(lambda: set(silver.rglob("*.parquet")) - before, "files of the MERGE", pause_s=0.01)
    family = _family(shop.folder)
    for process in [family[0].parent(), *family]:
        with suppress(ProcessLookupError):  # a child ends with its parent
            os.kill(process.pid, signal.SIGKILL)
    assert shop.rows("totals") != shop.wanted(), "it had committed: the kill came too late"
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive

    wait(lambda: shop.tasks("catch_up", run)["silver"]["state"] in ("up_for_retry", "failed"), "Airflow's notice")
    body: dict[str, Any] = {
        "dag_run_id": run, "task_ids": ["silver"], "include_downstream": True, "only_failed": False, "dry_run": False,
    }  # fmt: skip
    shop.ask("POST", "/api/v2/dags/shop__catch_up/clearTaskInstances", body)
    states = shop.end("catch_up", run)
    assert states["silver"] == "success"
    shop.check()
    assert shop.events("totals")[-1]["rows"] == 200
