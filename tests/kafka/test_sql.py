"""SQL end to end, on the embedded broker: the worked example's statements, as they stand, and what is asked of them."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from lakehouse.errors import SqlError
from lakehouse.kafka.topics import Cluster
from lakehouse.run.sql.session import SqlSession

STATEMENTS = """
CREATE STREAM myStream (username VARCHAR, location VARCHAR) WITH (KAFKA_TOPIC='input-topic', VALUE_FORMAT='JSON');
CREATE TABLE myTable (username VARCHAR, location VARCHAR) WITH (KAFKA_TOPIC='input-topic', KEY='username', VALUE_FORMAT='JSON');
CREATE TABLE visitedLocationsPerUser AS SELECT username, COUNT(*) FROM myStream GROUP BY username;
"""  # noqa: E501 - as they stand
INPUT = [("alice", "Paris"), ("bob", "Sydney"), ("alice", "Rome"), ("bob", "Lima"), ("alice", "Berlin")]


@pytest.mark.rotated
def test_the_worked_example(lake: Any, cluster: Cluster, send: Any, records: Any) -> None:
    cluster.create("input-topic", partitions=1)
    own = lake()
    session = SqlSession(own.settings)
    session.script.run(STATEMENTS)
    sent = [
        (user, json.dumps({"username": user, "location": place}), 1_000 + n) for n, (user, place) in enumerate(INPUT)
    ]
    send("input-topic", sent[:3])
    own.run(session.script.app(), until="caught_up")
    send("input-topic", sent[3:])
    own.run(session.script.app(), until="caught_up")

    def asked(statement: str) -> list[tuple[object, ...]]:
        (answer,) = session.run(statement)
        return sorted(answer.rows)

    assert asked("SELECT * FROM myTable;") == [("alice", "Berlin"), ("bob", "Lima")]
    assert asked("SELECT * FROM visitedLocationsPerUser;") == [("alice", 3), ("bob", 2)]
    assert asked("SELECT * FROM visitedLocationsPerUser AT TICK 1;") == [("alice", 2), ("bob", 1)]
    assert asked("SELECT location FROM myStream WHERE username = 'bob';") == [("Lima",), ("Sydney",)]
    assert asked("SELECT KSQL_COL_0 AS n FROM visitedLocationsPerUser AT '1970-01-01T00:00:01.002Z' LIMIT 5;") == [
        (1,),
        (2,),
    ]
    published = [(m.key().decode(), json.loads(m.value())["KSQL_COL_0"]) for m in records("VISITEDLOCATIONSPERUSER")]
    assert published == [("alice", 1), ("bob", 1), ("alice", 2), ("bob", 2), ("alice", 3)]


def test_records_are_inserted_and_topics_asked(lake: Any, cluster: Cluster, records: Any) -> None:
    cluster.create("inserted", partitions=1)
    session = SqlSession(lake("asking").settings)
    list(
        session.run(
            "CREATE STREAM s (id INT KEY, name VARCHAR, at TIMESTAMP) "
            "WITH (kafka_topic='inserted', value_format='JSON');"
            "INSERT INTO s (id, name, at) VALUES (1, 'a', '1970-01-01T00:00:02');"
            "INSERT INTO s (ROWTIME, id) VALUES (5, 2);"
        )
    )
    actual = records("inserted")
    assert [(m.key(), json.loads(m.value())) for m in actual] == [
        (b"\x00\x00\x00\x01", {"NAME": "a", "AT": 2000}),
        (b"\x00\x00\x00\x02", {"NAME": None, "AT": None}),
    ]
    assert actual[1].timestamp()[1] == 5
    (answer,) = session.run("PRINT 'inserted' FROM BEGINNING LIMIT 1;")
    assert [row[1:3] for row in answer.rows] == [(0, 0)]
    (answer,) = session.run("PRINT 'inserted' FROM BEGINNING INTERVAL 2 LIMIT 1;")
    assert [row[1:3] for row in answer.rows] == [(0, 0)]
    (answer,) = session.run("PRINT 'inserted' LIMIT 2;")
    coming: list[tuple[object, ...]] = []
    printing = threading.Thread(target=lambda: coming.extend(answer.rows), daemon=True)
    printing.start()
    until = time.monotonic() + 30
    while printing.is_alive() and time.monotonic() < until:
        list(session.run("INSERT INTO s (id, name) VALUES (3, 'later');"))
        printing.join(0.5)
    assert [row[3] for row in coming] == [b"\x00\x00\x00\x03"] * 2, "of those that came after it began"
    (answer,) = session.run("SHOW TOPICS;")
    assert ("inserted", 1) in list(answer.rows)
    (answer,) = session.run("ASSERT TOPIC 'inserted';")
    assert answer.message == "Topic inserted exists."
    with pytest.raises(SqlError, match="topic nowhere does not exist"):
        list(session.run("ASSERT TOPIC 'nowhere';"))
