"""Pull queries read no more of a table than they need."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.statement import Query
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.run.sql.pull import pull


def test_a_limit_does_not_read_a_large_table_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = 'SELECT \'k\' || i AS "ID", i::INTEGER AS "N" FROM range(1_000_000_000) AS t(i)'
    monkeypatch.setattr(reader, "query_lake", lambda layout, sql: duckdb.connect().sql(large))
    script = Script()
    script.run("CREATE TABLE t (id VARCHAR PRIMARY KEY, n INT) WITH (kafka_topic='t', value_format='JSON');")
    query = parse("SELECT id, n FROM t WHERE n > 1 LIMIT 2")
    assert isinstance(query, Query)
    assert list(pull(query, script, Layout(str(tmp_path)), None).rows) == [("k2", 2), ("k3", 3)]
