"""SQL's names are those of the topic's fields in every answer, told by types: data that look like a name stay."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from lakehouse.cli.sql.shell import completion_words
from lakehouse.errors import SqlError
from lakehouse.ksql.script import Script
from lakehouse.lake.layout import Layout
from lakehouse.plan.expression.field_names import name_fields
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.scenario import Scenario, build_records, on_model
from lakehouse.run.sql.session import SqlSession

from .model_lake import write_lake

APP = """\
CREATE STREAM s (`the id` VARCHAR KEY, p STRUCT<`a b` INT, n VARCHAR>, l ARRAY<STRUCT<`c d` INT>>, m MAP<VARCHAR, INT>)
  WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT `the id`, LATEST_BY_OFFSET(p) AS p, LATEST_BY_OFFSET(l) AS l FROM s GROUP BY `the id`;
CREATE TABLE by_p AS SELECT p, COUNT(*) AS `n n` FROM s GROUP BY p;
"""
P = {"a b": 1, "N": "a_x20_b"}
L = [{"c d": 2}]
M = {"_x41_": 1, "A": 2}
VALUE = {"P": P, "L": L, "M": M}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SqlSession:
    folder = tmp_path_factory.mktemp("names")
    script = Script()
    script.run(APP)
    app = script.app()
    records = build_records(Scenario(folder / "x.json", "x", "", [{"topic": "s", "key": "k", "value": VALUE}]), app)
    write_lake(Layout(str(folder / "lake")), app, records, on_model(app, records))
    session = SqlSession(Lake(str(folder / "lake")).settings, script)
    list(session.run("SET 'auto.offset.reset' = 'earliest';"))
    return session


@pytest.mark.parametrize(
    ("query", "names", "row"),
    [
        ("SELECT * FROM t", ("the id", "P", "L"), ("k", P, L)),
        ("SELECT STRUCT(`x y` := p, z := `the id`) AS s FROM t", ("S",), ({"x y": P, "Z": "k"},)),
        ("SELECT * FROM by_p", ("P", "n n"), (P, 1)),
        ("SELECT * FROM s", ("the id", "P", "L", "M"), ("k", P, L, M)),
        ("SELECT p, EXPLODE(l) AS `one l` FROM s", ("P", "one l"), (P, L[0])),
        ("SELECT * FROM s EMIT CHANGES", ("the id", "P", "L", "M"), ("k", P, L, M)),
        ("SELECT p, COUNT(*) AS `n n` FROM s GROUP BY p EMIT CHANGES", ("P", "n n"), (P, 1)),
        ("SELECT l, COUNT(*) AS n FROM s GROUP BY l EMIT CHANGES", ("L", "N"), (L, 1)),
        ("SELECT `the id`, HISTOGRAM(p->n) AS h FROM s GROUP BY `the id` EMIT CHANGES", ("the id", "H"),
         ("k", {"a_x20_b": 1})),
        ("SELECT s.`the id` AS `an id`, t.p AS p, s.m AS m FROM s JOIN t ON s.`the id` = t.`the id` EMIT CHANGES",
         ("an id", "P", "M"), ("k", P, M)),
    ],
)  # fmt: skip
def test_a_query_shows_names_of_fields(session: SqlSession, query: str, names: tuple[str, ...], row: object) -> None:
    (answer,) = session.run(f"{query};")
    assert (answer.names, next(iter(answer.rows))) == (names, row)


def test_descriptions_show_names_of_fields(session: SqlSession) -> None:
    texts = [
        str([answer.names, list(islice(answer.rows, 9))])
        for statement in ("DESCRIBE t", "SHOW STREAMS EXTENDED", "SHOW TABLES EXTENDED")
        for answer in session.run(f"{statement};")
    ]
    assert all("STRUCT<a b INTEGER, N VARCHAR(STRING)>" in text for text in texts)
    assert not any("_x20_" in text for text in texts)


def test_a_table_has_its_own_name_in_answers(session: SqlSession) -> None:
    query = "SELECT `the id`, COUNT(*) AS n FROM s GROUP BY `the id`"
    (answer,) = session.run(f"CREATE TABLE `my table` WITH (kafka_topic='m') AS {query};")
    assert answer.message.startswith("TABLE my table is declared.")
    (queries,) = session.run("SHOW QUERIES;")
    assert [row[1:] for row in queries.rows][-1] == ("my table", "m")
    (tables,) = session.run("SHOW TABLES;")
    assert [row[0] for row in tables.rows][-1] == "my table"
    (described,) = session.run("DESCRIBE `my table` EXTENDED;")
    assert described.message.startswith("TABLE my table, topic m")
    assert {"`my table`", "`the id`", "P"} <= set(completion_words(session)), "as they are written in a statement"
    list(session.run("DROP TABLE `my table`;"))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT `the  id` FROM t;", "There are: the id, P, L"),
        ("SELECT CAST('a_x20_b' AS DATE) AS d FROM t;", "'a_x20_b'"),
        ("CREATE STREAM x (a STRUCT<`c d` INT, `C d` INT>) WITH (kafka_topic='x', value_format='JSON');", "'C d'"),
    ],
)
def test_messages_name_fields_and_keep_data(session: SqlSession, statement: str, said: str) -> None:
    with pytest.raises(SqlError) as caught:
        list(session.run(statement))
    message = str(caught.value).splitlines()[0]
    assert said in message


@pytest.mark.parametrize(
    ("value", "type_text", "named_value"),
    [
        ({"a_x20_b": {"x_x20_y": 1}}, "struct<a_x20_b: map<string, int>>", {"a b": {"x_x20_y": 1}}),
        ({"_x41_": None, "A": {"c_x20_d": 1}}, "map<string, struct<c_x20_d: int>>", {"_x41_": None, "A": {"c d": 1}}),
        ([["a_x20_b", "q"]], "array<array<string>>", [["a_x20_b", "q"]]),
        ([None, {"c_x20_d": "_x41_"}], "array<struct<c_x20_d: string>>", [None, {"c d": "_x41_"}]),
        ("a_x20_b", "string", "a_x20_b"),
        (None, "struct<a_x20_b: int>", None),
    ],
)  # fmt: skip
def test_a_type_says_what_is_a_name(value: Any, type_text: str, named_value: Any) -> None:
    assert name_fields(value, type_text) == named_value
