"""A database's position as a moment, wherever people name one: commands, SQL, Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.errors import ConfigError, NotFound
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record
from tests.bench import Bench

from .conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP = """\
CREATE TABLE orders (id INT PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='DEBEZIUM');
CREATE STREAM visits (id INT KEY, n INT) WITH (KAFKA_TOPIC='visits', VALUE_FORMAT='JSON');
CREATE TABLE current AS SELECT * FROM orders;
CREATE TABLE visited AS SELECT id, COUNT(*) AS visits FROM visits GROUP BY id;
"""


def change(offset: int, before: int, operation: str = "c", n: int | None = None) -> Record:
    after = None if n is None else {"id": 1, "n": n}
    source = {"connector": "postgresql", "name": "shop", "lsn": before + 1, "sequence": f'["{before}","{before + 1}"]'}
    event = {"op": operation, "after": after, "source": {**source, "ts_ms": 1}}
    return Record("orders", "orders", 0, offset, 1, b'{"id": 1}', json.dumps(event).encode(), 1, 1)


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_every_reader_takes_a_position(spark: SparkSession, folder: Path, lakehouse: Command) -> None:
    (folder / "app.sql").write_text(APP)
    app = load_app("app.sql")
    bench = Bench(spark, folder)
    changes = [change(0, 10, n=1), change(1, 20, "u", 2), change(2, 30, "d"), change(3, 40, n=4)]
    visit = Record("visits", "visits", 0, 0, 1, b"\0\0\0\1", b'{"n": 1}', 1, 1)
    write_bronze(bench.lake, app, [*changes, visit])
    bench.catch_up(app, 1)

    def answered(*words: str) -> list[dict[str, Any]]:
        outcome = lakehouse(*words, "--app", "app.sql", "--lake", "lake", "--json")
        assert outcome.code == 0, outcome.err
        return rows(outcome.out)

    assert answered("query", "SELECT ID, N FROM current", "--at", "source:0/14") == [{"ID": 1, "N": 1}]
    assert answered("sql", "-e", "SELECT n FROM current AT SOURCE '0/1E'") == [{"N": 2}]
    assert answered("past", "diff", "CURRENT", "source:20", "source:30")[-1] == {"added": 0, "changed": 1, "removed": 0}
    lake = Lake(str(folder / "lake"))
    current, visited = (app.table(name) for name in ("CURRENT", "VISITED"))
    assert [row.N for row in lake.read(current, at="lsn:0/1E").collect()] == [2]
    assert lake.read(current, at=lake.source_moment("20", *app.tables)).count() == 1
    with pytest.raises(ConfigError, match="no topic behind these tables has a database's changes"):
        lake.read(visited, at="source:20")
    with pytest.raises(ConfigError, match="visits/0=1"):
        lake.read(visited, at=lake.source_moment("20", *app.tables))
    with pytest.raises(NotFound, match="needs one after the position"):
        lake.read(current, at="source:50")
    outcome = lakehouse("query", "SELECT * FROM current", "--at", "source:20", "--lake", "lake")
    assert outcome.code == 2
    assert "only the application knows" in " ".join(outcome.err.split())
    outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "-e", "SELECT * FROM visited AT SOURCE 'x'")
    assert "such as 16/B374D848" in " ".join(outcome.err.split())
