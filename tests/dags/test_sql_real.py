"""An application in SQL in a real Airflow: its DAGs, a catch-up, a past moment, and CREATE OR REPLACE as a backfill.

The tests share one lake, and each goes on where the one before ended.
Where each part comes from: tests/dags/test_applications_real.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.process import find_free_port

from .living import KEPT_SPARK, SETTINGS, Living

pytestmark = pytest.mark.airflow

APP = """
CREATE STREAM visits (username VARCHAR, location VARCHAR) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
CREATE TABLE lastPlace (username VARCHAR, location VARCHAR)
  WITH (KAFKA_TOPIC='{topic}', KEY='username', VALUE_FORMAT='JSON');
CREATE TABLE perUser WITH (KAFKA_TOPIC='{topic}-per-user') AS
  SELECT username, COUNT(*) AS n FROM visits GROUP BY username;
"""
REPLACED = """
CREATE OR REPLACE TABLE perUser WITH (KAFKA_TOPIC='{topic}-per-user') AS
  SELECT username, COUNT_DISTINCT(location) AS n FROM visits GROUP BY username;
"""


class Visits(Living):
    """The application, and where its records go."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, "visits")
        self.topic, self.servers = f"visits-{uuid.uuid4().hex[:8]}", servers
        self.declare(APP)
        (folder / "lakehouse.toml").write_text(SETTINGS.format(servers=servers, port=find_free_port()) + KEPT_SPARK)
        Cluster(servers).create(self.topic, partitions=1)

    def declare(self, *statements: str) -> None:
        (self.folder / "app.sql").write_text("".join(statements).format(topic=self.topic))

    def send(self, *visits: tuple[str, str]) -> None:
        values = [
            (user.encode(), f'{{"username": "{user}", "location": "{place}"}}'.encode()) for user, place in visits
        ]
        produce(self.servers, {}, self.topic, [ProducerRecord(*pair, 1000) for pair in values])


@pytest.fixture(scope="module")
def visits(broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visits]:
    with Visits(tmp_path_factory.mktemp("visits"), broker.bootstrap_servers).running("app.sql") as running:
        yield running


def test_an_application_in_sql_is_caught_up(visits: Visits) -> None:
    visits.send(("alice", "Paris"), ("bob", "Sydney"), ("alice", "Rome"))
    assert set(visits.end("catch_up", visits.trigger("catch_up")).values()) == {"success"}
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 1)]
    assert visits.rows("LASTPLACE") == [("alice", "Rome"), ("bob", "Sydney")]


def test_a_moment_of_a_table_in_sql_becomes_a_table(visits: Visits) -> None:
    visits.send(("bob", "Sydney"), ("carol", "Oslo"))
    visits.end("catch_up", visits.trigger("catch_up"))
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 2), ("carol", 1)]
    asked = {"table": "PERUSER", "clock": "tick", "moment": "1", "target": "per_user_then"}
    run = visits.trigger("reconstruct_point_in_time", **asked)
    visits.end("reconstruct_point_in_time", run)
    proof = visits.xcom("reconstruct_point_in_time", run, "compare")
    assert (proof["rows"], proof["ways"]) == (2, 3)
    assert visits.rows("per_user_then") == [("alice", 2), ("bob", 1)]


def test_create_or_replace_is_planned_built_beside_approved_and_swapped_in(visits: Visits) -> None:
    visits.declare(APP, REPLACED)
    visits.lakehouse("airflow", "add", "app.sql", "--name", "visits")
    dry = visits.trigger("backfill_range", table="PERUSER")
    visits.end("backfill_range", dry)
    planned = visits.xcom("backfill_range", dry, "plan")
    assert [planned[of] for of in ("added", "removed", "changed")] == [0, 0, 1], "bob was in one place, twice"
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 2), ("carol", 1)]
    reason = "places, not visits"
    run = visits.trigger("backfill_range", table="PERUSER", dry_run=False, reason=reason)
    assert "changed: **1**" in visits.approve("backfill_range", run)
    states = visits.end("backfill_range", run)
    assert [states[task] for task in ("backfill/0", "reconcile", "discard")] == ["success"] * 3
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 1), ("carol", 1)]
    assert visits.events("PERUSER")[-1]["reason"] == reason
    visits.send(("bob", "Lima"), ("bob", "Lima"))
    visits.end("catch_up", visits.trigger("catch_up"))
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 2), ("carol", 1)], "it goes on with the new logic"
    assert visits.rows("LASTPLACE") == [("alice", "Rome"), ("bob", "Lima"), ("carol", "Oslo")]
