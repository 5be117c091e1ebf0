"""docs/sql.md, its commands and its questions: an application in SQL on a real Kafka and Spark, and its page."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.page.applications import read_application
from lakehouse.page.overview import read_overview
from lakehouse.page.row_history import row_history
from lakehouse.page.versions import list_versions

from .conftest import Command

APP = """
CREATE STREAM myStream (username VARCHAR, location VARCHAR) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
CREATE TABLE myTable (username VARCHAR, location VARCHAR)
  WITH (KAFKA_TOPIC='{topic}', KEY='username', VALUE_FORMAT='JSON');
CREATE TABLE visitedLocationsPerUser WITH (KAFKA_TOPIC='{topic}-visited') AS
  SELECT username, COUNT(*) AS n FROM myStream GROUP BY username;
"""
VISITS = [("alice", "Paris"), ("bob", "Sydney"), ("alice", "Rome"), ("bob", "Sydney"), ("alice", "Berlin")]
TABLE = "visitedLocationsPerUser"
WITH_APP = ("--app", "app.sql", "--json")


def rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_an_application_in_sql_is_run_and_asked(spark, folder: Path, broker: Broker, lakehouse: Command) -> None:
    topic = f"visits-{uuid.uuid4().hex[:8]}"
    (folder / "lakehouse.toml").write_text(
        f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
    )

    def ran(*words: str) -> list[Any]:
        outcome = lakehouse(*words)
        assert outcome.code == 0, (words, outcome.out, outcome.err)
        return rows(outcome.out)

    def asked(statement: str) -> list[list[Any]]:
        actual = ran("sql", "--app", "app.sql", "--json", "-e", statement)
        return sorted(list(row.values()) for row in actual if row != {"message": "Done."})

    def send(*visits: tuple[str, str], first: int) -> None:
        each = [
            {"key": user, "value": {"username": user, "location": place}, "timestamp": 1000 * n}
            for n, (user, place) in enumerate(visits, first)
        ]
        (folder / "visits.jsonl").write_text("".join(json.dumps(item) + "\n" for item in each))
        ran("kafka", "produce", topic, "visits.jsonl", *(["--partitions", "1"] if first == 1 else []))

    (folder / "app.sql").write_text(APP.format(topic=topic))
    send(*VISITS[:3], first=1)
    ran("run", "--app", "app.sql", "--until", "caught-up", "--json")
    send(*VISITS[3:], first=4)
    ran("run", "--app", "app.sql", "--until", "caught-up", "--json")
    assert asked("SELECT * FROM myTable;") == [["alice", "Berlin"], ["bob", "Sydney"]]
    assert asked(f"SELECT * FROM {TABLE} AT TICK 1;") == [["alice", 2], ["bob", 1]]
    assert asked(f"SELECT * FROM {TABLE} AT '1970-01-01T00:00:04Z';") == [["alice", 2], ["bob", 2]]
    assert asked(f"SELECT * FROM {TABLE} AT OFFSETS '{topic}/0=1';") == [["alice", 1]]
    first = "SET 'auto.offset.reset' = 'earliest'; "
    assert asked(f"{first}SELECT n FROM {TABLE} EMIT CHANGES LIMIT 2;") == [[1], [2]]
    assert len(asked(f"PRINT '{topic}-visited' FROM BEGINNING LIMIT 5;")) == 5

    (told,) = ran("past", "explain", TABLE, "--key", "alice", *WITH_APP)
    assert [(step["did"], step["row"]["N"]) for step in told["steps"]] == [
        ("inserted", 1), ("updated", 2), ("updated", 3),
    ]  # fmt: skip
    assert told["agrees"]
    (audited,) = ran("test", "audit", TABLE, *WITH_APP)
    assert audited["problems"] == []
    assert ran("past", "diff", TABLE, "tick:1", "now", "--json")[-1] == {"added": 0, "removed": 0, "changed": 2}
    assert ran("past", "blame", TABLE, "--key", "bob", "--json")

    ran("airflow", "add", "app.sql", "--name", "visits", "--json")
    app = read_application(folder / ".lakehouse" / "airflow" / "applications", "visits")
    facts = read_overview(app)
    assert ["stream:MYSTREAM", f"table:{TABLE.upper()}"] in facts["edges"]
    shown = facts["tables"][TABLE.upper()]
    assert (shown["rows"], shown["tick"], shown["key"], shown["behind_records"]) == (2, 2, ["USERNAME"], 0)
    of = app.table(TABLE.upper())
    assert [item["rows"] for item in list_versions(app, of)["versions"]][-1] == 2
    history = row_history(app, of, "alice", None, 10)["changes"]
    assert [(item["change"], item["after"]["N"]) for item in history] == [("updated", 3), ("inserted", 2)]

    ran("repair", "revert", "myTable", "--tick", "1", "--why", "a bad delivery", *WITH_APP)
    assert asked("SELECT * FROM myTable;") == [["alice", "Rome"], ["bob", "Sydney"]]
    ran("kafka", "produce", topic, "visits.jsonl")
    ran("run", "--app", "app.sql", "--until", "caught-up", "--json")
    assert asked("SELECT * FROM myTable;") == [["alice", "Berlin"], ["bob", "Sydney"]]
    assert asked(f"SELECT * FROM {TABLE};") == [["alice", 4], ["bob", 3]]
