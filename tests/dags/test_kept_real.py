"""The tasks of an application on a Spark that the task before has left, on a real Airflow, Kafka, Spark and Delta."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse.airflow import members
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.process import find_free_port

from .living import KEPT_SPARK, SETTINGS, Living

pytestmark = pytest.mark.airflow

APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, name="orders", key="id string", schema="customer string, amount int")
app = lh.app(orders.group_by("customer").agg(n=lh.count()).table("totals"))
"""


class Depot(Living):
    """The application; its settings keep Spark, also in a container."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, "depot")
        self.topic, self.servers = f"kept-{uuid.uuid4().hex[:8]}", servers
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        settings = SETTINGS.format(servers=servers, port=find_free_port())
        (folder / "lakehouse.toml").write_text(settings + KEPT_SPARK)
        Cluster(servers).create(self.topic, partitions=2)

    def send(self, first: int, last: int) -> None:
        values = ((n, f'{{"customer": "c{n % 20}", "amount": {n}}}') for n in range(first, last))
        produce(self.servers, {}, self.topic, (ProducerRecord(str(n).encode(), value.encode()) for n, value in values))

    def engines(self) -> list[dict[str, Any]]:
        return [
            engine for engine in json.loads(self.lakehouse("spark", "status", "--json"))
            if engine["folder"] == str(self.folder)
        ]  # fmt: skip

    def seconds(self, kind: str, run: str) -> dict[str, float]:
        return {task: of["duration"] for task, of in self.tasks(kind, run).items() if of["duration"]}


@pytest.fixture(scope="module")
def depot(broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Depot]:
    with Depot(tmp_path_factory.mktemp("depot"), broker.bootstrap_servers).running("app.py") as running:
        yield running


def test_tasks_follow_each_other_on_one_java_that_ends_with_airflow(depot: Depot) -> None:
    depot.send(0, 500)
    depot.end("catch_up", depot.trigger("catch_up"))
    (first,) = depot.engines()
    run = depot.trigger("catch_up")
    depot.end("catch_up", run)
    print(f"a catch-up with nothing to do: {depot.seconds('catch_up', run)}")
    run = depot.trigger("backfill_range", table="totals", dry_run=False, reason="a test")
    depot.approve("backfill_range", run)
    depot.end("backfill_range", run)
    print(f"a backfill: {depot.seconds('backfill_range', run)}")
    (last,) = depot.engines()
    assert last["pid"] == first["pid"], "one Java for all tasks, whoever decided them"
    assert depot.rows("totals") == [(f"c{n}", 25) for n in sorted(range(20), key=lambda n: f"c{n}")]
    home = depot.folder / ".lakehouse/airflow"
    assert {last["pid"], last["keeper"]} <= {process.pid for process in members.processes_of_home(home)}
    depot.lakehouse("airflow", "down")
    assert not psutil.pid_exists(last["pid"])
    assert not psutil.pid_exists(last["keeper"])
    assert depot.engines() == []
