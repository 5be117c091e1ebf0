"""CONSTRAINT in CREATE TABLE ... AS SELECT: the plan of `table.expect`, and where there is nothing to judge."""

from __future__ import annotations

import re

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.script import application

ORDERS = (
    "CREATE STREAM orders (id VARCHAR KEY, city VARCHAR, amount BIGINT) "
    "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
)
QUERY = "AS SELECT city, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY city"
HOURLY = QUERY.replace("FROM orders", "FROM orders WINDOW TUMBLING (SIZE 1 HOUR)")


def rules_of(app: lh.App, table: str) -> list[tuple[str, str, str]]:
    return [(rule.name, str(rule.condition), rule.otherwise) for rule in app.table(table).expectations]


def test_a_constraint_of_a_query_is_about_the_rows_of_its_table() -> None:
    app = application(
        f"{ORDERS} CREATE TABLE totals (CONSTRAINT positive EXPECT (total >= 0), CONSTRAINT few "
        f"EXPECT (n < 10 AND city <> 'x') ON VIOLATION WARN) WITH (VALUE_FORMAT='JSON') {QUERY};"
        "CREATE TABLE by_count AS SELECT n, COUNT(*) AS cities FROM totals GROUP BY n;"
    )
    assert rules_of(app, "totals") == [
        ("POSITIVE", "(TOTAL >= 0)", "fail"), ("FEW", "((N < 10) AND (CITY <> 'x'))", "warn"),
    ]  # fmt: skip
    assert rules_of(app, "by_count") == []
    # A table that others read, and that is written to a topic, is one table.
    assert [table.name for table in app.tables] == ["TOTALS", "BY_COUNT"]
    assert app.table("by_count").stream.reads == (app.table("totals"),)


def test_a_constraint_reads_the_bounds_of_windows_and_the_times_of_a_history() -> None:
    app = application(
        f"{ORDERS} CREATE TABLE hours (CONSTRAINT timed EXPECT (WINDOWSTART > 0 AND n > 0)) {HOURLY};"
        f"CREATE TABLE past (CONSTRAINT timed EXPECT (VALID_FROM > '1971-01-01T00:00:00')) "
        f"WITH (HISTORY='event') {QUERY};"
    )
    assert rules_of(app, "hours") == [("TIMED", "((unix_millis(window_start) > 0) AND (N > 0))", "fail")]
    assert len(rules_of(app, "past")) == 1


def test_a_replaced_table_has_the_rules_of_its_last_declaration() -> None:
    create = f"TABLE totals (CONSTRAINT positive EXPECT (total >= 0) ON VIOLATION WARN) {QUERY};"
    app = application(f"{ORDERS} CREATE {create} CREATE OR REPLACE {create.replace('>= 0', '> 5')}")
    assert rules_of(app, "totals") == [("POSITIVE", "(TOTAL > 5)", "warn")]


def test_rules_about_a_table_as_a_whole_have_the_names_of_their_constraints() -> None:
    app = application(
        f"{ORDERS} CREATE TABLE totals (CONSTRAINT one_total EXPECT UNIQUE (total, n), CONSTRAINT few EXPECT (n < 9), "
        f"CONSTRAINT recent EXPECT FRESH '10 minutes') {QUERY};"
        "CREATE TABLE users (id VARCHAR PRIMARY KEY, `e-mail` VARCHAR, CONSTRAINT one_mail EXPECT UNIQUE (`e-mail`), "
        "CONSTRAINT known EXPECT (`e-mail` IS NOT NULL)) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');"
    )
    assert [(rule.name, str(rule)) for rule in app.table("totals").watched_rules] == [
        ("ONE_TOTAL", "no two rows have the same TOTAL, N"),
        ("RECENT", "its newest record is at most 10 minutes old"),
    ]
    assert [rule.name for rule in app.table("totals").expectations] == ["FEW"]
    (rule,) = app.table("users").watched_rules
    assert rule.name == "ONE_MAIL"
    assert [rule.name for rule in app.sources[1].expectations] == ["KNOWN"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (total > 0) ON VIOLATION QUARANTINE) {QUERY}",
         "constraint P: a row is made of many records, and has no quarantine. Expected ON VIOLATION FAIL or WARN"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (total > 0) ON VIOLATION STOP) {QUERY}", "ON VIOLATION STOP"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (total)) {QUERY}", "takes a condition"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (totl > 0)) {QUERY}", "Did you mean 'TOTAL'?"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (amount > 0)) {QUERY}", "column 'AMOUNT' cannot be resolved"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (n > 0), CONSTRAINT P EXPECT (n > 1)) {QUERY}",
         "there is an expectation of that name"),
        (f"CREATE TABLE t (total BIGINT) {QUERY}", "the columns of CREATE ... AS SELECT are those of its query"),
        ("CREATE STREAM t (CONSTRAINT p EXPECT (amount > 0)) AS SELECT * FROM orders",
         "constraint P: the quarantine has the records of topics as they came, not those of a query"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT (n > 0)) {HOURLY} EMIT FINAL", "a final result appears once"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT UNIQUE (city)) {QUERY}", "has the whole key, CITY, which is unique"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT UNIQUE (totl)) {QUERY}", "'TOTL' is no column. Did you mean"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT FRESH 'soon') {QUERY}", "expect_fresh"),
        (f"CREATE TABLE t (CONSTRAINT p EXPECT UNIQUE (n), CONSTRAINT p EXPECT FRESH '1 day') {QUERY}",
         "a rule P is declared twice"),
        ("CREATE STREAM t (a INT, CONSTRAINT p EXPECT UNIQUE (a)) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')",
         "constraint P: UNIQUE and FRESH are about a table"),
        (f"CREATE TABLE w {QUERY}; CREATE TABLE x (city VARCHAR PRIMARY KEY, n BIGINT, CONSTRAINT p EXPECT UNIQUE (n)) "
         "WITH (KAFKA_TOPIC='W', VALUE_FORMAT='JSON')", "what it writes is not judged again"),
    ],
)  # fmt: skip
def test_a_constraint_that_can_not_be_judged_is_refused_at_its_place(statement: str, message: str) -> None:
    with pytest.raises((SqlError, PlanError), match=re.escape(message)) as error_info:
        application(f"{ORDERS}\n{statement};")
    assert "line 2" in str(error_info.value)
