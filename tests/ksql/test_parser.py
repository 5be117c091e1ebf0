"""Texts become statements, or errors that point at a place; nothing crashes."""

from __future__ import annotations

import contextlib
import re
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.errors import LakehouseError, SqlError
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.parser import load_grammar, parse
from lakehouse.ksql.syntax.split_text import split_statements
from lakehouse.ksql.syntax.tree import Name

OTHERS = ("a", "b", "s", "`q`", '"Q"', "'x'", "'", "`", "1", "1.5", "1e3", "--", "/*", "${v}", ";")


def pieces() -> st.SearchStrategy[str]:
    words = sorted(
        {str(terminal.pattern.value) for terminal in load_grammar().terminals if terminal.pattern.type == "str"}
    )
    return st.sampled_from([*words, *OTHERS])


PIECES = st.deferred(pieces)  # the grammar takes seconds: only when a test asks for it
BROKEN_OUT = (
    "a'; DROP TABLE t; --", "`; rm -rf /`", "../../etc/passwd", "$(touch x)", "a\x00b", "a/b", "", " ", ".", "..", "名",
    "a" * 100, "_hidden", "1a", "a b", "a;b", "a`b", 'a"b',
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CREATE SOURCE TABLE t (id INT PRIMARY KEY, a VARCHAR) WITH (kafka_topic='t')", s.CreateSource),
        ("create or replace stream s as select * from t emit changes", s.CreateAs),
        ("INSERT INTO s SELECT a FROM b", s.InsertSelect),
        ("INSERT INTO s (a, b) VALUES (1, 'x')", s.InsertValues),
        ("SELECT * FROM t WHERE k = 'x' AT VERSION 3 LIMIT 1", s.Query),
        ("DROP TABLE IF EXISTS t", s.Drop),
        ("DESCRIBE FUNCTION ucase", s.Describe),
        ("LIST STREAMS EXTENDED", s.Show),
        ("SHOW ALL TOPICS", s.Show),
        ("EXPLAIN SELECT * FROM s EMIT CHANGES", s.Explain),
        ("PRINT 'topic' FROM BEGINNING INTERVAL 2 LIMIT 3", s.Print),
        ("TERMINATE CTAS_T_1", s.Control),
        ("SET 'auto.offset.reset' = 'earliest'", s.SetProperty),
        ("UNSET 'auto.offset.reset'", s.SetProperty),
        ("DEFINE a = 'b'", s.Define),
        ("CREATE TYPE IF NOT EXISTS a AS STRUCT<b INT>", s.CreateType),
        ("ASSERT NOT EXISTS TOPIC 'x' TIMEOUT 3 SECONDS", s.AssertTopic),
        ("ASSERT VALUES s (a, b) VALUES (1, 2)", s.AssertValues),
        ("ASSERT NULL VALUES t (a) VALUES (1)", s.AssertValues),
        ("ASSERT STREAM s WITH (kafka_topic='x')", s.AssertSource),
    ],
)
def test_statements(text: str, kind: type) -> None:
    assert isinstance(parse(text), kind)


@pytest.mark.parametrize(
    ("written", "topic"), [("`my-topic`", "my-topic"), ("'my-topic'", "my-topic"), ("myTopic", "myTopic")]
)
def test_a_topic_has_the_name_that_is_written(written: str, topic: str) -> None:
    assert parse(f"PRINT {written}") == s.Print(topic)
    assert parse(f"ASSERT NOT EXISTS TOPIC {written} TIMEOUT 3 SECONDS") == s.AssertTopic(topic, {}, False, 3000)


def test_names_are_in_upper_case_unless_they_are_quoted() -> None:
    query = parse('SELECT a, `b`, "c", key, date FROM s')
    assert isinstance(query, s.Query)
    assert [i.expression.name for i in query.items if isinstance(i.expression, Name)] == ["A", "b", "c", "KEY", "DATE"]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("CREATE STRAM s", (1, 8), "Did you mean 'STREAM'? Found STRAM. Expected OR, SOURCE, STREAM, TABLE, TYPE."),
        ("SELECT a\n  FROM s\n WHERE", (3, 7), "Found the end of the statement"),
        ("SELECT 'a FROM s", (1, 8), "the quote ' is not closed"),
        ("CREATE STREAM s (a STRNG) WITH (kafka_topic='x')", (1, 20), "unknown type STRNG. Did you mean 'STRING'?"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 FORTNIGHT)", (1, 41), "Found FORTNIGHT. Expected a unit of time"),
        ("SELECT CAST(a AS DECIMAL(99, 2)) FROM s", (1, 18), "a precision from 1 to 38"),
        ("ALTER SYSTEM 'a'='b'", (1, 1), "lakehouse.toml"),
        ("-- first\n CREATE SOURCE CONNECTOR c WITH ('a'='b')", (2, 2), "connectors belong to Kafka Connect"),
        ("ASSERT NOT EXISTS SCHEMA SUBJECT 's'", (1, 1), "there is no schema registry here yet"),
        ("SPOOL 'x.log'", (1, 1), "send the output to a file"),
        ("HISTORY", (1, 1), "the arrow keys go through it"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM s", (1, 1), "nested too deeply"),
        ("SELECT 99999999999999999999 FROM s", (1, 8), "larger than a BIGINT"),
    ],
)
def test_errors_point_at_the_place(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(SqlError) as error:
        parse(text)
    assert (error.value.place, said in str(error.value)) == (place, True), error.value
    assert str(error.value).startswith(f"line {place[0]}, column {place[1]}: ")


def test_a_text_is_cut_at_semicolons_that_end_statements() -> None:
    text = "-- one; two\nSELECT 'a;b', `c;d` FROM s; /* ; */ ;\n\nSHOW STREAMS"
    assert [(item.text, item.line_before) for item in split_statements(text)] == [
        ("SELECT 'a;b', `c;d` FROM s", 1),
        ("SHOW STREAMS", 3),
    ]


def test_the_line_of_an_error_is_that_of_the_file() -> None:
    with pytest.raises(SqlError, match="line 4, column 20"):
        Script().run(
            "CREATE STREAM s (a INT) WITH (kafka_topic='x', value_format='JSON');\n\n-- next\nCREATE STREAM t AS BLA"
        )


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map(" ".join)))
@example("CREATE STREAM s (a INT) WITH (kafka_topic='x', value_format='JSON'); SELECT a->b[1] FROM s")
@example("SELECT a[b](c) FROM s;")
@example("\x00;")
def test_any_text_is_a_script_or_an_error(text: str) -> None:
    script = Script()
    script.run("CREATE STREAM s (a INT, b ARRAY<INT>) WITH (kafka_topic='x', value_format='JSON');")
    with contextlib.suppress(LakehouseError):
        script.run(text)
        script.app()


SOURCE = "CREATE STREAM s (a INT, x DOUBLE, b ARRAY<INT>, v VARCHAR) WITH (kafka_topic='x', value_format='JSON');\n"


def selected(expression: str) -> str:
    return f"CREATE STREAM u AS SELECT {expression} AS c FROM s;"


@pytest.mark.rotated
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (selected("(" * 10_000 + "a" + ")" * 10_000), "nested too deeply"),
        (selected("(" * 10_000), "can't read this"),
        (selected("b[" * 10_000 + "1" + "]" * 10_000), "nested too deeply"),
        (selected("a + " * 5_000 + "a"), "nested too deeply"),
        (selected("- " * 3_000 + "a"), "nested too deeply"),
        (selected("1e0 / (" * 40 + "x" + ")" * 40), "this becomes too long as Spark SQL"),
        (selected("TRANSFORM(b, i => " * 20 + "i" + ")" * 20), "lambdas stand at most 8 deep"),
        (selected("CASE WHEN a = 1 THEN " * 20 + "a" + " ELSE 2 END" * 20), ""),
        (selected("9" * 5_000), "larger than a BIGINT"),
        (selected("9223372036854775808"), "larger than a BIGINT"),
        (selected("-9223372036854775808"), ""),
        (f"CREATE STREAM u (c VARCHAR({'9' * 5_000})) WITH (kafka_topic='t');", "expected a shorter number"),
        (f"CREATE STREAM u (c {'ARRAY<' * 200}INT{'>' * 200}) WITH (kafka_topic='t');", "at most 50 deep"),
        ("CREATE TYPE t0 AS STRUCT<x INT, y INT>;"
         + "".join(f"CREATE TYPE t{n} AS STRUCT<x t{n - 1}, y t{n - 1}>;" for n in range(1, 40)),
         "at most 5000 others"),
        ("/* " * 20_000 + ";", "the comment /* is not closed"),
        (f"CREATE TABLE {'a' * 100_000} AS SELECT a, COUNT(*) FROM s GROUP BY a;", "expected a letter"),
        ("".join(f"CREATE STREAM s{n} AS SELECT * FROM {f's{n - 1}' if n else 's'};" for n in range(30)), ""),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_what_is_deep_or_long_is_taken_or_refused_in_time(text: str, said: str) -> None:
    script = Script()
    script.run(SOURCE)
    try:
        script.run(text)
        actual = ""
    except SqlError as error:
        actual = str(error)
    assert actual.startswith("line ") if said else not actual, actual
    assert said in actual
    assert len(actual) < 2_000


def test_the_place_of_an_error_is_that_of_the_text_with_its_variables() -> None:
    with pytest.raises(SqlError, match=r"line 2, column 53: column 'NOPE' cannot be resolved") as error:
        Script().run(f"{SOURCE.strip()} DEFINE v = 'a_value_that_is_long';\n" + selected("'${v}' || nope"))
    assert str(error.value).splitlines()[2].strip() == "^"


@pytest.mark.parametrize("name", BROKEN_OUT)
def test_names_that_try_to_break_out_are_refused_or_plain(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quoted = f"`{name.replace('`', '``')}`"
    for text in (
        f"CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH (kafka_topic='{text_in(name)}/', value_format='JSON');",
        f"CREATE TABLE t (id INT, a INT) WITH (kafka_topic='t', key='{text_in(name)}', value_format='JSON');",
        f"CREATE STREAM s (a INT) WITH (kafka_topic='t', timestamp='{text_in(name)}', value_format='JSON');",
        f"{SOURCE}CREATE STREAM u WITH (kafka_topic='{text_in(name)}/') AS SELECT a FROM s;",
        f"{SOURCE}CREATE STREAM u AS SELECT a, {quoted} FROM s;",
        f"{SOURCE}CREATE STREAM u AS SELECT {quoted}(a) AS c FROM s;",
        f"{SOURCE}INSERT INTO {quoted} SELECT a FROM s;",
        f"DROP TABLE {quoted};",
    ):
        with pytest.raises(LakehouseError):
            Script().run(text)
    # A name of a column, a field or a table may be anything: what becomes of it is plain.
    for text in (
        f"CREATE TABLE {quoted} (id INT PRIMARY KEY, a INT) WITH (kafka_topic='t', value_format='JSON');",
        f"CREATE STREAM s (id INT KEY, {quoted} INT) WITH (kafka_topic='t', value_format='JSON');",
        f"CREATE STREAM s (id INT KEY, a STRUCT<{quoted} INT>) WITH (kafka_topic='t', value_format='JSON');",
        f"{SOURCE}CREATE STREAM u AS SELECT a AS {quoted} FROM s;",
        f"{SOURCE}CREATE TABLE u AS SELECT a, COUNT(*) AS {quoted} FROM s GROUP BY a;",
    ):
        script = Script()
        with suppress(LakehouseError):
            script.run(text)
        for entry in script.catalog.entries.values():
            columns = entry.relation.node.columns
            names = [entry.name, *(column.name for column in columns)]
            assert [name for name in names if not re.fullmatch(r"\w+", name, re.ASCII)] == []
            assert all(re.fullmatch(r"[\w<>:, ]*", column.type, re.ASCII) for column in columns)
    assert list(tmp_path.iterdir()) == []


def text_in(name: str) -> str:
    """What stands between the quotes of a text."""
    return name.replace("'", "''")


@pytest.mark.parametrize("value", BROKEN_OUT)
def test_texts_that_try_to_break_out_are_texts(value: str) -> None:
    from lakehouse.ksql.expression.expression import ColumnScope
    from lakehouse.model.evaluate import evaluate
    from lakehouse.plan.expression.expression import Expression

    for text in (value, value + "\\", "\\'" + value, value + "'"):
        quoted = "'" + text.replace("'", "''") + "'"
        query = parse(f"SELECT {quoted} FROM x")
        assert isinstance(query, s.Query)
        assert query.items[0].expression is not None
        made = ColumnScope(()).sql(query.items[0].expression).text
        assert evaluate(Expression(made), {}) == text


USUAL = "kafka_topic='u', value_format='JSON'"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("STREAM u (id INT KEY, a INT) WITH (key='nope', {})", "KEY='NOPE' names the key of a table"),
        ("TABLE u (id INT PRIMARY KEY, a INT) WITH (key='a', {})", "KEY='A' names the key of a table"),
        ("TABLE u (id INT PRIMARY KEY, a INT) WITH (key='id', {})", ""),
        ("STREAM u (a VARCHAR) WITH (timestamp_format='yyyy', {})", "TIMESTAMP_FORMAT is that of the column"),
        ("STREAM u (a VARCHAR) WITH (value_delimiter='|', {})", "VALUE_DELIMITER is for DELIMITED, and this format is"),
        ("STREAM u (a VARCHAR) WITH (key_delimiter='|', {})", "KEY_DELIMITER is for DELIMITED, and this format is"),
        ("STREAM u WITH (value_delimiter='|') AS SELECT a FROM s", "VALUE_DELIMITER is for DELIMITED"),
        ("STREAM u WITH (value_format='DELIMITED', value_delimiter='|') AS SELECT a FROM s", ""),
    ],
)
def test_a_property_without_effect_is_refused(declared: str, said: str) -> None:
    text = f"{SOURCE} CREATE {declared.format(USUAL)};"
    with pytest.raises(SqlError, match=re.escape(said)) if said else nullcontext():
        Script().run(text)
