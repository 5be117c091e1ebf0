"""`lakehouse sql`: statements from a line, a file and the shell, over a lake that was written without Spark."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.cli.sql import shell
from lakehouse.errors import SqlError
from lakehouse.kafka.topics import TopicFacts
from lakehouse.ksql.describe import DeletedRow
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.statement import AssertTopic
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.scenario import Scenario, build_records, on_model
from lakehouse.run.sql import records as bronze_records
from lakehouse.run.sql.asserted_topic import check_topic
from lakehouse.run.sql.session import SqlSession

from ..run.model_lake import write_lake
from .conftest import Command
from .versioned import VersionedTable, position
from .written import at

APP = """\
CREATE STREAM visits (name VARCHAR KEY, city VARCHAR, tags ARRAY<VARCHAR>)
  WITH (kafka_topic='visits', value_format='JSON');
CREATE TABLE per_city AS
  SELECT city, COUNT(*) AS n, HISTOGRAM(city) AS h FROM visits GROUP BY city;
CREATE TABLE hourly AS SELECT city, COUNT(*) AS n FROM visits WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY city;
"""
INPUTS = [
    {"topic": "visits", "key": "ann", "value": {"city": "Rome", "tags": ["a", "b"]}, "timestamp": 0},
    {"topic": "visits", "key": "bob", "value": {"city": "Oslo"}, "timestamp": 1000},
    {"topic": "visits", "key": "cid", "value": None, "timestamp": 2000},
    {"topic": "visits", "key": "ann", "value": {"city": "Rome"}, "timestamp": 4_000_000},
]


@pytest.fixture
def lake(folder: Path) -> Path:
    """A folder with app.sql, and the lake that it makes."""
    (folder / "app.sql").write_text(APP)
    script = Script()
    script.run(APP)
    app = script.app()
    sent = build_records(Scenario(folder / "x.json", "x", "", INPUTS), app)
    write_lake(Layout(str(folder / "lake")), app, sent, on_model(app, sent))
    return folder


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("SELECT city, n FROM per_city WHERE city = 'Rome'", [{"CITY": "Rome", "N": 2}]),
        ("SELECT n + 1 AS more, UCASE(city) FROM per_city WHERE n < 2", [{"MORE": 2, "KSQL_COL_0": "OSLO"}]),
        ("SELECT h['Rome'] AS r FROM per_city WHERE city LIKE 'R%'", [{"R": 2}]),
        (
            "SELECT * FROM hourly WHERE WINDOWSTART > 0",
            [{"CITY": "Rome", "WINDOWSTART": 3_600_000, "WINDOWEND": 7_200_000, "N": 1}],
        ),
        ("SELECT name, tags[-1] AS last, ROWTIME AS t FROM visits LIMIT 1", [{"NAME": "ann", "LAST": "b", "T": 0}]),
        ("SELECT name FROM visits WHERE city = 'Oslo'", [{"NAME": "bob"}]),
        ("SELECT name, EXPLODE(tags) AS tag FROM visits LIMIT 1", [{"NAME": "ann", "TAG": "a"}]),
        ("SELECT EXPLODE(tags) AS tag FROM visits WHERE name = 'ann'", [{"TAG": "a"}, {"TAG": "b"}]),
        ("SELECT n FROM per_city WHERE city = 'Oslo' AT VERSION 0", [{"N": 1}]),
        ("SELECT n FROM per_city WHERE city = 'Oslo' AT TICK 1", [{"N": 1}]),
    ],
)
def test_pull_queries(lakehouse: Command, lake: Path, statement: str, wanted: list[object]) -> None:
    outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "--json", "-e", statement)
    assert (outcome.code, rows(outcome.out)) == (0, wanted), outcome.err


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT city, COUNT(*) FROM per_city GROUP BY city", "doesn't support GROUP BY"),
        ("SELECT nope FROM per_city", "column 'NOPE' cannot be resolved"),
        ("SELECT * FROM per_town", "PER_TOWN does not exist. Did you mean 'PER_CITY'?"),
        ("SELECT * FROM per_city AT LUNCH 3", "can't read this moment. Found LUNCH 3"),
        ("SELECT * FROM visits AT TICK 1", "AT is for tables"),
        ("TERMINATE CTAS_PER_CITY_1", "a query is a part of an application"),
        ("SELECT * FROM per_city EMIT CHANGES AT TICK 1", "AT names one moment"),
        ("ASSERT VALUES visits (name) VALUES ('x')", "is for tests"),
        ("DESCRIBE FUNCTION ucas", "Did you mean 'UCASE'?"),
    ],
)
def test_what_can_not_be_asked(lakehouse: Command, lake: Path, statement: str, said: str) -> None:
    outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "-e", statement)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split()), outcome.err
    assert "line 1, column " in outcome.err


def test_what_is_declared_can_be_asked(lakehouse: Command, lake: Path) -> None:
    def asked(statement: str) -> list[dict[str, object]]:
        return rows(lakehouse("sql", "--app", "app.sql", "--json", "-e", statement).out)

    assert asked("SHOW STREAMS") == [
        {"stream": "VISITS", "topic": "visits", "key format": "KAFKA", "value format": "JSON"}
    ]
    assert [row["table"] for row in asked("LIST TABLES EXTENDED")] == ["PER_CITY", "HOURLY"]
    assert asked("SHOW QUERIES")[0] == {"query": "CTAS_PER_CITY_1", "writes": "PER_CITY", "topic": "PER_CITY"}
    assert asked("DESCRIBE per_city") == [
        {"column": "CITY", "type": "VARCHAR(STRING)", "": "PRIMARY KEY"},
        {"column": "N", "type": "BIGINT", "": ""},
        {"column": "H", "type": "MAP<VARCHAR(STRING), BIGINT>", "": ""},
    ]
    assert "CREATE TABLE per_city AS" in str(asked("DESCRIBE per_city EXTENDED")[-1]["message"])
    assert asked("DESCRIBE EXTENDED per_city") == asked("DESCRIBE per_city EXTENDED")
    assert {"function": "UCASE", "family": "Texts and bytes"} in asked("SHOW FUNCTIONS")
    assert asked("DESCRIBE FUNCTION ucase")[0]["takes"] == "(text)"
    assert asked("CREATE TYPE t AS INT; SHOW TYPES")[1:] == [{"type": "T", "is": "INTEGER"}]
    assert asked("DEFINE a = 'b'; SHOW VARIABLES")[1:] == [{"variable": "A", "value": "b"}]
    assert asked("SET 'x' = 'y'; SHOW PROPERTIES")[1:] == [{"property": "x", "value": "y"}]
    assert "GROUP BY CITY" in str(asked("EXPLAIN CTAS_PER_CITY_1")[0]["message"])
    assert "FILTER" in str(asked("EXPLAIN SELECT name, city FROM visits WHERE city = 'x' EMIT CHANGES")[0]["message"])
    for explained in (
        "SELECT * FROM per_city", "SELECT n FROM per_city WHERE n > 1 AT TICK 1",
        "CREATE TABLE u AS SELECT * FROM per_city", "SELECT city FROM visits EMIT CHANGES LIMIT 3",
        "SELECT tags FROM visits v JOIN per_city c ON v.city = c.city EMIT CHANGES",
    ):  # fmt: skip
        assert "FROM topic visits" in str(asked(f"EXPLAIN {explained}")[0]["message"])


def test_a_long_list_is_shown_whole(lakehouse: Command, lake: Path) -> None:
    said = lakehouse("sql", "--app", "app.sql", "-e", "SHOW FUNCTIONS").out
    assert ("ABS" in said, "URL_EXTRACT_QUERY" in said, "the first" in said) == (True, True, False)


@pytest.mark.parametrize(
    "words",
    [
        ("past", "log", "per_city"), ("past", "changes", "Per_City"), ("past", "show", "per_city", "0"),
        ("past", "diff", "per_city", "now", "now"), ("past", "blame", "per_city", "--key", "Rome"),
        ("past", "bisect", "per_city", "count(*) < 0"), ("look", "describe", "per_city"), ("look", "late", "hourly"),
        ("look", "interventions", "per_city"), ("past", "explain", "per_city", "--key", "Rome", "--app", "app.sql"),
    ],
    ids=lambda words: words[1],
)  # fmt: skip
def test_a_table_is_found_in_any_case(lakehouse: Command, lake: Path, words: tuple[str, ...]) -> None:
    """SQL's names are in upper case in the lake; people write them as in their statements."""
    said = lakehouse(*words, "--lake", "lake").err  # this lake has no feed of changes, so some end with that
    assert not any(nothing in said for nothing in ("does not exist", "is not in this application", "no such")), said


def test_a_file_and_a_pipe(lakehouse: Command, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    (lake / "ask.sql").write_text("-- how many\nSELECT n FROM per_city\n WHERE city = 'Oslo';\n\nSHOW TABLES;")
    outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "--json", "-f", "ask.sql")
    assert [sorted(row) for row in rows(outcome.out)] == [
        ["N"],
        *[["key format", "table", "topic", "value format"]] * 2,
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("SHOW\n TABLE;"))
    outcome = lakehouse("sql", "--app", "app.sql")
    assert (outcome.code, "line 2, column 2: " in outcome.err) == (2, True)
    assert lakehouse("sql", "-f", "none.sql").code == 2
    assert "expected a file of SQL" in lakehouse("sql", "--app", "app.py", "-e", "SHOW TABLES").err


def test_nothing_runs_where_a_later_statement_can_not_be_read(lakehouse: Command, lake: Path) -> None:
    asked = "SELECT n FROM per_city WHERE city = 'Oslo';"
    read = "DEFINE a = 'x'; CREATE TYPE t AS INT; CREATE STREAM ${a} (i t) WITH (kafka_topic='x', value_format='JSON');"
    for text, place in ((f"{asked}\n SELEC 1;", "line 2, "), (f"{asked} SHOW ${{b}};", "variable b")):
        outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "--json", "-e", text)
        assert (outcome.code, outcome.out, place in outcome.err) == (2, "", True), outcome.err
    outcome = lakehouse("sql", "--app", "app.sql", "--lake", "lake", "--json", "-e", f"{read} {asked}")
    assert (outcome.code, rows(outcome.out)[-1]) == (0, {"N": 1}), outcome.err


def test_an_error_in_the_application_names_its_file(lakehouse: Command, lake: Path) -> None:
    (lake / "app.sql").write_text(APP + "CREATE TABLE per_city AS SELECT 1 FROM nothing;")
    outcome = lakehouse("sql", "--app", "app.sql", "-e", "SHOW TABLES")
    assert (outcome.code, "app.sql: line 6, column 1: " in outcome.err) == (2, True), outcome.err


def test_push_queries_give_what_comes(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table, the changed rows of each version; of a stream, the records of each tick."""
    session = SqlSession(Lake(str(lake / "lake")).settings)
    session.script.run(APP)
    list(session.run("SET 'auto.offset.reset' = 'earliest';"))
    (answer,) = session.run("SELECT name FROM visits EMIT CHANGES LIMIT 3;")
    assert (list(answer.rows), answer.ends) == ([("ann",), ("bob",), ("ann",)], False)


def test_a_push_query_says_that_a_row_left_its_where(folder: Path) -> None:
    table = VersionedTable(folder / "lake", "AGES", {"ID": pa.int32(), "AGE": pa.int32()}, ("ID",), feed=True)

    def row(id: int, age: int, tick: int) -> dict[str, object]:
        return {"ID": id, "AGE": age, "_event_time": at(0), "_position": position(tick, id)}

    table.commit(1, row(1, 5, 1), row(2, 50, 1), row(3, 7, 1))
    table.commit(2, row(1, 60, 2), row(2, 51, 2), row(3, 8, 2))
    table.commit(3, row(1, 6, 3), gone=[{"ID": 2}, {"ID": 3}])
    session = SqlSession(Lake(str(folder / "lake")).settings)
    session.script.run(
        "CREATE TABLE ages (id INT PRIMARY KEY, age INT) WITH (kafka_topic='ages', value_format='JSON');"
    )
    list(session.run("SET 'auto.offset.reset' = 'earliest';"))
    (answer,) = session.run("SELECT id, age FROM ages WHERE age < 10 EMIT CHANGES LIMIT 6;")
    changes = [(row, isinstance(row, DeletedRow)) for row in answer.rows]
    assert changes[:4] == [((1, 5), False), ((3, 7), False), ((1, None), True), ((3, 8), False)]
    assert sorted(changes[4:], key=str) == [((1, 6), False), ((3, None), True)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ASSERT TOPIC t", ""), ("ASSERT TOPIC t WITH (PARTITIONS=3, REPLICAS=1)", ""),
        ("ASSERT TOPIC t WITH (PARTITIONS=4)", "topic t has PARTITIONS=3, and not 4"),
        ("ASSERT TOPIC t WITH (PARTITIONS=3, RETENTION_MS=1)", "RETENTION_MS can't be compared. Expected PARTITIONS"),
        ("ASSERT TOPIC u", "topic u does not exist"), ("ASSERT NOT EXISTS TOPIC u", ""),
        ("ASSERT NOT EXISTS TOPIC t TIMEOUT 1 MILLISECOND", "topic t exists"),
        ("ASSERT NOT EXISTS TOPIC u WITH (PARTITIONS=3)", "PARTITIONS is for a topic that exists"),
        ("ASSERT TOPIC later", "topic later does not exist"), ("ASSERT TOPIC later TIMEOUT 30 SECONDS", ""),
    ],
)  # fmt: skip
def test_a_topic_is_asserted_with_its_properties(statement: str, said: str) -> None:
    parsed = parse(statement)
    assert isinstance(parsed, AssertTopic)
    existing = [parsed.topic == "t", parsed.topic in ("t", "later")]

    def read_facts() -> TopicFacts | None:
        exists = existing.pop(0) if len(existing) > 1 else existing[0]
        return TopicFacts(parsed.topic, "id", 3) if exists else None

    with pytest.raises(SqlError, match=re.escape(said)) if said else nullcontext():
        check_topic(parsed, read_facts)


def test_the_shell_goes_on_after_an_error(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = SqlSession(Lake(str(lake / "lake")).settings)
    typed = iter(
        [APP, "SELECT nope FROM per_city;", "help", "SELECT n FROM per_city WHERE city = 'Oslo';", "save a.sql", "exit"]
    )
    while (text := shell.read_statements(lambda: next(typed))) is not None and shell.run_typed_text(session, text):
        pass
    said = capsys.readouterr()
    assert "column 'NOPE' cannot be resolved" in said.err
    assert "Statements end with a semicolon" in said.out
    assert re.search(r"│\s+1 │", said.out)
    assert Script().run((lake / "a.sql").read_text()) == []


def test_the_shell_takes_commands_of_psql(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = SqlSession(Lake(str(lake / "lake")).settings)
    session.script.run(APP)
    for text in (r"\d", r"\D per_city", r"\d+ per_city;", r"\?"):
        assert shell.is_done(text)
        assert shell.run_typed_text(session, text)
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.count("PER_CITY") >= 2
    assert "VARCHAR" in said.out
    for text, message in ((r"\d a b", "expected"), (r"\x", r"\x: expected \d"), (r"\d nope", "NOPE")):
        assert shell.run_typed_text(session, text)
        assert message in capsys.readouterr().err
    assert not shell.run_typed_text(session, r"\q")
    assert shell.is_done("  ")


def test_the_shell_ends_reads_and_completes(lake: Path) -> None:
    def raising(error: type[BaseException]) -> str:
        raise error

    answers = iter([KeyboardInterrupt, EOFError])
    assert shell.read_statements(lambda: raising(next(answers))) is None
    assert [shell.is_done(text) for text in ("SELECT 1", "SELECT 1;", "exit", "", "SELECT ';")] == [
        False, True, True, True, False,
    ]  # fmt: skip
    session = SqlSession(Lake(str(lake / "lake")).settings)
    session.script.run(APP)
    assert {"SELECT", "UCASE", "COUNT", "EXPLODE", "PER_CITY", "TAGS"} <= set(shell.completion_words(session))


def test_the_prompt_takes_statements_of_several_lines(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("HOME", str(lake))
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("SHOW\rTABLES;\r")
        assert shell.make_prompt(SqlSession(Lake(str(lake / "lake")).settings))() == "SHOW\nTABLES;"
    history = lake / shell.HISTORY
    assert "SHOW" in history.read_text()
    assert oct(history.stat().st_mode & 0o777) == "0o600"


def test_a_stream_is_read_tick_by_tick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records come in the order of their positions, and a question that wants a few reads a few."""
    script = Script()
    script.run(APP + "CREATE STREAM both AS SELECT * FROM visits; INSERT INTO both SELECT * FROM visits;")
    app = script.app()
    inputs = [
        {"topic": "visits", "key": f"k{n:03}", "value": {"city": "Rome"}, "timestamp": n * 1000} for n in range(40)
    ]
    sent = [
        replace(record, tick=1 + n // 10)
        for n, record in enumerate(build_records(Scenario(folder / "x.json", "x", "", inputs), app))
    ]
    layout = Layout(str(folder / "lake"))
    write_lake(layout, app, sent, on_model(app, sent))
    read: list[int] = []
    of_record = bronze_records.record_of
    monkeypatch.setattr(bronze_records, "record_of", lambda row: (read.append(row["offset"]), of_record(row))[1])
    session = SqlSession(Lake(str(folder / "lake")).settings, script)

    def asked(statement: str) -> list[object]:
        read.clear()
        (answer,) = session.run(statement)
        return [value for (value,) in answer.rows]

    every = [f"k{n:03}" for n in range(40)]
    assert asked("SELECT name FROM visits;") == every
    assert asked("SELECT name FROM both;") == [name for name in every for _ in range(2)]
    assert asked("SELECT name FROM visits LIMIT 3;") == every[:3]
    assert len(read) == 10, "one tick"


@pytest.mark.parametrize(
    ("statement", "limit", "wanted"),
    [
        ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", 3, [("Rome", 1), ("Oslo", 1), ("Rome", 2)]),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY city", 3, [(1,), (1,), (2,)]),
        ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city HAVING COUNT(*) > 1", 1, [("Rome", 2)]),
        (
            "SELECT city, WINDOWSTART AS s, COUNT(*) AS n FROM visits WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY city",
            3,
            [("Rome", 0, 1), ("Oslo", 0, 1), ("Rome", 3_600_000, 1)],
        ),
        ("SELECT name, EXPLODE(tags) AS tag FROM visits", 2, [("ann", "a"), ("ann", "b")]),
        (
            "SELECT v.name, w.city FROM visits v JOIN visits w WITHIN 1 HOUR ON v.name = w.name", 2,
            [("ann", "Rome"), ("bob", "Oslo")],
        ),
        ("SELECT v.city AS city, c.n FROM visits v JOIN per_city c ON v.city = c.city", 2, [("Rome", 1), ("Oslo", 1)]),
        ("SELECT c.city, n, m FROM per_city c JOIN again a ON c.city = a.city", 2, [("Rome", 1, 1), ("Oslo", 1, 1)]),
        ("SELECT v.city, COUNT(*) AS n FROM visits v GROUP BY city", 2, [("Rome", 1), ("Oslo", 1)]),
        ("SELECT v.name AS city, COUNT(*) AS n FROM visits v GROUP BY name, v.city", 2, [("ann", 1), ("bob", 1)]),
        (
            "SELECT w.city AS city, 1 AS name FROM visits v JOIN visits w WITHIN 1 HOUR ON v.name = w.name", 2,
            [("Rome", 1), ("Oslo", 1)],
        ),
        (
            "SELECT v.city AS a, w.city AS b FROM visits v FULL JOIN visits w WITHIN 1 HOUR ON v.name = w.name "
            "WHERE w.name = 'bob'", 1, [("Oslo", "Oslo")],
        ),
        ("SELECT c.n, v.tags FROM visits v JOIN per_city c ON v.city = c.city", 1, [(1, ["a", "b"])]),
        ("SELECT m FROM per_city c JOIN again a ON c.city = a.city", 2, [(1,), (1,)]),
        ("SELECT city, name FROM visits PARTITION BY city", 2, [("Rome", "ann"), ("Oslo", "bob")]),
        (
            "SELECT name, city FROM visits PARTITION BY name", 3,
            [("ann", "Rome"), ("bob", "Oslo"), ("ann", "Rome")],
        ),
        (
            "SELECT city, WINDOWSTART AS s, WINDOWEND, COUNT(*) AS n FROM visits WINDOW SESSION (2 HOURS) "
            "GROUP BY city", 4,
            [("Rome", 0, 0, 1), ("Oslo", 1000, 1000, 1), ("Rome", 0, 0, None), ("Rome", 0, 4_000_000, 2)],
        ),
    ],
)  # fmt: skip
def test_push_queries_compute(lake: Path, statement: str, limit: int, wanted: list[object]) -> None:
    session = SqlSession(Lake(str(lake / "lake")).settings)
    session.script.run(APP + "CREATE TABLE again AS SELECT city, COUNT(*) AS m FROM visits GROUP BY city;")
    list(session.run("SET 'auto.offset.reset' = 'earliest';"))
    (answer,) = session.run(f"{statement} EMIT CHANGES LIMIT {limit};")
    assert list(answer.rows) == wanted


def test_a_push_query_of_too_many_records_says_so(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bronze_records, "RECORDS_HELD", 3)
    session = SqlSession(Lake(str(lake / "lake")).settings)
    session.script.run(APP)
    list(session.run("SET 'auto.offset.reset' = 'earliest';"))
    (answer,) = session.run("SELECT city, COUNT(*) AS n FROM visits GROUP BY city EMIT CHANGES;")
    with pytest.raises(SqlError, match=r"at most 3 here\. CREATE \.\.\. AS SELECT keeps such a query"):
        next(iter(answer.rows))


def test_a_table_that_is_not_built_yet_is_named_with_what_to_do(lake: Path, lakehouse: Command) -> None:
    (lake / "app.sql").write_text(APP + "CREATE TABLE later AS SELECT city, COUNT(*) AS n FROM visits GROUP BY city;\n")
    for statement in (
        "SELECT * FROM later;",
        "SELECT n FROM later WHERE city = 'Rome';",
        "SELECT * FROM later AT TICK 1;",
    ):
        refused = lakehouse("sql", "--app", "app.sql", "-e", statement)
        assert refused.code == 2, statement
        assert "table LATER is declared" in refused.err, statement
        assert "`lakehouse run` builds it" in refused.err, statement
