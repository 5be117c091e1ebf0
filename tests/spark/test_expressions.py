"""Expressions that raise in Spark, on real Spark: one bad record is a null, and the good ones around it go on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.spark_functions.table import ALLOWED, NO_FUNCTION, function_named
from lakehouse.semantics.record import Record
from lakehouse.spark.table.checked import check_application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "n int, p string, t string, xs array<int>, m string, z int, day date, at timestamp, flag boolean, nested string, "
    "start int"
)
# With ANSI mode off each raises on the bad record, and gives the value on the good one.
RAISING: dict[str, Any] = {
    "element_at(xs, z)": 7, "element_at(xs, z - z)": None, "coalesce(element_at(xs, z), -1)": 7,
    "upper(cast(element_at(xs, z) AS string))": "7", "lower(cast(element_at(xs, z) AS string))": "7",
    "t RLIKE p": True, "regexp_replace(t, p, 'x')": "bxc", "regexp_extract(t, p, 0)": "a", "size(split(t, p))": 2,
    "regexp_count(t, p)": 1, "regexp_instr(t, p)": 2, "regexp_substr(t, p)": "a", "regexp_like(t, p)": True,
    "regexp_extract(t, 'a', z - 1)": "a", "str_to_map(m)['a']": "1", "size(sequence(1, n, z))": 2,
    "slice(xs, z, 1)[0]": 7, "parse_json(p) IS NULL": True, "to_binary(p, 'hex') IS NULL": False,
    "map_from_arrays(array(n), array(p))[2]": "a", "map(n, 1, z, 2)[1]": 2, "array_insert(xs, z, 5)[0]": 5,
    "bit_get(n, z)": 1, "date_format(at, p)": "AM", "from_utc_timestamp(at, 'UTC') = at": True,
    "from_utc_timestamp(at, p) IS NULL": True, "format_string(concat('%', m), n) IS NULL": True,
    "date_from_unix_date(if(z = 1, 0, n)) < at": True, "size(array(date_from_unix_date(if(z = 1, 0, n)), at))": 2,
    "greatest(date_from_unix_date(if(z = 1, 0, n)), at) = at": True,
    "add_months(day, n * z * 1073741823) IS NULL": True, "transform(xs, x -> element_at(xs, z))[0]": 7,
    "CASE WHEN n > 0 THEN element_at(xs, z) ELSE 3 END": 7, "named_struct('a', element_at(xs, z)).a": 7,
    "element_at(xs, z) + element_at(xs, z)": 14, "decode(encode(t, 'utf-8'), p) IS NULL": True, "p LIKE p": True,
    "aes_decrypt(encode(t, 'utf-8'), p) IS NULL": True,
    "url_decode(concat(t, if(z = 1, '', '%'))) = t": True,
    "hour(cast(m AS timestamp))": None, "cast(if(z = 1, '2020-01-01 12:30', '12:30') AS timestamp) IS NULL": False,
    "hour(if(z = 1, '2020-01-01 12:30', '12:30'))": 12,
    "to_timestamp(if(z = 1, '2020-01-01', 'T12:30')) IS NULL": False,
    "try_to_timestamp(if(z = 1, '2020-01-01', '12:30')) IS NULL": False,
    "timestampadd(HOUR, 1, if(z = 1, '2020-01-01', '12:30')) IS NULL": False,
    "timestampdiff(HOUR, if(z = 1, '2020-01-01', '12:30'), at)": 0,
    "cast(unhex(if(z = 1, '41', 'ff')) AS string)": "A", "upper(unhex(if(z = 1, '61', 'ff')))": "A",
    "cast(parse_json(if(z = 1, '1', '\"a\"')) AS double)": 1.0, "cast(parse_json('[3000000000]') AS array<int>)": None,
    "cast(array(n * 2000000000L, 7L) AS array<int>)[0]": None,
    "cast(array(unhex(if(z = 1, '41', 'ff'))) AS array<string>)[0]": "A",
    "cast(map(1L + if(z = 1, 6, z * 3000000000L), 'a', 8L, 'b') AS map<int, string>)[7]": "a",
    "cast(map(if(z = 1, 1.5D, 2.2D), 'a', 2.5D, 'b') AS map<int, string>)[2]": "b",
    "cast(concat(z, 'e-999999999') AS decimal(5, 2)) = 0": True,
    "from_json(concat('{\"a\":', z, 'e-999999999}'), 'a decimal(5, 2)').a": None, "cast(z * 1e20 AS timestamp)": None,
    "try_cast(cast(z * 26614941015691377BD AS decimal(38, 18)) AS timestamp)": None,
    "try_cast(z * 9223372036854775807e0 AS bigint)": 2**63 - 1, "try_cast(z * -128.9e0 AS tinyint)": -128,
}  # fmt: skip
# Too few arguments for the guards, or a lambda with too few or too many names.
WRONG_ARGUMENTS = (
    "format_number(n)", "regexp_replace(t, p)", "printf()", "ksql_length()",
    "ksql_substring(t)", "transform_keys(m)",
    "zip_with(xs, xs, x -> concat(x, t))", "transform(xs, (a, b, c, d) -> concat(t, a))",
)  # fmt: skip
GOOD = {
    "n": 2,
    "p": "a",
    "t": "bac",
    "xs": [7, 8],
    "m": "a:1",
    "z": 1,
    "day": "2020-01-01",
    "at": "2020-01-01T00:00:00Z",
}
BAD = GOOD | {"p": "(\\", "m": "a:1,a:2", "z": 0, "n": 0}
WORST = GOOD | {"p": "[", "m": "%d", "z": -(2**31), "n": 2**31 - 1}


def record(offset: int, value: dict[str, Any] | str | None, tick: int = 1) -> Record:
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return Record("events", "id", 0, offset, offset, str(offset).encode(), data, tick, offset)


@pytest.mark.rotated
def test_what_raises_on_one_record_is_null_there_and_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    events = lh.stream("events", key="id string", schema=SCHEMA)
    made = events.select(**{f"c{number}": text for number, text in enumerate(RAISING)})
    filtered = events.filter("element_at(xs, z) = 7").rekey("coalesce(element_at(xs, z), 0) AS x").select("t")
    by_failing = events.group_by("element_at(xs, z) AS x").agg(n=lh.count("slice(xs, z, 1)"), m=lh.max("t RLIKE p"))
    having = by_failing.having("element_at(array(1, 1), cast(n AS int)) = 1")
    app = lh.app(made.latest("made"), filtered.latest("filtered"), having.table("by"))
    records = [record(0, GOOD), record(1, BAD), record(2, WORST), record(3, GOOD), record(4, {})]
    result = SparkReplay(spark, tmp_path)(app, records)
    rows = result.tables["made"]
    wanted = {f"c{number}": value for number, value in enumerate(RAISING.values())}
    named = dict(zip(wanted, RAISING, strict=True))
    for key in ("0", "3"):
        assert {named[n]: v for n, v in rows[(key,)].items()} == {named[n]: v for n, v in wanted.items()}
    assert len(rows) == 5
    assert result.tables["filtered"] == {(7,): {"t": "bac"}}
    assert result.tables["by"] == {(7,): {"n": 2, "m": True}}
    assert not result.quarantine["events"]


@pytest.mark.slow
def test_spark_and_the_model_agree_on_deep_nesting_and_a_function_that_raises(
    spark: SparkSession, tmp_path: Path
) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    def divided(total: int, value: int) -> int:
        return 100 // (value - total)

    events = lh.stream("events", key="id string", schema="g string, n bigint, deep string")
    grouped = events.group_by("g")
    own = lh.aggregate(
        "n", zero=0, add=lambda a, b: a + b if b != 3 else 1 / 0, accumulator="int", result=lambda a: 10 // a,
        returns="int", merge=lambda a, b: "no number",
    )  # fmt: skip
    functions = {
        "last": lh.reduce("n", divided),
        "wide": lh.reduce("n", lambda a, b: a * b * 2**40),
        "own": own,
        "n": lh.count(),
    }
    app = lh.app(
        events.latest("deep"),
        grouped.agg(**functions).table("plain"),
        grouped.window(lh.session("1 second")).agg(**functions).table("sessions"),
    )
    values: list[dict[str, Any] | str | None] = [{"g": "a", "n": n} for n in (1, 3, 3, None, 5, 2, 0, 7, -(2**40))]
    for levels in (600, 999, 1000, 5000):
        nested = "[" * levels + "]" * levels
        values += [f'{{"g": "b", "n": 1, "deep": {nested}}}', f'{{"g": "b", "n": {nested}}}', f'{{"other": {nested}}}']
    records = [
        record(n, value, n * 4 // (len(values) + 1) + 1) for n, value in enumerate([*values, {"g": "last", "n": 1}])
    ]
    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, tmp_path)(app, records)
    assert [pair[0].offset for pair in result.quarantine["events"]] == [
        r.offset for r, _ in expected.quarantine["events"]
    ]
    assert [reason for _, reason in result.quarantine["events"]] == [
        reason for _, reason in expected.quarantine["events"]
    ]
    assert ("last",) in result.tables["plain"]
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name


@pytest.mark.rotated
def test_faults_that_only_spark_can_tell_are_refused_before_anything_is_written(spark: SparkSession) -> None:
    events = lh.stream("events", key="id string", schema=SCHEMA)
    by = events.group_by("id")
    refused = [
        (events.filter("size(t) = 1").latest("a"), r"stream 'events': filter: Spark can't take .*size\(t\)"),
        (events.rekey("split(t, '(') AS k").latest("a"), r"'\(' is not a pattern: Unclosed group"),
        (events.select("str_to_map(t, ',', '[') AS k").latest("a"), r"'\[' is not a pattern: Unclosed character"),
        (events.select("regexp_substr(t, '(') AS k").latest("a"), r"'\(' is not a pattern: Unclosed group"),
        (events.select("collate(t, 'NOPE') AS k").latest("a"), r"Spark can't take .*: \[COLLATION_INVALID_NAME\]"),
        (
            by.agg(n=lh.max("regexp_replace(t, '[', p)")).table("a"),
            r"table 'a': .*'\[' is not a pattern: Unclosed character",
        ),
        (
            events.select("at - interval '1' dayy AS x").latest("a"),
            r"Spark can't take .*: \[INVALID_TYPED_LITERAL\] .*INTERVAL",
        ),
        (events.select(f"{'9' * 41}.5 AS x").latest("a"), r"Spark can't take .*: \[DECIMAL_PRECISION"),
        (by.agg(n=lh.count("substring(t)")).table("a"), r"table 'a': Spark can't take 'substring\(t\)'"),
        *(
            (events.filter(f"{call} IS NULL").latest("a"), f"filter: Spark can't take '{re.escape(call)} IS NULL'")
            for call in WRONG_ARGUMENTS
        ),
    ]
    for table, message in refused:
        # The message begins with the line above that declares it, and ends with this line.
        with pytest.raises(PlanError, match=rf"^\S*test_expressions\.py:\d+: .*{message}(.|\n)*\n    \S"):
            check_application(spark, lh.app(table))
    check_application(
        spark,
        lh.app(events.filter(r"t RLIKE '^\\d+(?<name>a)\\p{L}++$'").latest("a"), events.filter("flag").to_topic("b")),
    )


@pytest.mark.parametrize("text", ["interval 1 day", "array(at - at)", "named_struct('y', interval 2 months)"])
def test_a_column_of_a_type_that_a_table_cannot_keep_is_refused(spark: SparkSession, text: str) -> None:
    events = lh.stream("events", key="id string", schema=SCHEMA)
    with pytest.raises(PlanError, match=r"table 'a': column 'x' has the type interval .*, which a table can't keep"):
        check_application(spark, lh.app(events.select(f"{text} AS x").latest("a")))


def test_a_map_is_published_with_texts_as_keys_whoever_tells_its_type(spark: SparkSession) -> None:
    """What the plan knows, it refuses: tests/plan/test_declare.py."""
    events = lh.stream("events", key="id string", schema=SCHEMA)
    by_number = events.select("map_from_entries(array(struct(n, t))) AS m")
    message = r"to_topic\('out'\): column 'm': the keys of a map in JSON are texts, found (int|bigint)\. Cast them"
    for sink in (by_number.to_topic("out"), by_number.latest("last").changes().to_topic("out")):
        with pytest.raises(PlanError, match=message):
            check_application(spark, lh.app(sink))
    by_text = by_number.select("transform_keys(m, (k, v) -> cast(k AS string)) AS m")
    check_application(spark, lh.app(by_text.to_topic("out"), by_number.latest("kept")))


def test_a_join_on_a_type_that_only_spark_knows_is_refused_if_it_is_another(spark: SparkSession) -> None:
    events = lh.stream("events", key="id string", schema="m map<string, int>, d decimal(12, 2), a bigint")
    table = lh.stream("names", key="name string", schema="b bigint").latest("names")
    prices = lh.stream("prices", key="price decimal(12, 2)", schema="b bigint", key_format="json").latest("prices")
    refused = (
        (events.join(table, on="m['a']", prefix="n_").latest("a"), "'m.*' is a int, and the key 'name' .* a string"),
        (events.latest("e").join(table, on="m['a']", prefix="n_").table("a"), "'m.*' is a int, and the key 'name'"),
        (events.join(prices, on="d * 2", prefix="n_").latest("a"), r"is a decimal\(.*\), and the key 'price' .* a dec"),
    )  # fmt: skip
    for joined, message in refused:
        with pytest.raises(PlanError, match=message):
            check_application(spark, lh.app(joined))
    check_application(spark, lh.app(events.join(table, on="cast(m['a'] AS string)", prefix="n_").latest("a")))


def test_streams_that_meet_with_types_that_only_spark_knows_are_refused_if_these_differ(spark: SparkSession) -> None:
    left = lh.stream("left", key="id string", schema="v bigint")
    right = lh.stream("right", key="r string", schema="s struct<k: int>, m map<string, string>")
    by_number = right.rekey("s.k AS k")
    with pytest.raises(PlanError, match="'id' is a string, and 'k' of the other stream a int"):
        check_application(spark, lh.app(left.join(by_number, within="1 hour", prefix="r_").latest("met")))
    by_text = right.rekey("cast(s.k AS string) AS k")
    check_application(spark, lh.app(left.join(by_text, within="1 hour", prefix="r_").latest("met")))
    with pytest.raises(PlanError, match="'v' is a int, and 'v' of the other stream a string"):
        check_application(spark, lh.app(right.select(v="s.k").merge(right.select(v="m['q']")).latest("merged")))
    check_application(spark, lh.app(right.select(v="m['p']").merge(right.select(v="m['q']")).latest("merged")))


@pytest.mark.parametrize(
    ("order_by", "message"),
    [
        ("s.a", "order_by=s.a is a double; expected a timestamp, or a number as a bigint"),
        ("m['a']", "is a string; expected a timestamp"),
        ("abs(amount)", r"is a decimal\(10,2\); expected a timestamp"),
        ("s.at", "is a timestamp inside of another value, and a delete would have none; expected a column"),
        ("s.n", None),
        ("nullif(n, 0)", None),
        ("rowtime", None),
    ],
)
def test_an_order_of_a_type_that_only_spark_knows_is_refused_if_it_is_none(
    spark: SparkSession, order_by: str, message: str | None
) -> None:
    schema = "s struct<a: double, at: timestamp, n: int>, m map<string, string>, amount decimal(10, 2), n bigint"
    app = lh.app(lh.stream("events", key="id string", schema=schema).latest("newest", order_by=order_by))
    if message is None:
        check_application(spark, app)
        return
    with pytest.raises(PlanError, match=message):
        check_application(spark, app)


@pytest.mark.parametrize("text", ["array()", "map()", "array(null)", "named_struct('y', array(map(t, null)))"])
def test_a_column_whose_parts_have_no_type_is_refused(spark: SparkSession, text: str) -> None:
    events = lh.stream("events", key="id string", schema=SCHEMA)
    with pytest.raises(PlanError, match=r"table 'a': column 'x' has the type .*void.*: nothing tells the type"):
        check_application(spark, lh.app(events.select(f"{text} AS x").latest("a")))


def test_every_function_of_spark_is_allowed_or_refused(spark: SparkSession) -> None:
    names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect() if row[0][0].isalpha()}
    names -= {"and", "between", "case", "div", "in", "is", "not", "or", "when", "xor"}
    assert sorted(name for name in names if function_named(name) is NO_FUNCTION) == []
    syntax = {"timestampadd", "timestampdiff", "try_cast"}
    assert sorted(ALLOWED - names - syntax) == []


UNUSABLE = [
    "date_format(at, 'QQQQQQ')", "to_date(t, 'yyyy-bb')", "to_timestamp(t, '{')", "from_unixtime(n, 'e')",
    "unix_timestamp(t, 'YYYY')", "to_utc_timestamp(at, 'Nowhere')", "convert_timezone('UTC', 'Mars/North', at)",
    "transform(ts, x -> to_date(x, 'bb'))", "if(n > 9, t, date_format(at, 'QQQQQQ'))",
    "date_format(cast(t AS timestamp), 'bb')", "to_char(at, 'bb')", "format_string('%d', t)",
    "format_string('%s %s', t)", "from_json(t, 'a timestamp', map('timestampFormat', 'bb'))", "xpath(t, 'bad[')",
    "to_csv(named_struct('a', at), map('timestampFormat', 'bb'))", "date_format(day, 'bb')",
]  # fmt: skip
USABLE = [
    "date_format(at, t)", "to_utc_timestamp(at, t)", "from_utc_timestamp(at, substring(t, 1, 4))", "to_date(t, ts[0])",
    "to_timestamp(t, 'yyyy-MM-dd[ HH:mm]')", "to_utc_timestamp(at, concat('Europe/', t))", "from_unixtime(n)",
    "format_string('%d %s', n, t)", "from_json(t, 'a timestamp', map('timestampFormat', 'yyyy'))", "xpath(t, 'a/b')",
]  # fmt: skip


@pytest.mark.rotated
def test_a_format_that_spark_cannot_use_is_refused_before_the_first_tick(spark: SparkSession) -> None:
    schema = "t string, ts array<string>, at timestamp, n bigint, day date, b binary"
    events = lh.stream("events", key="id string", schema=schema)
    check_application(spark, lh.app(*(events.select(x=text).latest(f"t{n}") for n, text in enumerate(USABLE))))
    refused = [events.select(x=text).latest("a") for text in UNUSABLE]
    refused += [
        events.group_by("id").agg(x=lh.max(UNUSABLE[0])).table("a"),
        events.group_by("id").agg(x=lh.max("at")).having("date_format(x, 'QQQQQQ') = ''").table("a"),
        lh.stream("events", key="id string", schema="t string", event_time="to_timestamp(t, 'bb')").latest("a"),
    ]
    for table in refused:
        with pytest.raises(PlanError, match="Spark can't use its format, its time zone or its path: "):
            check_application(spark, lh.app(table))


# sqlglot does not know these types, so the declaration accepts them; Spark would cast the text to a timestamp.
IMPLICIT = [
    "nvl(get(ts, 0), at) > at", "get(ts, 0) = at", "get(ts, 0) BETWEEN at AND at",
    "CASE get(ts, 0) WHEN at THEN true END", "exists(ts, x -> x < at)", "map(at, 1)[t] = 1",
    "date(t + interval 1 hour) = day",
]  # fmt: skip
EXPLICIT = [
    "cast(get(ts, 0) AS timestamp) > at", "nvl(get(ts, 0), at) = t", "get(ts, 0) IN (at)",
    "exists(ts, x -> cast(x AS timestamp) < at)", "element_at(array(at), 1) > '2020-01-01 12:30'",
    "hour(get(ts, 0)) = 1",
    "timestampadd(HOUR, 1, get(ts, 0)) > at", "date(t) = day", "get(ts, 0) = day",
    # Their elements are cast one by one, each as a cast alone is.
    "size(cast(ts AS array<timestamp>)) > 0", "cast(map('a', t) AS map<string, timestamp>)['a'] = at",
]  # fmt: skip


@pytest.mark.rotated
def test_a_text_that_spark_alone_would_cast_to_a_moment_is_refused_before_the_first_tick(spark: SparkSession) -> None:
    schema = "t string, ts array<string>, at timestamp, day date"
    events = lh.stream("events", key="id string", schema=schema)
    by = events.group_by("id")
    taken = [events.filter(text).latest(f"t{number}") for number, text in enumerate(EXPLICIT)]
    check_application(spark, lh.app(*taken))
    refused = [events.filter(text).latest("a") for text in IMPLICIT]
    refused += [
        by.agg(n=lh.max("get(ts, 0) > at")).table("a"),
        events.group_by("get(ts, 0) > at AS x").agg(n=lh.count()).table("a"),
        by.agg(first=lh.min("t"), last=lh.max("at")).having("nvl(get(array(first), 0), last) > last").table("a"),
        events.latest("a", order_by="if(get(ts, 0) > at, 1, 2)"),
    ]
    for table in refused:
        with pytest.raises(PlanError, match=r"as a timestamp: '12:30' would be of the day"):
            check_application(spark, lh.app(table))


# The record decides: n is 2 or far too large; k is a key or null.
MAPS = {
    "map(t, 1, k, 2)": {"x": 1, "a": 2}, "map_from_arrays(array(t, k), array(1, 2))": {"x": 1, "a": 2},
    "map_from_entries(array(struct(t AS a, 1 AS b), struct(k AS a, 2 AS b)))": {"x": 1, "a": 2},
    "transform_keys(map('x', 1, 'y', 2), (key, v) -> if(v = 2, k, key))": {"x": 1, "a": 2},
    "map_concat(map(t, 1), map(k, 2))": {"x": 1, "a": 2}, "map(t, 1)": {"x": 1},
}  # fmt: skip
SIZES = {
    "length(repeat(t, n))": 2, "length(space(n))": 2, "length(lpad(t, n, 'y'))": 2, "length(rpad(t, n))": 2,
    "size(array_repeat(t, n))": 2, "size(sequence(1, n))": 2, "size(sequence(n, 1, -1))": 2,
    "size(sequence(1, big, 1))": 2, "size(array_insert(array(1), n, 2))": 2, "length(repeat(repeat(t, n), n))": 4,
    "size(sequence(at, at + make_interval(0, 0, 0, n - 1), interval 1 day))": 2,
    "size(sequence(at, timestampadd(SECOND, n - 1, at), make_dt_interval(0, 0, 0, 1)))": 2,
    "size(sequence(day, date_add(day, n - 1)))": 2, "size(sequence(n, 2, n - n))": 1,
    "size(array_repeat(if(n = 3, t, null), n))": 2,
}  # fmt: skip


@pytest.mark.rotated
def test_a_map_that_fails_leaves_nothing_in_the_next_records_map(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's map builder kept the keys of the map that failed, or an assertion ended the job."""
    from lakehouse.run.scenario.replay import SparkReplay

    events = lh.stream("events", key="id string", schema="t string, k string")
    made = events.select(**{f"c{number}": text for number, text in enumerate(MAPS)})
    good, twice, null = ({"t": "x", "k": "a"}, {"t": "y", "k": "y"}, {"t": "z", "k": None})
    records = [record(n, value) for n, value in enumerate((good, twice, null, good, twice, null, good))]
    rows = SparkReplay(spark, tmp_path)(lh.app(made.latest("made")), records).tables["made"]
    for key in "036":
        assert dict(zip(MAPS, rows[(key,)].values(), strict=True)) == MAPS
    for key in "14":
        assert dict(zip(MAPS, rows[(key,)].values(), strict=True))["map(t, 1, k, 2)"] == {"y": 2}
    for key in "25":
        assert list(rows[(key,)].values())[:-1] == [None] * (len(MAPS) - 1)


@pytest.mark.rotated
def test_what_would_take_all_the_memory_is_null(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    events = lh.stream("events", key="id string", schema="t string, n int, big bigint, at timestamp, day date")
    made = events.select(**{f"c{number}": text for number, text in enumerate(SIZES)})
    few = {"t": "x", "n": 2, "big": 2, "at": "2020-01-01T00:00:00Z", "day": "2020-01-01"}
    many = few | {"n": 2_000_000_000, "big": 2**62}
    records = [record(0, few), record(1, many), record(2, few)]
    rows = SparkReplay(spark, tmp_path)(lh.app(made.latest("made")), records).tables["made"]
    for key in "02":
        assert dict(zip(SIZES, rows[(key,)].values(), strict=True)) == SIZES
    # Spark gives -1 as the size of a null.
    assert {
        name: value for name, value in zip(SIZES, rows[("1",)].values(), strict=True) if value not in (None, -1)
    } == {}
