"""WITH (HISTORY='event'): the plan of `table.history()`, and where a history would not be right."""

from __future__ import annotations

import re

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.script import application
from lakehouse.testing import Replay

TABLE = "CREATE TABLE orders (id VARCHAR PRIMARY KEY, amount BIGINT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
STREAM = "CREATE STREAM sent (id VARCHAR KEY, amount BIGINT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
COUNTS = "CREATE TABLE counts WITH (HISTORY='event') AS SELECT id, COUNT(*) AS n FROM sent GROUP BY id"


def test_histories_in_sql_are_those_of_python() -> None:
    app = application(
        TABLE + STREAM + COUNTS + ";"
        "CREATE TABLE kept (id VARCHAR PRIMARY KEY, amount BIGINT) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', HISTORY='event');"
        "CREATE TABLE doubled WITH (HISTORY='EVENT') AS SELECT id, amount * 2 AS twice FROM orders;"
    )
    assert app.table("counts") == app.table("counts").stream.group_by("ID").agg(N=lh.count()).table("COUNTS").history(
        "COUNTS"
    )
    assert app.table("kept") == app.table("kept").stream.latest("KEPT").history("KEPT")
    assert app.sinks == ()
    replay = Replay(app)
    for ms, amount in ((10, 1), (30, 3), (20, 2)):
        replay.send("orders", key="a", value={"amount": amount}, timestamp=ms)
    result = replay.run()
    times = {
        name: [(row["valid_from"].microsecond, row["valid_to"] and row["valid_to"].microsecond, row[column])
               for row in result.rows(name)]
        for name, column in (("COUNTS", "N"), ("KEPT", "AMOUNT"), ("DOUBLED", "TWICE"))
    }  # fmt: skip
    assert times["COUNTS"] == [(10_000, 20_000, 1), (20_000, 30_000, 2), (30_000, None, 3)]
    assert times["KEPT"] == [(10_000, 20_000, 1), (20_000, None, 2)]  # it came last
    assert times["DOUBLED"] == [(10_000, 20_000, 2), (20_000, None, 4)]


def test_tracked_columns_are_those_of_python() -> None:
    app = application(
        STREAM
        + "CREATE TABLE c WITH (HISTORY='event', TRACK='n') AS SELECT id, COUNT(*) AS n, SUM(amount) AS s FROM sent "
        "GROUP BY id;"
        "CREATE TABLE kept (id VARCHAR PRIMARY KEY, `Status` VARCHAR, amount BIGINT) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', HISTORY='event', TRACK='`Status`, amount');"
        "CREATE TABLE one (id VARCHAR PRIMARY KEY, status VARCHAR, amount BIGINT) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', HISTORY='event', TRACK='status');"
    )
    counts = app.table("c").stream.group_by("ID").agg(N=lh.count(), S=lh.sum("AMOUNT")).table("C")
    assert app.table("c") == counts.history("C", track=["N"])
    assert [column.name for column in app.table("c").columns] == ["ID", "valid_from", "valid_to", "N"]
    assert [column.name for column in app.table("one").columns] == ["ID", "valid_from", "valid_to", "STATUS"]
    replay = Replay(app)
    for ms, status, amount in ((10, "new", 1), (20, "new", 2), (30, "paid", 2)):
        replay.send("orders", key="a", value={"status": status, "Status": status, "amount": amount}, timestamp=ms)
    result = replay.run()
    assert [row["valid_from"].microsecond for row in result.rows("ONE")] == [10_000, 30_000]
    assert [row["valid_from"].microsecond for row in result.rows("KEPT")] == [10_000, 20_000, 30_000]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM x WITH (HISTORY='event') AS SELECT * FROM sent;", "HISTORY is that of a table's rows"),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', HISTORY='event');",
         "HISTORY is that of a table's rows"),
        (COUNTS.replace("HISTORY", "KAFKA_TOPIC='x', HISTORY") + ";", "Leave out KAFKA_TOPIC"),
        (COUNTS.replace("HISTORY='event'", "TRACK='n'") + ";", "TRACK names the columns of a history"),
        (COUNTS.replace("'event'", "'event', TRACK='id'") + ";", "track: found 'ID'; expected columns"),
        (COUNTS.replace("'event'", "'event', TRACK=''") + ";", "track: found ''; expected columns beside the key: N."),
        ("CREATE TABLE x (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON', TRACK='b');",
         "TRACK names the columns of a history: HISTORY='event'"),
        (COUNTS.replace("'event'", "'both'") + ";", "HISTORY takes 'event': by event time. Found 'both'"),
        ("CREATE TABLE x WITH (HISTORY='event') AS SELECT * FROM orders WHERE amount > 1;",
         "HISTORY is kept of a topic's table, without WHERE"),
        ("CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM sent GROUP BY id;"
         "CREATE TABLE x WITH (HISTORY='event') AS SELECT * FROM w;", "HISTORY is kept of a topic's table"),
        (COUNTS.replace("FROM sent", "FROM sent WINDOW TUMBLING (SIZE 1 HOUR)") + ";", "its rows belong to windows"),
        (COUNTS.replace("COUNT(*)", "COUNT(*) + 1") + ";", "it is made of the rows of tables"),
        (COUNTS + " HAVING COUNT(*) > 1;", "having belongs to the table"),
        (COUNTS + "; CREATE TABLE y AS SELECT * FROM counts;", "its rows are queried, and no table is made of them"),
        ("CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM sent GROUP BY id;"
         "CREATE TABLE x (id VARCHAR PRIMARY KEY, n BIGINT) WITH (KAFKA_TOPIC='W', VALUE_FORMAT='JSON', "
         "HISTORY='event');", "W of this application writes topic W, from rows whose event times are not kept"),
    ],
)  # fmt: skip
def test_a_history_that_would_not_be_right_is_refused(statement: str, message: str) -> None:
    with pytest.raises((SqlError, PlanError), match=re.escape(message)):
        application(TABLE + STREAM + statement)
