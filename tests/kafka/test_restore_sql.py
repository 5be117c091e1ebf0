"""Tables in SQL restored from their topics, which have the formats that ksqlDB would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.ksql.script import Script
from lakehouse.run.lake import Lake
from lakehouse.run.start.application import load_app

pytestmark = pytest.mark.slow

T = 1_700_000_000_000
STATEMENTS = """
CREATE STREAM hits (page VARCHAR KEY, day DATE, at TIMESTAMP) WITH (kafka_topic='hits', value_format='JSON');
CREATE TABLE per_page WITH (key_format='JSON') AS
  SELECT page, MAX(at) AS newest, COLLECT_LIST(day) AS days, LATEST_BY_OFFSET(at, 2) AS last FROM hits GROUP BY page;
CREATE TABLE per_day WITH (format='DELIMITED') AS SELECT day, page, COUNT(*) AS n FROM hits GROUP BY day, page;
CREATE TABLE busy WITH (format='DELIMITED') AS SELECT page, COUNT(*) AS n FROM hits GROUP BY page HAVING COUNT(*) > 1;
CREATE TABLE closed AS
  SELECT page, COUNT(*) AS n FROM hits WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL;
"""
JOINED = """
CREATE STREAM bids (id VARCHAR KEY, price BIGINT) WITH (kafka_topic='sql-bids', value_format='JSON');
CREATE STREAM asks (id VARCHAR KEY, price BIGINT) WITH (kafka_topic='sql-asks', value_format='JSON');
CREATE TABLE met WITH (value_format='JSON') AS
  SELECT b.id AS id, COUNT(*) AS n, COLLECT_LIST(a.price) AS asked FROM bids b
  LEFT JOIN asks a WITHIN 20 SECONDS GRACE PERIOD 5 SECONDS ON b.id = a.id GROUP BY b.id;
CREATE TABLE often AS
  SELECT b.id AS id, COUNT(*) AS n, SUM(a.price) AS total FROM bids b
  JOIN asks a WITHIN 20 SECONDS GRACE PERIOD 5 SECONDS ON b.id = a.id GROUP BY b.id HAVING COUNT(*) > 1;
"""


def rows(lake: Lake, table: lh.Table) -> list[str]:
    return sorted(map(str, lake.read(table).collect()))


def test_tables_are_restored_from_the_formats_in_which_they_are_written(lake: Any, cluster: Any, send: Any) -> None:
    script = Script()
    script.run(STATEMENTS)
    app = script.app()
    cluster.create("hits")
    one, two = lake("a"), lake("b")
    send("hits", [("a", '{"day": 3, "at": 1500}', T), ("b", '{"day": -1, "at": null}', T + 1)])
    one.run(app, until="caught_up")
    for table in app.tables:
        # A group that HAVING hides, and windows that are open, are in the topic beside the table's.
        assert two.restore(table, table.name) == (0 if table.name in ("BUSY", "CLOSED") else 2)
        assert rows(two, table) == rows(one, table)
    send("hits", [("a", '{"day": 3, "at": 2500}', T + 2000)])
    two.run(app, until="caught_up")
    one.run(lh.app(*app.tables), until="caught_up")  # it must not publish to the topics of the restored ones
    for table in app.tables:
        assert rows(two, table) == rows(one, table) != []


def test_tables_of_a_file_behind_joins_of_streams_go_on_as_in_a_lake_that_never_stopped(
    lake: Any, cluster: Any, send: Any, records: Any, tmp_path: Path
) -> None:
    """Bids are restored while they wait for asks, in four partitions; and again from what the second lake published."""
    (tmp_path / "met.sql").write_text(JOINED)
    app = load_app(str(tmp_path / "met.sql"))
    ids = [f"id{n}" for n in range(12)]
    for topic in ("sql-bids", "sql-asks"):
        cluster.create(topic, 4)

    def more(topic: str, seconds: int, count: int = 12) -> None:
        send(topic, [(one, f'{{"price": {n}}}', T + 1000 * seconds + n) for n, one in enumerate(ids[:count])])

    first = lake("met-a")
    more("sql-bids", 0)
    first.run(app, until="caught_up")
    for name, seconds, count in (("met-b", 15, 8), ("met-c", 30, 12)):
        one = lake(name)
        for table in app.tables:
            one.restore(table, table.name)
        more("sql-asks", seconds, count)
        more("sql-bids", seconds + 3)
        one.run(app, until="caught_up")
        first.run(lh.app(*app.tables), until="caught_up")  # it must not publish to the topics of the restored ones
        for table in app.tables:
            assert rows(one, table) == rows(first, table)
    # Of the last four no ask came in time for the first bid: that row was given when its time was over.
    for table, last in (("MET", 3), ("OFTEN", 2)):
        actual = {row["ID"]: row["N"] for row in one.read(app.table(table)).collect()}
        assert actual == dict.fromkeys(ids[:8], 5) | dict.fromkeys(ids[8:], last)
    assert {message.partition() for message in records("MET")} == {0, 1, 2, 3}
