"""An application in SQL in a real Airflow: its DAGs, and a catch-up.

Where each part comes from: tests/dags/test_applications_real.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.kafka.process import free_port
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster

from .living import SETTINGS, Living

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(3600)]

APP = """
CREATE STREAM visits (username VARCHAR, location VARCHAR) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
CREATE TABLE lastPlace (username VARCHAR, location VARCHAR)
  WITH (KAFKA_TOPIC='{topic}', KEY='username', VALUE_FORMAT='JSON');
CREATE TABLE perUser WITH (KAFKA_TOPIC='{topic}-per-user') AS
  SELECT username, COUNT(*) AS n FROM visits GROUP BY username;
"""


class Visits(Living):
    """The application, and where its records go."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, "visits")
        self.topic, self.servers = f"visits-{uuid.uuid4().hex[:8]}", servers
        self.declare(APP)
        (folder / "lakehouse.toml").write_text(SETTINGS.format(servers=servers, port=free_port()))
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
    made = Visits(tmp_path_factory.mktemp("visits"), broker.bootstrap_servers)
    try:
        made.lakehouse("airflow", "up", "--app", "app.sql", "--name", "visits")
        made.lakehouse("airflow", "add", "app.sql", "--name", "visits")
        made.sign_in()
        yield made
    finally:
        made.lakehouse("airflow", "down")


def test_an_application_in_sql_is_caught_up(visits: Visits) -> None:
    visits.send(("alice", "Paris"), ("bob", "Sydney"), ("alice", "Rome"))
    assert set(visits.end("catch_up", visits.trigger("catch_up")).values()) == {"success"}
    assert visits.rows("PERUSER") == [("alice", 2), ("bob", 1)]
    assert visits.rows("LASTPLACE") == [("alice", "Rome"), ("bob", "Sydney")]
