"""`lakehouse query` at a moment of the past; over a lake written without Spark."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import rows_at
from lakehouse.semantics.epoch_time import moment_text
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.record import Record

from ..written_bronze import append, write_bronze
from .versioned import Story, VersionedTable, visit

SQL = 'SELECT "user", n FROM visits ORDER BY "user"'


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(tmp_path_factory.mktemp("lake"))
    state = VersionedTable(story.root, layer="state")
    state.commit(1, visit("kept", 1, 1, 0), times=(100, 200))
    return story


@pytest.fixture
def query(story, lakehouse):
    """Run a query at a moment; return its rows."""

    def run(sql: str, *moment: str) -> list[dict[str, Any]]:
        outcome = lakehouse("query", sql, *moment, "--json", "--lake", str(story.root))
        assert outcome.code == 0, outcome.err
        return [json.loads(line) for line in outcome.out.splitlines()]

    return run


FIRST = [{"user": "ann", "n": 1}, {"user": "bob", "n": 1}]
SECOND = [{"user": "ann", "n": 2}, {"user": "bob", "n": 1}]
LAST = [{"user": "ann", "n": 2}, {"user": "cat", "n": 1}, {"user": "dan", "n": 1}]


@pytest.mark.parametrize(
    ("moment", "rows"),
    [
        (["--version", "2"], FIRST), (["--version", "0"], []), (["--tick", "2"], FIRST), (["--tick", "3"], SECOND),
        (["--tick", "8"], LAST), ([], LAST), (["--offsets", "clicks/0=2,clicks/1=1"], SECOND),
        (["--at", "1970-01-01T00:00:00.299Z"], FIRST), (["--at", "1970-01-01T00:00:00.3Z", "--clock", "event"], SECOND),
        (["--at", "2013-06-01"], LAST),
    ],
)  # fmt: skip
def test_a_table_at_each_kind_of_moment(query, moment, rows):
    assert query(SQL, *moment) == rows


def test_what_we_knew_then(story, query):
    assert query(SQL, "--at", moment_text(story.times[3]), "--clock", "commit") == SECOND


def test_every_table_that_the_sql_names_is_read_at_the_moment(query):
    sql = """
        WITH newest AS (SELECT max(n) AS n FROM visits)
        SELECT v.n, v._position.tick AS tick, b."offset"
        FROM silver.Visits AS v JOIN bronze.clicks AS b ON b.key = v."user"::BLOB JOIN newest USING (n)
        WHERE "user" = 'ann' ORDER BY "offset"
    """
    assert query(sql, "--tick", "2") == [{"n": 1, "tick": 1, "offset": 0}]
    assert query(sql, "--tick", "8") == [{"n": 2, "tick": 3, "offset": 0}, {"n": 2, "tick": 3, "offset": 1}]


def test_a_state_at_a_moment(query):
    assert query('SELECT "user" FROM state.visits', "--tick", "1") == [{"user": "kept"}]


@pytest.mark.parametrize(
    ("moment", "offsets"),
    [
        (["--tick", "4"], [0, 1, 2, 0]), (["--at", "1970-01-01T00:00:00.3Z"], [0, 1, 0]), (["--tick", "0"], []),
        (["--offsets", "clicks/0=2,clicks/1=0"], [0, 1]), (["--offsets", "clicks/1=3,clicks/0=0"], [0, 1, 2]),
        (["--version", "0"], [0, 0]),
    ],
)  # fmt: skip
def test_bronze_at_a_moment(query, moment, offsets):
    rows = query('SELECT "offset" FROM bronze.clicks ORDER BY "partition", "offset"', *moment)
    assert [row["offset"] for row in rows] == offsets


def test_late_and_quarantined_records_at_a_moment(story, query, lakehouse):
    story.bronze.late("visits", 3, ("clicks", 0, 1, "ann", None, None))
    assert query("SELECT count(*) AS n FROM late.visits", "--tick", "2") == [{"n": 0}]
    assert query("SELECT count(*) AS n FROM late.visits", "--tick", "3") == [{"n": 1}]
    for moment, said in (
        (["--at", "2013-06-01"], "late.visits has no event time. Name a tick, a commit time or a version"),
        (["--offsets", "clicks/0=1"], "late.visits can't be read by offsets. Name a tick"),
        (["--tick", "9"], "late.visits at tick 9: bronze has ticks up to 8"),
    ):
        outcome = lakehouse("query", "SELECT * FROM late.visits", *moment, "--lake", str(story.root))
        assert (outcome.code, outcome.out) == (2, "")
        assert said in outcome.err


@pytest.mark.parametrize(
    ("sql", "moment", "said"),
    [
        (SQL, ["--tick", "4"], "The nearest are version 3 (tick 3) and version 4 (tick 5). With --app, which names"),
        (SQL, ["--tick", "9"], "table 'visits' at tick 9: bronze has ticks up to 8"),
        (SQL, ["--version", "9"], "table 'visits' has no version 9. It has versions 0 to 5"),
        (SQL, ["--version", "1", "--tick", "1"], "found version and tick; expected at most one moment"),
        (SQL, ["--clock", "commit"], "--clock commit says what --at means; name a time with --at"),
        (SQL, ["--at", "2013", "--clock", "wall"], 'clock \'wall\': expected "event"'),
        (SQL, ["--at", "June"], "at 'June': expected a time"),
        (SQL, ["--offsets", "views/0=1"], "one for every partition with records; add clicks/0=3"),
        ("FROM state.visits", ["--at", "1970-01-01T00:00:00.150"], "Between versions only visits itself can be read"),
        ("FROM visits, bronze.clicks", ["--version", "1"], "versions of its own; found bronze.clicks, silver.visits."),
        ("SELECT * FROM nix", ["--tick", "1"], "there is no table nix"),
        ("SELECT * FROM silver.nix AS x", ["--tick", "1"], "there is no table silver.nix."),
        ("SELECT * FROM nix.visits", ["--tick", "1"], "there is no table nix.visits"),
        ("SELECT * FROM a.silver.visits", ["--tick", "1"], "there is no table a.silver.visits"),
        ("SELECT * FROM '/etc/passwd'", ["--tick", "1"], "there is no table /etc/passwd"),
        ("DELETE FROM visits", ["--tick", "1"], "expected one SELECT"),
        ("SELECT 1; SELECT 2", ["--tick", "1"], "expected one SELECT"),
        ("SELECT * FROM visit", [], "Did you mean 'visits'? It has: visits. `lakehouse look tables` lists all."),
        ("SELECT * FROM silver.nix", [], "query: there is no table nix in "),
        ("SELECT nix FROM visits", ["--tick", "1"], 'column "nix" not found'),
        ("SELEC", ["--tick", "1"], "syntax error"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(story, lakehouse, sql, moment, said):
    outcome = lakehouse("query", sql, *moment, "--lake", str(story.root))
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_late_records_of_a_tick_that_their_table_has_not_taken_in_are_not_known(tmp_path, lakehouse):
    story = Story(tmp_path)
    story.bronze.late("visits", 3, ("clicks", 0, 1, "ann", None, None))
    story.bronze.tick(9, ("clicks", "ann", 0, 900, "a2"))
    sql, at = "SELECT * FROM late.visits", ("--lake", str(tmp_path))
    outcome = lakehouse("query", sql, "--tick", "9", *at)
    assert (outcome.code, outcome.out) == (2, "")
    assert "table 'visits' at tick 9: it has not taken that in yet, and is at tick 7" in outcome.err
    assert lakehouse("query", sql, "--tick", "8", *at).code == 0  # tick 8 has no records for it


def test_names_with_odd_characters(tmp_path, lakehouse):
    story = Story(tmp_path)
    topic = "my.topic-1"
    story.bronze.tick(9, (topic, "k", 0, 900, "v"))
    sql = f'SELECT t."offset" FROM bronze."{topic}" AS t JOIN "VISITS" ON true LIMIT 1'
    outcome = lakehouse("query", sql, "--tick", "9", "--csv", "--lake", str(tmp_path))
    assert outcome.out == "offset\n0\n"
    outcome = lakehouse("query", sql, "--tick", "8", "--csv", "--lake", str(tmp_path))
    assert outcome.out == "offset\n"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS one", [{"one": 1}]),
        ("WITH v AS (FROM visits) SELECT count(*) AS n FROM V", [{"n": 2}]),
        ("WITH visits AS (FROM silver.visits LIMIT 1) SELECT count(*) AS n FROM visits", [{"n": 1}]),
        ("SELECT count(*) AS n FROM main.visits WHERE EXISTS (FROM bronze.views)", [{"n": 0}]),
        ("SELECT count(*) AS n FROM visits AS a NATURAL JOIN silver.visits AS b", [{"n": 2}]),
    ],
)
def test_how_sql_names_tables(query, sql, rows):
    assert query(sql, "--tick", "1") == rows


def test_how_it_would_be_answered(story, lakehouse):
    outcome = lakehouse("query", "explain SELECT * FROM visits", "--tick", "1", "--csv", "--lake", str(story.root))
    assert "silver_visits" in outcome.out or "ARROW_SCAN" in outcome.out


def test_between_versions_the_table_is_folded(story):
    """Spark folds: the caller passes the function in."""
    asked: list[tuple[str, At]] = []

    def fold(name: str, at: At) -> pa.Table:
        asked.append((name, at))
        return pa.table({"user": ["eve"], "n": [7], "_event_time": [1]})

    actual = rows_at.query(story.layout, "SELECT * FROM visits", AtTick(4), fold)
    assert actual.to_arrow_table().to_pylist() == [{"user": "eve", "n": 7}]
    assert asked == [("visits", AtTick(4))]
    rows_at.query(story.layout, "SELECT * FROM visits", AtTick(5), fold)
    assert len(asked) == 1, "a version is read without it"
    with pytest.raises(NotFound, match="bronze has ticks up to 8"):
        rows_at.query(story.layout, "SELECT * FROM visits", AtTick(9), fold)


def test_an_incomplete_tick_belongs_to_no_moment(tmp_path: Path):
    """A topic's own table is written first: a killed ingest leaves rows there without a complete tick."""
    records = [Record("t", "id", 0, n, 10 * n, b"k", b"v", n + 1, 10 * n) for n in range(2)]
    write_bronze(tmp_path, records[:1], own=["t"])
    append(tmp_path / "bronze" / "own" / "t", 2, records[1:], None)
    for at in (AtEvent(99), AtOffsets({"t": {0: 1}}), AtTick(1)):
        actual = rows_at.query(Layout(str(tmp_path)), 'SELECT "offset" FROM bronze.t', at)
        assert actual.fetchall() == [(0,)], at
    with pytest.raises(NotFound, match="bronze has t/0 up to 1"):
        rows_at.query(Layout(str(tmp_path)), "SELECT * FROM bronze.t", AtOffsets({"t": {0: 2}}))


def test_a_lake_without_tables(tmp_path, lakehouse):
    outcome = lakehouse("query", "SELECT * FROM visits", "--tick", "1", "--lake", str(tmp_path))
    assert (outcome.code, f"{tmp_path} is no lake: it is empty" in outcome.err) == (1, True)
    (tmp_path / "bronze").mkdir()
    outcome = lakehouse("query", "SELECT * FROM visits", "--tick", "1", "--lake", str(tmp_path))
    assert outcome.code == 2
    assert "there is no table visits" in outcome.err
    outcome = lakehouse("query", "SELECT * FROM visits", "--lake", str(tmp_path))
    assert outcome.code == 2
    assert f"there is no table visits in {tmp_path}. It has none yet; `lakehouse run` makes them." in outcome.err


def test_the_past_after_vacuum(tmp_path: Path, lakehouse):
    story = Story(tmp_path)
    story.visits.vacuum()
    outcome = lakehouse("query", SQL, "--version", "3", "--lake", str(tmp_path))
    assert outcome.code == 2
    assert "version 3: some of its files are gone (VACUUM). It has versions 4 to" in outcome.err
    assert "With --app, which names the application, Spark folds it from bronze" in outcome.err
    assert "Traceback" not in outcome.err
    rows = pa.table({"user": ["ann"], "n": [7]})
    actual = rows_at.query(story.layout, "SELECT n FROM visits", AtVersion(3), lambda name, at: rows)
    assert actual.fetchall() == [(7,)]
    with pytest.raises(NotFound, match="has no version 30"):
        rows_at.query(story.layout, "SELECT n FROM visits", AtVersion(30), lambda name, at: rows)


def test_a_person_reads_values_as_they_are(lakehouse, story):
    sql = "SELECT 12345 AS id, 1999 AS year, NULL AS nothing, true AS paid, 12345.50::DECIMAL(10, 2) AS total"
    out = lakehouse("query", sql, "--lake", str(story.root)).out
    assert [cell.strip() for cell in out.splitlines()[3].split("│")[1:-1]] == [
        "12345", "1999", "null", "true", "12345.50",
    ]  # fmt: skip


def test_the_log_leaves_out_the_starts_of_writers(lakehouse, story):
    at = ("--lake", str(story.root))
    assert "open epoch" not in lakehouse("past", "log", "visits", *at).out
    assert "open epoch" in lakehouse("past", "log", "visits", "--all", *at).out
    assert len(lakehouse("past", "log", "visits", "--limit", "2", *at).out.splitlines()) == 2 + 6
    assert len(lakehouse("past", "log", "visits", "--json", *at).out.splitlines()) == 6


@pytest.mark.parametrize(
    "value",
    ["DATE '10000-01-01'", "'infinity'::DATE", "TIMESTAMP '290000-01-01'", "[DATE '9999-12-31' + INTERVAL 1 YEAR]"],
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_a_time_that_python_does_not_have_is_refused_with_a_way_out(lakehouse, story, value, form):
    at = ("--lake", str(story.root))
    outcome = lakehouse("query", f"SELECT {value} AS t", *form, *at)
    assert (outcome.code, outcome.out) == (2, "")
    assert "column 't' has a time outside the years 1 to 9999" in outcome.err
    assert lakehouse("query", f"SELECT CAST(t AS VARCHAR) FROM (SELECT {value} AS t)", *form, *at).code == 0


def test_csv_has_values_as_json_has_them(lakehouse, story):
    sql = (
        "SELECT true AS yes, NULL AS nothing, 'NaN'::DOUBLE AS n, [1.5, NULL] AS some, "
        "{'at': TIMESTAMPTZ '2013-06-01 12:00:00+00', 'd': '-inf'::DOUBLE, 'b': '\\xFF'::BLOB} AS inside, 'a,b' AS text"
    )
    out = lakehouse("query", sql, "--csv", "--lake", str(story.root)).out
    names, *rows = csv.reader(io.StringIO(out))
    assert names == ["yes", "nothing", "n", "some", "inside", "text"]
    inside = '{"at": "2013-06-01T12:00:00Z", "d": "-Infinity", "b": "base64:/w=="}'
    assert rows == [["true", "", "NaN", "[1.5, null]", inside, "a,b"]]


def test_values_of_types_that_arrow_lacks_are_shown_as_they_are(lakehouse, story):
    large, huge = str(2**128 - 1), "1" + "0" * 30
    sql = (
        f"SELECT sum(x) AS total, max(x) AS most, INTERVAL 90 MINUTE AS lasts, {large}::UHUGEINT AS large, "
        f"'12:00:00+02'::TIMETZ AS clock, MAP {{'a': 1}} AS map, [MAP {{1: 'x'}}] AS maps, "
        f"sum({huge}::HUGEINT) AS huge FROM (VALUES (1), (2)) t(x)"
    )
    outcome = lakehouse("query", sql, "--json", "--lake", str(story.root))
    assert json.loads(outcome.out) == {
        "total": 3, "most": 2, "lasts": "01:30:00", "large": large, "clock": "12:00:00+02", "map": {"a": 1},
        "maps": [{"1": "x"}], "huge": f"2{huge[1:]}",
    }  # fmt: skip


def test_topics_that_differ_in_case_alone_are_in_no_querys_way(tmp_path, lakehouse):
    story = Story(tmp_path)
    story.bronze.tick(9, ("Orders", "k", 0, 900, "v"), ("orders", "k", 0, 900, "v"))
    at = ("--csv", "--lake", str(tmp_path))
    assert lakehouse("query", "SELECT count(*) AS n FROM visits", *at).out == "n\n3\n"
    outcome = lakehouse("query", 'SELECT * FROM bronze."Orders"', *at)
    assert outcome.code != 0
    assert "Orders and orders, which differ in case alone" in outcome.err
