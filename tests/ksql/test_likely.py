"""An error names the word, its place, and what was most likely meant."""

from __future__ import annotations

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.table import FUNCTIONS, NOT_HERE, TABLE_FUNCTIONS
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.hints import FUNCTIONS as OTHER_FUNCTIONS

COLUMNS = "id INT KEY, name VARCHAR, amount INT, xs ARRAY<INT>, w STRUCT<a INT>, m MAP<VARCHAR, INT>"
STREAM = f"CREATE STREAM s ({COLUMNS}) WITH (kafka_topic='s', value_format='JSON');"
BY_ID = "CREATE TABLE t AS SELECT id, {} FROM s GROUP BY id;"
OF_ALL = "CREATE STREAM t AS SELECT {};"
OVER = "CREATE STREAM x (id INT KEY, a {}) WITH (kafka_topic='x', value_format='JSON');"


@pytest.mark.parametrize(
    ("statement", "word", "meant"),
    [
        (BY_ID.format("COUNTT(*) AS n"), "COUNTT", "Did you mean 'COUNT'?"),
        (BY_ID.format("SUM(name) AS n"), "SUM", "Expected a number: CAST(... AS DOUBLE)"),
        (BY_ID.format("AVG(name) AS n"), "AVG", "Expected a number"),
        (BY_ID.format("COUNT(*) AS n, name"), "name FROM", "Either add the column(s) to the GROUP BY"),
        (BY_ID.replace("GROUP", "WINDOW HOPPING (SIZE 1 HOUR) GROUP").format("COUNT(*) AS n"), ")", "ADVANCE BY"),
        (OF_ALL.format("id, UNIX_TIMESTAMP() AS t FROM s"), "UNIX_TIMESTAMP", "use ROWTIME"),
        (OF_ALL.format("id, UNIX_DATE() AS t FROM s"), "UNIX_DATE", "use ROWTIME"),
        (OF_ALL.format("id, NOW() AS t FROM s"), "NOW", "use ROWTIME"),
        (OF_ALL.format("id, amount * FROM s"), "FROM s", "The right side is missing between * and FROM"),
        (OF_ALL.format("id, FROM s"), "FROM s", "A column is missing between , and FROM. Found FROM"),
        *[(OF_ALL.format(f"id, amount {sign} AS e FROM s"), "AS e", f"between {sign.split()[-1]} and AS. Found AS")
          for sign in ("+", "-", "*", "/", "%", "||", "=", "<>", ">", "<=", "LIKE", "> 1 OR", "BETWEEN", "IS NOT")],
        (OF_ALL.format("id, NOT AS e FROM s"), "AS e", "The right side is missing between NOT and AS. Found AS"),
        (OF_ALL.format("id, -\nas e FROM s"), "as e", "The right side is missing between - and AS. Found AS"),
        (OF_ALL.format("id, amount > FROM s"), "FROM s", "The right side is missing between > and FROM. Found FROM"),
        (OF_ALL.format("id, NOT FROM s"), "FROM s", "The right side is missing between NOT and FROM"),
        (OF_ALL.format("AS e FROM s"), "AS e", "A column is missing between SELECT and AS"),
        (OF_ALL.format("id, AS e FROM s"), "AS e", "A column is missing between , and AS"),
        (OF_ALL.format("id, name AS FROM s"), "FROM s", "A name is missing between AS and FROM"),
        (OF_ALL.format("id, amount + , name FROM s"), ", name", "The right side is missing between + and ,"),
        (OF_ALL.format("id, ABS(amount +) AS e FROM s"), ") AS e", "The right side is missing between + and )"),
        (OF_ALL.format("id, CAST( AS INT) AS e FROM s"), "AS INT", "A value is missing between ( and AS"),
        (OF_ALL.format("id, CASE WHEN amount > THEN 1 END AS e FROM s"), "THEN 1", "missing between > and THEN"),
        (OF_ALL.format("id, CASE WHEN amount > 1 THEN END AS e FROM s"), "END AS", "missing between THEN and END"),
        (OF_ALL.format("id, name FROM s WHERE amount >"), "", "The right side is missing after >"),
        (OF_ALL.format("id, name FROM s WHERE"), "", "A condition is missing after WHERE"),
        (OF_ALL.format("id, name FROM s WHERE AND amount > 1"), "AND", "A condition is missing between WHERE and AND"),
        (BY_ID.replace("GROUP", "WHERE amount + GROUP").format("COUNT(*)"), "GROUP", "missing between + and GROUP BY"),
        (OF_ALL.format("s.id, name FROM s CROSS JOIN t"), "CROSS", "there is no CROSS JOIN: a join says ON a.id ="),
        (OF_ALL.format("s.id, name FROM s CROSS JOIN t ON s.id = t.id"), "CROSS", "there is no CROSS JOIN"),
        (OF_ALL.format("x.id, name FROM s AS x CROSS JOIN t"), "CROSS", "there is no CROSS JOIN"),
        (OF_ALL.format("s.id, name FROM s NATURAL LEFT JOIN t"), "NATURAL", "there is no NATURAL JOIN: a join says ON"),
        (OF_ALL.format("s.id, name FROM s LEFT SEMI JOIN t ON s.id = t.id"), "SEMI", "JOIN keeps the records that"),
        (OF_ALL.format("s.id, name FROM s ANTI JOIN t ON s.id = t.id"), "ANTI", "and WHERE b.id IS NULL only these"),
        (OF_ALL.format("a.id AS id FROM s a JOIN s b ON a.id = b.id WITHIN 1 HOUR"), "WITHIN", "WITHIN stands before"),
        (OF_ALL.format("a.id AS id FROM s WITHIN 1 HOUR JOIN s b ON a.id = b.id"), "WITHIN", "WITHIN stands before"),
        (OF_ALL.format("a.id AS id FROM s a JOIN s b WITHN 1 HOUR ON a.id = b.id"), "", "Did you mean 'WITHIN'"),
        (OF_ALL.format("s.id, name FROM s JOIN t IN s.id = t.id"), "IN", "Did you mean 'ON'? A join says ON a.id ="),
        (OF_ALL.format("s.id, name FROM s JOIN t BY s.id = t.id"), "s.id", "Did you mean 'ON' for BY? A join says ON"),
        (OF_ALL.format("s.id, name FROM s JOIN t WHERE s.id = t.id"), "WHERE", "A join says ON a.id = b.id"),
        (OF_ALL.format("s.id, name FROM s JOIN t"), "", "A join says ON a.id = b.id"),
        (OF_ALL.format("id, name FROM s WERE amount > 1"), "amount > 1", "Did you mean 'WHERE' for WERE?"),
        (OF_ALL.format("id, name FROM s WHERE amount == 1"), "= 1", "Values are compared with one ="),
        (OF_ALL.format('id, name FROM s WHERE name = "Rome"'), '"Rome"', "A text stands in single quotes: 'Rome'"),
        (OF_ALL.format("id, amount FROM s ORDER BY amount"), "BY", "There is no ORDER BY"),
        (OF_ALL.format("id, name COUNT(amount) FROM s"), "(amount", "A comma is missing before COUNT(...)"),
        (OF_ALL.format("id FROM (SELECT id FROM s)"), "(SELECT", "There is no query inside of a query"),
        (OF_ALL.format("id FROM s UNION SELECT id FROM s"), "SELECT", "INSERT INTO ... SELECT adds"),
        (OF_ALL.format("id FROM s UNION ALL SELECT id FROM s"), "", "INSERT INTO ... SELECT adds"),
        (BY_ID.replace("GROUP", "WINDOW SLIDING (SIZE 1 HOUR) GROUP").format("COUNT(*)"), "(SIZE", "TUMBLING, HOPPING"),
        (OF_ALL.format("id, IF(amount > 1, 1, 2) AS x FROM s"), "IF", "use CASE WHEN"),
        (BY_ID.replace("GROUP BY id", "GROUP BY id HAVING COUNT(*) > 1 WHERE amount > 1").format("COUNT(*)"), "WHERE",
         "WHERE stands before GROUP BY"),
        (OF_ALL.format("id, name FROM s x WHER amount > 1"), "WHER", "Did you mean 'WHERE'?"),
        (OF_ALL.format("id, name FROM s WHER a > 1"), "a > 1", "Did you mean 'WHERE' for WHER?"),
        (OF_ALL.format("id, name FROM s WHERE amount > 1 GRUP BY id"), "GRUP", "Did you mean 'GROUP'?"),
        (OF_ALL.format("DISTINCT name FROM s"), "DISTINCT", "COUNT_DISTINCT counts different values"),
        (BY_ID.format("COUNT(DISTINCT name) AS n"), "name", "COUNT_DISTINCT(name) counts different values"),
        (OF_ALL.format("id, UPPER(name) AS n FROM s"), "UPPER", "Did you mean 'UCASE'?"),
        (OF_ALL.format("id, LENGTH(name) AS n FROM s"), "LENGTH", "Did you mean 'LEN'?"),
        (BY_ID.format("ARRAY_AGG(name) AS n"), "ARRAY_AGG", "Did you mean 'COLLECT_LIST'?"),
        (OF_ALL.format("id, CAST(amount, BIGINT) AS n FROM s"), ",", "The type stands after AS"),
        (OF_ALL.format("id, ROWTIME - INTERVAL '1' DAY AS n FROM s"), "'1'", "TIMESTAMPADD(DAYS, 1, at)"),
        (OF_ALL.format("id, name FROM s, s x"), ", s", "Sources are joined by JOIN ... ON"),
        (OF_ALL.format("id, /* name FROM s"), "/*", "the comment /* is not closed"),
        ("CREATE STREAMS AS SELECT * FROM s;", "STREAMS", "Did you mean 'STREAM'?"),
        ("INSERT INTOs SELECT * FROM s;", "INTOs", "Did you mean 'INTO'?"),
        (OF_ALL.format("id, 0x12 FROM s"), "0x12", "A blank is missing"),
        (OF_ALL.format("id, ROWTIME FROM s"), "ROWTIME", "Give it an alias: ROWTIME AS ..."),
        (OF_ALL.format("id, name FROM s PARTITION BY UCASE(name)"), "", "must include the key UCASE(NAME)"),
        (OF_ALL.format("id, name FROM s PARTITION BY w->a"), "", "SELECT W->A, ..."),
        (BY_ID.replace("BY id", "BY amount + 1").format("COUNT(*)"), "amount + 1", "SELECT AMOUNT + 1, ..."),
        (OF_ALL.format("id, w.a FROM s"), "w.a", "A field of a STRUCT is read by ->: W->A"),
        (OF_ALL.format("id, w['a'] FROM s"), "w['a']", "A STRUCT is read by its fields: s->name"),
        (OF_ALL.format("id, m->a FROM s"), "m->a", "A MAP is read by its keys: m['a']"),
        (OF_ALL.format("id, TRANSFORM(xs, x -> x + 1) FROM s"), "x -> x", "A lambda is written with =>"),
        (OVER.format("ARRAY"), "ARRAY", "It does not say what is in it: ARRAY<VARCHAR>"),
        (OVER.format("STRUCT"), "STRUCT", "It does not say what is in it"),
        (OVER.format("MAP<INT, VARCHAR>"), "", "the names in a JSON object are texts"),
        *[(OF_ALL.format(f"id, {call} AS n FROM s"), call.split("(")[0], "Give a NULL a type: CAST(NULL AS ...)")
          for call in ("MAP_KEYS(NULL)", "ARRAY_MAX(NULL)", "AS_MAP(NULL, NULL)", "ENTRIES(NULL, NULL)",
                       "TRANSFORM(NULL, x => x)")],
        (OVER.format("TEXT"), "", "Did you mean VARCHAR? Expected BOOLEAN"),
        (OVER.format("FLOAT"), "", "Did you mean DOUBLE?"),
        (OVER.format("VARCHARR"), "", "Did you mean 'VARCHAR'?"),
        ("CREATE CONNECTOR c WITH ('a'='b');", "CREATE", "connectors belong to Kafka Connect"),
        ("CREATE INDEX i ON s(a);", "CREATE", "repair upkeep"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id FROM s;", "CREATE", "CREATE TABLE ... AS SELECT"),
    ],
)  # fmt: skip
def test_a_wrong_statement_is_told_what_it_means(statement: str, word: str, meant: str) -> None:
    script = Script()
    script.run(STREAM)
    with pytest.raises(LakehouseError) as caught:
        script.run(statement)
    assert meant in str(caught.value)
    *_, shown, arrow = str(caught.value).splitlines()
    assert not word or shown[arrow.index("^") :].startswith(word)


@pytest.mark.parametrize(
    "query",
    [
        "*, amount AS as FROM s",
        "cross.id, u.v FROM s cross JOIN u ON cross.id = u.id",
        "s.id, as.v FROM s JOIN u AS as ON s.id = as.id",
        "id, amount AS from, w->a AS and FROM s",
        "id, amount AS end FROM s WHERE amount > 1",
        "s.*, w->* FROM s",
        "id, CAST(xs AS ARRAY<INT>) AS ys, CAST(NULL AS MAP<VARCHAR, ARRAY<INT>>) AS n FROM s",
        "id, '+ AS' AS a, 'CROSS JOIN' AS b, amount /* - */ AS c FROM s",
    ],
)
def test_a_name_that_is_a_word_of_sql_elsewhere_stays_a_name(query: str) -> None:
    script = Script()
    script.run(STREAM + "CREATE TABLE u (id INT PRIMARY KEY, v INT) WITH (kafka_topic='u', value_format='JSON');")
    script.run(OF_ALL.format(query))
    with pytest.raises(LakehouseError, match=r"can't read this\. Did you mean 'GROUP'"):
        script.run(f"CREATE STREAM other AS SELECT {query} GRUP BY id;")


def test_functions_of_other_databases_are_told_by_functions_that_there_are() -> None:
    here = {*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS}
    assert [name for name in OTHER_FUNCTIONS if name in here or name in NOT_HERE] == []
    assert [name for name in OTHER_FUNCTIONS.values() if name not in here] == []


def test_records_of_a_topic_that_an_insert_hides_are_told() -> None:
    script = Script()
    script.run(STREAM + STREAM.replace("STREAM s", "STREAM o").replace("'s'", "'o'"))
    script.run("CREATE TABLE t AS SELECT id, COUNT(*) AS c FROM o GROUP BY id;")
    assert script.app().warnings == ()
    script.run("INSERT INTO o SELECT * FROM s;")
    (warning,) = script.app().warnings
    assert warning.startswith("stream O: ")
    assert "'o' has from elsewhere are not read" in warning
