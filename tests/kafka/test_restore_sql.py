"""Tables in SQL restored from their topics, which have the formats that ksqlDB would write."""

from __future__ import annotations

from typing import Any

import pytest

import lakehouse as lh
from lakehouse.ksql.script import Script
from lakehouse.run.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

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
